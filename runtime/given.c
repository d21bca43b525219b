/* SPDX-License-Identifier: Apache-2.0 */
#include "given.h"

#include <inttypes.h>

#include "../ops/dtype.h"
#include "../ops/fail.h"
#include "../ops/tensor_scatter.h"
#include "tensor.h"

/* ---- Each by itself ---- */

static kvmill_status check_type(const struct given_tensors *given, int which,
                                const DLTensor *tensor) {
    const struct tensor_rule *rule = &given->rules[which];
    bool has_other = rule->or_type.bits != 0;
    if (kvmill_dtype_equal(tensor->dtype, rule->type) ||
        (has_other && kvmill_dtype_equal(tensor->dtype, rule->or_type)))
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_DTYPE, "%s has type %s; accepted: %s%s%s", rule->name,
                       kvmill_dtype_name(tensor->dtype), kvmill_dtype_name(rule->type),
                       has_other ? ", " : "", has_other ? kvmill_dtype_name(rule->or_type) : "");
}

static kvmill_status check_size(const struct given_tensors *given, int which,
                                const DLTensor *tensor) {
    struct kvmill_shape_text words;
    const char *name = given->rules[which].name;
    int64_t most = kvmill_dtype_most(tensor->dtype), count = kvmill_element_count(tensor);
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0)
            return kvmill_fail(given->error, KVMILL_E_SHAPE,
                               "dim %d of %s is %" PRId64 "; accepted: 0 or more", d, name,
                               tensor->shape[d]);
    if (count < 0 || count > most)
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "%s has shape %s; accepted: at most %" PRId64 " elements", name,
                           kvmill_shape_words(tensor, &words), most);
    return KVMILL_OK;
}

static kvmill_status check_rows(const struct given_tensors *given, int which,
                                const DLTensor *tensor) {
    const char *name = given->rules[which].name;
    int last = tensor->ndim - 1;
    if (kvmill_dtype_bits(tensor->dtype) == 4 && !kvmill_tensor_is_dense_from(tensor, 0))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "%s has strides; accepted for 4-bit types: row-major without gaps",
                           name);
    if (given->rules[which].rows && last >= 0 && tensor->shape[last] > 1 &&
        tensor->strides[last] != 1)
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the last dim of %s has stride %" PRId64 "; accepted: 1", name,
                           tensor->strides[last]);
    return KVMILL_OK;
}

static kvmill_status check_strides(const struct given_tensors *given, int which,
                                   const DLTensor *tensor) {
    const char *name = given->rules[which].name;
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return KVMILL_OK;
    if (!kvmill_tensor_is_reachable(tensor))
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "the strides of %s reach further than PTRDIFF_MAX bytes", name);
    if (given->rules[which].output && !kvmill_tensor_is_injective(tensor))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the strides of %s let elements overlap; accepted: one place each",
                           name);
    return check_rows(given, which, tensor);
}

static kvmill_status check_memory(const struct given_tensors *given, int which,
                                  const DLTensor *tensor) {
    const char *name = given->rules[which].name;
    if (tensor->device.device_type != kDLCPU)
        return kvmill_fail(given->error, KVMILL_E_DEVICE,
                           "%s is on device type %d; accepted: kDLCPU (%d)", name,
                           (int)tensor->device.device_type, (int)kDLCPU);
    if (tensor->data == NULL && !kvmill_tensor_is_empty(tensor))
        return kvmill_fail(given->error, KVMILL_E_NULL,
                           "the data of %s is NULL; it has %" PRId64 " elements", name,
                           kvmill_element_count(tensor));
    return KVMILL_OK;
}

static kvmill_status check_tensor(const struct given_tensors *given, int which,
                                  const DLTensor *tensor) {
    kvmill_status status = check_type(given, which, tensor);
    if (status == KVMILL_OK)
        status = check_size(given, which, tensor);
    if (status == KVMILL_OK)
        status = check_strides(given, which, tensor);
    return status == KVMILL_OK ? check_memory(given, which, tensor) : status;
}

static kvmill_status refuse_presence(const struct given_tensors *given, int which) {
    const struct tensor_rule *rule = &given->rules[which];
    if (rule->presence == REQUIRED)
        return kvmill_fail(given->error, KVMILL_E_NULL, "%s is NULL; a tensor is required",
                           rule->name);
    return kvmill_fail(given->error, KVMILL_E_SHAPE,
                       "%s is given; accepted: NULL, this %s has none", rule->name, given->op);
}

static bool counts_as_absent(const struct tensor_rule *rule, const DLTensor *tensor) {
    return tensor == NULL || rule->presence == IGNORED ||
           (rule->empty_is_absent && kvmill_tensor_is_empty(tensor));
}

kvmill_status kvmill_check_given(const struct given_tensors *given,
                                 const DLTensor *const *tensors) {
    for (int i = 0; i < given->count; i++) {
        const struct tensor_rule *rule = &given->rules[i];
        const DLTensor *tensor = tensors[i];
        if ((rule->presence == REQUIRED && tensor == NULL) ||
            (rule->presence == ABSENT && tensor != NULL))
            return refuse_presence(given, i);
        given->tensors[i] = counts_as_absent(rule, tensor) ? NULL : tensor;
        kvmill_status status = given->tensors[i] ? check_tensor(given, i, tensor) : KVMILL_OK;
        if (status != KVMILL_OK)
            return status;
    }
    return KVMILL_OK;
}

/* ---- Shapes ---- */

static bool has_shape(const DLTensor *tensor, int rank, const int64_t *dims) {
    bool same = tensor->ndim == rank;
    for (int d = 0; same && d < rank; d++)
        same = dims[d] == KVMILL_DYNAMIC || dims[d] == tensor->shape[d];
    return same;
}

kvmill_status kvmill_check_shape(const struct given_tensors *given, int which, int rank,
                                 const int64_t *dims) {
    struct kvmill_shape_text have, want;
    const DLTensor *tensor = given->tensors[which];
    const DLTensor wanted = {.ndim = rank, .shape = (int64_t *)dims};
    if (has_shape(tensor, rank, dims))
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_SHAPE, "%s has shape %s; accepted: %s",
                       given->rules[which].name, kvmill_shape_words(tensor, &have),
                       kvmill_shape_words(&wanted, &want));
}

/* ---- Overlaps ---- */

static kvmill_status refuse_overlap(const struct given_tensors *given, int output, int other) {
    return kvmill_fail(given->error, KVMILL_E_ALIAS, "%s overlaps %s; accepted: memory of its own",
                       given->rules[other].name, given->rules[output].name);
}

static bool may_overlap(const struct given_tensors *given, int output, int other) {
    return given->may_overlap != NULL && given->may_overlap(given, output, other);
}

kvmill_status kvmill_check_overlaps(const struct given_tensors *given) {
    struct tensor_span spans[MOST_GIVEN] = {{0, 0}};
    for (int i = 0; i < given->count; i++)
        if (given->tensors[i] != NULL)
            spans[i] = kvmill_tensor_span_of(given->tensors[i]);
    for (int o = 0; o < given->count; o++)
        for (int i = 0; spans[o].end > 0 && given->rules[o].output && i < given->count; i++)
            if (i != o && spans_overlap(spans[o], spans[i]) && !may_overlap(given, o, i))
                return refuse_overlap(given, o, i);
    return KVMILL_OK;
}
