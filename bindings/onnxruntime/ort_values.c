/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_values.h"

static const DLDataType types[] = {
    [1] = {kDLFloat, 32, 1},
    [2] = {kDLUInt, 8, 1},
    [3] = {kDLInt, 8, 1},
    [4] = {kDLUInt, 16, 1},
    [5] = {kDLInt, 16, 1},
    [6] = {kDLInt, 32, 1},
    [7] = {kDLInt, 64, 1},
    [9] = {KVMILL_DL_BOOL, 8, 1},
    [10] = {kDLFloat, 16, 1},
    [11] = {kDLFloat, 64, 1},
    [12] = {kDLUInt, 32, 1},
    [13] = {kDLUInt, 64, 1},
    [14] = {kDLComplex, 64, 1},
    [15] = {kDLComplex, 128, 1},
    [16] = {kDLBfloat, 16, 1},
    [17] = {KVMILL_DL_FLOAT8_E4M3FN, 8, 1},
    [18] = {KVMILL_DL_FLOAT8_E4M3FNUZ, 8, 1},
    [19] = {KVMILL_DL_FLOAT8_E5M2, 8, 1},
    [20] = {KVMILL_DL_FLOAT8_E5M2FNUZ, 8, 1},
    [21] = {kDLUInt, 4, 1},
    [22] = {kDLInt, 4, 1},
    [23] = {KVMILL_DL_FLOAT4_E2M1FN, 4, 1},
};
enum { TYPES = sizeof types / sizeof *types };

DLDataType value_type(unsigned type) {
    return type < TYPES ? types[type] : (DLDataType){0, 0, 0};
}

unsigned value_type_number(DLDataType type) {
    unsigned number = TYPES - 1;
    while (number > 0 && (types[number].code != type.code || types[number].bits != type.bits))
        number--;
    return number;
}

/* Reads the type and shape with functions of old runtimes; the newer function allocates nothing. */
static OrtStatus *look_at(const OrtValue *value, unsigned *type, int64_t dims[MOST_RANK],
                          size_t *rank) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *status = ort->GetTensorTypeAndShape(value, &info);
    if (status == NULL)
        status = ort->GetTensorElementType(info, type);
    if (status == NULL)
        status = ort->GetDimensionsCount(info, rank);
    if (status == NULL && *rank <= MOST_RANK)
        status = ort->GetDimensions(info, dims, *rank);
    ort->ReleaseTensorTypeAndShapeInfo(info);
    return status;
}

OrtStatus *value_tensor(OrtValue *value, DLTensor *tensor, int64_t dims[MOST_RANK]) {
    const int64_t *shape = dims;
    unsigned type = 0;
    size_t count = 0;
    void *data = NULL;
    OrtStatus *status =
        runtime_is_old
            ? look_at(value, &type, dims, &count)
            : ort->GetTensorElementTypeAndShapeDataReference(value, &type, &shape, &count);
    if (status == NULL)
        status = ort->GetTensorMutableData(value, &data);
    *tensor = (DLTensor){.data = data,
                         .device = {kDLCPU, 0},
                         .ndim = (int)count,
                         .dtype = value_type(type),
                         .shape = (int64_t *)(uintptr_t)shape};
    return status;
}

int64_t value_count(const DLTensor *tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

int64_t value_bytes(const DLTensor *tensor) {
    return (value_count(tensor) * tensor->dtype.bits + 7) / 8;
}
