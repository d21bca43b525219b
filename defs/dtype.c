/* SPDX-License-Identifier: Apache-2.0 */
#include "dtype.h"

#include <string.h>

/* The 24 types of ONNX TensorScatter-24; a string element is an opaque handle, of 8 or 16 bytes. */
static const struct kvmill_dtype dtypes[] = {
    {"float16", NULL, {kDLFloat, 16, 1}},
    {"bfloat16", NULL, {kDLBfloat, 16, 1}},
    {"float32", "float", {kDLFloat, 32, 1}},
    {"float64", "double", {kDLFloat, 64, 1}},
    {"int8", NULL, {kDLInt, 8, 1}},
    {"int16", NULL, {kDLInt, 16, 1}},
    {"int32", NULL, {kDLInt, 32, 1}},
    {"int64", NULL, {kDLInt, 64, 1}},
    {"uint8", NULL, {kDLUInt, 8, 1}},
    {"uint16", NULL, {kDLUInt, 16, 1}},
    {"uint32", NULL, {kDLUInt, 32, 1}},
    {"uint64", NULL, {kDLUInt, 64, 1}},
    {"bool", NULL, {KVMILL_DL_BOOL, 8, 1}},
    {"complex64", NULL, {kDLComplex, 64, 1}},
    {"complex128", NULL, {kDLComplex, 128, 1}},
    {"string", NULL, {kDLOpaqueHandle, 64, 1}},
    {"string128", NULL, {kDLOpaqueHandle, 128, 1}},
    {"float8e4m3fn", NULL, {KVMILL_DL_FLOAT8_E4M3FN, 8, 1}},
    {"float8e4m3fnuz", NULL, {KVMILL_DL_FLOAT8_E4M3FNUZ, 8, 1}},
    {"float8e5m2", NULL, {KVMILL_DL_FLOAT8_E5M2, 8, 1}},
    {"float8e5m2fnuz", NULL, {KVMILL_DL_FLOAT8_E5M2FNUZ, 8, 1}},
    {"float8e8m0", NULL, {KVMILL_DL_FLOAT8_E8M0FNU, 8, 1}},
    {"int4", NULL, {kDLInt, 4, 1}},
    {"uint4", NULL, {kDLUInt, 4, 1}},
    {"float4e2m1", NULL, {KVMILL_DL_FLOAT4_E2M1FN, 4, 1}},
};

const struct kvmill_dtype *kvmill_dtype_at(size_t i) {
    return i < sizeof dtypes / sizeof *dtypes ? &dtypes[i] : NULL;
}

static bool is_named(const struct kvmill_dtype *dtype, const char *name) {
    return strcmp(dtype->name, name) == 0 || (dtype->alias && strcmp(dtype->alias, name) == 0);
}

const struct kvmill_dtype *kvmill_dtype_by_name(const char *name) {
    const struct kvmill_dtype *dtype;
    for (size_t i = 0; (dtype = kvmill_dtype_at(i)) != NULL; i++)
        if (is_named(dtype, name))
            return dtype;
    return NULL;
}

static const struct kvmill_dtype *find(DLDataType type) {
    const struct kvmill_dtype *dtype;
    for (size_t i = 0; (dtype = kvmill_dtype_at(i)) != NULL; i++)
        if (kvmill_dtype_equal(dtype->dl, type))
            return dtype;
    return NULL;
}

const char *kvmill_dtype_name(DLDataType type) {
    const struct kvmill_dtype *dtype = find(type);
    return dtype ? dtype->name : "an unknown type";
}

bool kvmill_dtype_known(DLDataType type) {
    return find(type) != NULL;
}
