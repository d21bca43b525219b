/* SPDX-License-Identifier: Apache-2.0 */
#include "shaped.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../ops/dtype.h"
#include "../ops/element.h"
#include "../ops/fail.h"
#include "tensor.h"

void kvmill_shaped_set(struct shaped *shaped, const char *name, DLDataType dtype, int rank,
                       const int64_t *dims) {
    snprintf(shaped->name, sizeof shaped->name, "%s", name);
    shaped->is_output = false;
    shaped->replaces = KVMILL_NOT_THERE;
    shaped->dtype = dtype;
    shaped->rank = rank;
    if (rank > 0)
        memcpy(shaped->dims, dims, (size_t)rank * sizeof *dims);
}

/* The tensor as the bytes it is made of: elements of fewer than 8 bits take a byte each. */
static DLTensor bytes_of(const DLTensor *tensor) {
    DLTensor bytes = *tensor;
    bytes.dtype = (DLDataType){kDLUInt, (uint8_t)(kvmill_element_bytes(tensor->dtype) * 8), 1};
    return bytes;
}

static kvmill_status check_shape(const struct shaped *shaped, const DLTensor *tensor,
                                 kvmill_error *error) {
    struct kvmill_shape_text have, want;
    DLTensor wanted = {.ndim = shaped->rank, .shape = (int64_t *)(uintptr_t)shaped->dims};
    if (!kvmill_dtype_equal(tensor->dtype, shaped->dtype))
        return kvmill_fail(error, KVMILL_E_DTYPE, "%s has type %s; accepted: the plan's, %s",
                           shaped->name, kvmill_element_word(tensor->dtype),
                           kvmill_element_word(shaped->dtype));
    bool same = tensor->ndim == shaped->rank;
    for (int d = 0; same && d < shaped->rank; d++)
        same = tensor->shape[d] == shaped->dims[d];
    if (same)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has shape %s; accepted: the plan's, %s",
                       shaped->name, kvmill_shape_words(tensor, &have),
                       kvmill_shape_words(&wanted, &want));
}

static kvmill_status check_memory(const struct shaped *shaped, const DLTensor *tensor,
                                  kvmill_error *error) {
    DLTensor bytes = bytes_of(tensor);
    if (tensor->device.device_type != kDLCPU)
        return kvmill_fail(error, KVMILL_E_DEVICE, "%s is on device type %d; accepted: kDLCPU (%d)",
                           shaped->name, (int)tensor->device.device_type, (int)kDLCPU);
    if (tensor->data == NULL && !kvmill_tensor_is_empty(tensor))
        return kvmill_fail(error, KVMILL_E_NULL, "the data of %s is NULL; it has elements",
                           shaped->name);
    if (!kvmill_tensor_is_reachable(&bytes))
        return kvmill_fail(error, KVMILL_E_STRIDE,
                           "the strides of %s lead beyond what a pointer can reach", shaped->name);
    if (shaped->is_output && !kvmill_tensor_is_injective(&bytes))
        return kvmill_fail(error, KVMILL_E_STRIDE,
                           "the strides of %s let elements overlap; accepted: one place each",
                           shaped->name);
    return KVMILL_OK;
}

static kvmill_status check_overlap(const struct shaped *shaped, int a, int b,
                                   const DLTensor *const *tensors, kvmill_error *error) {
    DLTensor first = bytes_of(tensors[a]), second = bytes_of(tensors[b]);
    if (a == b || !spans_overlap(kvmill_tensor_span_of(&first), kvmill_tensor_span_of(&second)))
        return KVMILL_OK;
    if (shaped[a].replaces == b && kvmill_tensor_is_same_memory(&first, &second))
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_ALIAS, "%s overlaps %s; accepted: apart%s", shaped[b].name, shaped[a].name,
        shaped[a].replaces == b ? ", or the same memory and strides (in place)" : "");
}

static kvmill_status check_overlaps(const struct shaped *shaped, int count,
                                    const DLTensor *const *tensors, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (int a = 0; a < count; a++)
        for (int b = 0; shaped[a].is_output && status == KVMILL_OK && b < count; b++)
            status = check_overlap(shaped, a, b, tensors, error);
    return status;
}

kvmill_status kvmill_shaped_check(const struct shaped *shaped, int count,
                                  const DLTensor *const *tensors, kvmill_error *error) {
    for (int i = 0; i < count; i++) {
        if (tensors[i] == NULL)
            return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; a tensor is required",
                               shaped[i].name);
        kvmill_status status = check_shape(&shaped[i], tensors[i], error);
        if (status == KVMILL_OK)
            status = check_memory(&shaped[i], tensors[i], error);
        if (status != KVMILL_OK)
            return status;
    }
    return check_overlaps(shaped, count, tensors, error);
}

int64_t kvmill_shaped_step(const DLTensor *tensor, int d) {
    return kvmill_tensor_stride(tensor, d) * kvmill_element_bytes(tensor->dtype);
}

int64_t kvmill_shaped_count(const struct shaped *shaped) {
    int64_t count = 1;
    for (int d = 0; d < shaped->rank; d++)
        if (shaped->dims[d] == 0)
            return 0;
    for (int d = 0; d < shaped->rank; d++)
        count *= shaped->dims[d];
    return count;
}

int64_t kvmill_load_index(DLDataType type, const unsigned char *from) {
    uint64_t value = kvmill_integer_of(type, kvmill_scalar_load(type, from).word[0]);
    return type.code == kDLUInt && value > INT64_MAX ? INT64_MAX : (int64_t)value;
}
