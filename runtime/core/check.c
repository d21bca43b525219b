/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

#include "../../defs/dtype.h"
#include "../../ops/element.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../../ops/refuse.h"
#include "tensor.h"

/* ---- Type ---- */

static const char *type_word(const struct tensor_rule *rule, DLDataType type) {
    return rule->stablehlo ? kvmill_element_word(type) : kvmill_dtype_name(type);
}

static kvmill_status check_type(const struct given_tensors *given, int which,
                                const DLTensor *tensor) {
    const struct tensor_rule *rule = &given->rules[which];
    bool has_other = rule->or_type.bits != 0 && !kvmill_dtype_equal(rule->type, rule->or_type);
    char accepted[64];
    if (kvmill_dtype_equal(tensor->dtype, rule->type) ||
        (has_other && kvmill_dtype_equal(tensor->dtype, rule->or_type)))
        return KVMILL_OK;
    snprintf(accepted, sizeof accepted, "%s%s%s", type_word(rule, rule->type),
             has_other ? ", " : "", has_other ? type_word(rule, rule->or_type) : "");
    bool has_word = rule->stablehlo && kvmill_kind_of(tensor->dtype) != KVMILL_NO_KIND;
    return kvmill_refuse_type(rule->name, tensor->dtype,
                              has_word ? kvmill_element_word(tensor->dtype) : NULL, accepted,
                              given->error);
}

/* ---- Shape ---- */

/* The dim that a rule demands. */
static int64_t meant(const struct given_tensors *given, int64_t dim) {
    if (dim >= KVMILL_DYNAMIC)
        return dim;
    int64_t place = KVMILL_DYNAMIC - 1 - dim;
    return given->tensors[place % MOST_GIVEN]->shape[place / MOST_GIVEN];
}

static bool has_shape(const struct given_tensors *given, const DLTensor *tensor, int rank,
                      const int64_t *dims) {
    bool same = tensor->ndim == rank;
    for (int d = 0; same && d < rank; d++) {
        int64_t dim = meant(given, dims[d]);
        same = dim == KVMILL_DYNAMIC || dim == tensor->shape[d];
    }
    return same;
}

kvmill_status kvmill_check_shape(const struct given_tensors *given, int which, int rank,
                                 const int64_t *dims) {
    enum { MOST_SHOWN = 64 };
    const DLTensor *tensor = given->tensors[which];
    int64_t wanted[MOST_SHOWN];
    if (has_shape(given, tensor, rank, dims))
        return KVMILL_OK;
    int shown = rank < MOST_SHOWN ? rank : MOST_SHOWN;
    for (int d = 0; d < shown; d++)
        wanted[d] = meant(given, dims[d]);
    return kvmill_refuse_shape(given->rules[which].name, tensor, shown, wanted, "", given->error);
}

/* ---- Strides ---- */

/* The tensor; for StableHLO's types, one of the bytes that it consists of. */
static const DLTensor *as_stored(const struct tensor_rule *rule, const DLTensor *tensor,
                                 DLTensor *bytes) {
    if (!rule->stablehlo)
        return tensor;
    *bytes = *tensor;
    bytes->dtype = (DLDataType){kDLUInt, (uint8_t)(kvmill_element_bytes(tensor->dtype) * 8), 1};
    return bytes;
}

static kvmill_status check_rows(const struct given_tensors *given, int which,
                                const DLTensor *tensor) {
    const struct tensor_rule *rule = &given->rules[which];
    int last = tensor->ndim - 1;
    bool nibbles = kvmill_dtype_bits(tensor->dtype) == 4;
    if ((nibbles || rule->dense) && !kvmill_tensor_is_dense_from(tensor, 0))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "%s has strides; accepted%s: row-major without gaps", rule->name,
                           nibbles ? " for 4-bit types" : "");
    if (rule->rows && last >= 0 && tensor->shape[last] > 1 && tensor->strides[last] != 1)
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the last dim of %s has stride %" PRId64 "; accepted: 1", rule->name,
                           tensor->strides[last]);
    return KVMILL_OK;
}

static kvmill_status check_strides(const struct given_tensors *given, int which) {
    const struct tensor_rule *rule = &given->rules[which];
    DLTensor bytes;
    const DLTensor *tensor = as_stored(rule, given->tensors[which], &bytes);
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return KVMILL_OK;
    if (!kvmill_tensor_is_reachable(tensor))
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "the strides of %s reach further than PTRDIFF_MAX bytes", rule->name);
    if (rule->output && !kvmill_tensor_is_injective(tensor))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the strides of %s let elements overlap; accepted: one place each",
                           rule->name);
    return check_rows(given, which, tensor);
}

kvmill_status kvmill_check_strides(const struct given_tensors *given) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < given->count; i++)
        if (given->tensors[i] != NULL && kvmill_element_count(given->tensors[i]) >= 0)
            status = check_strides(given, i);
    return status;
}

/* ---- Memory ---- */

/* Empty tensors may have no data. */
static kvmill_status refuse_memory(const struct given_tensors *given, int which) {
    const DLTensor *tensor = given->tensors[which];
    const char *name = given->rules[which].name;
    if (tensor->byte_offset > PTRDIFF_MAX)
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "the byte_offset of %s is %" PRIu64 "; accepted: 0 to %td", name,
                           tensor->byte_offset, PTRDIFF_MAX);
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

static kvmill_status check_alignment(const struct given_tensors *given, int which) {
    const DLTensor *tensor = given->tensors[which];
    unsigned char *data = tensor_data(tensor);
    int64_t bytes = kvmill_element_bytes(tensor->dtype);
    if ((uintptr_t)data % (uintptr_t)bytes == 0)
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_STRIDE,
                       "%s is at %p; accepted: multiples of %" PRId64, given->rules[which].name,
                       (void *)data, bytes);
}

kvmill_status kvmill_check_alignment(const struct given_tensors *given) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < given->count; i++)
        if (given->tensors[i] != NULL && given->rules[i].aligned)
            status = check_alignment(given, i);
    return status;
}

static bool is_in_memory(const DLTensor *tensor) {
    return tensor->device.device_type == kDLCPU && tensor->data != NULL &&
           tensor->byte_offset <= PTRDIFF_MAX;
}

kvmill_status kvmill_check_memory(const struct given_tensors *given) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < given->count; i++)
        if (given->tensors[i] != NULL && !is_in_memory(given->tensors[i]))
            status = refuse_memory(given, i);
    return status;
}

/* ---- Each tensor by itself ---- */

static kvmill_status check_tensor(const struct given_tensors *given, int which) {
    const struct tensor_rule *rule = &given->rules[which];
    const DLTensor *tensor = given->tensors[which];
    kvmill_status status = check_type(given, which, tensor);
    if (status == KVMILL_OK)
        status = kvmill_check_dims(rule->name, tensor, 0, given->error);
    if (status == KVMILL_OK && rule->dims != NULL)
        status = kvmill_check_shape(given, which, rule->rank, rule->dims);
    if (status == KVMILL_OK)
        status = check_strides(given, which);
    return status == KVMILL_OK && !is_in_memory(tensor) ? refuse_memory(given, which) : status;
}

static kvmill_status check_presence(const struct given_tensors *given, int which,
                                    const DLTensor *tensor) {
    const struct tensor_rule *rule = &given->rules[which];
    if (rule->presence == REQUIRED && tensor == NULL)
        return kvmill_refuse_null(rule->name, given->error);
    if (rule->presence == PLANNED && tensor == NULL)
        return kvmill_fail(given->error, KVMILL_E_SHAPE, "%s is NULL; the plan was made with it",
                           rule->name);
    if (rule->presence == ABSENT && tensor != NULL)
        return kvmill_fail(given->error, KVMILL_E_SHAPE,
                           "%s is given; accepted: NULL, this %s has none", rule->name, given->op);
    return KVMILL_OK;
}

static kvmill_status check_one(const struct given_tensors *given, int which,
                               const DLTensor *tensor) {
    const struct tensor_rule *rule = &given->rules[which];
    bool is_absent = tensor == NULL || rule->presence == IGNORED;
    kvmill_status status =
        is_absent ? KVMILL_OK : kvmill_check_form(rule->name, tensor, given->error);
    if (status != KVMILL_OK)
        return status;
    is_absent = is_absent || (rule->empty_is_absent && kvmill_tensor_is_empty(tensor));
    given->tensors[which] = is_absent ? NULL : tensor;
    status = check_presence(given, which, tensor);
    return status == KVMILL_OK && !is_absent ? check_tensor(given, which) : status;
}

kvmill_status kvmill_check_given(const struct given_tensors *given,
                                 const DLTensor *const *tensors) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < given->count; i++)
        status = check_one(given, i, tensors[i]);
    return status;
}

/* ---- Overlaps ---- */

static bool may_replace(const struct given_tensors *given, int output, int other) {
    return given->rules[output].in_place && given->rules[output].replaces == other;
}

static bool may_overlap(const struct given_tensors *given, int output, int other) {
    if (given->may_overlap != NULL)
        return given->may_overlap(given, output, other);
    if (given->rules[output].is_view && given->rules[other].is_view)
        return true;
    return may_replace(given, output, other) &&
           kvmill_tensor_is_same_memory(given->tensors[output], given->tensors[other]);
}

static kvmill_status refuse_overlap(const struct given_tensors *given, int output, int other) {
    return kvmill_fail(
        given->error, KVMILL_E_ALIAS, "%s overlaps %s; accepted: separate memory%s",
        given->rules[other].name, given->rules[output].name,
        may_replace(given, output, other) ? ", or the same memory and strides (in place)" : "");
}

static void find_span(const struct given_tensors *given, int which, struct tensor_span *span) {
    const struct tensor_rule *rule = &given->rules[which];
    const DLTensor *tensor = given->tensors[which];
    DLTensor bytes;
    if (tensor == NULL) {
        *span = (struct tensor_span){0, 0};
    } else if (given->as_planned) {
        span->begin = (uintptr_t)tensor_data(tensor) + (uintptr_t)rule->begin;
        span->end = (uintptr_t)tensor_data(tensor) + (uintptr_t)rule->end;
    } else {
        *span = kvmill_tensor_span_of(as_stored(rule, tensor, &bytes));
    }
}

static kvmill_status check_output(const struct given_tensors *given,
                                  const struct tensor_span *spans, int output) {
    const struct tensor_span span = spans[output];
    for (int i = 0; i < given->count; i++)
        if (spans_overlap(span, spans[i]) && i != output && !may_overlap(given, output, i))
            return refuse_overlap(given, output, i);
    return KVMILL_OK;
}

kvmill_status kvmill_check_overlaps(const struct given_tensors *given) {
    struct tensor_span spans[MOST_GIVEN];
    kvmill_status status = KVMILL_OK;
    for (int i = 0; i < given->count; i++)
        find_span(given, i, &spans[i]);
    for (int o = 0; status == KVMILL_OK && o < given->count; o++)
        if (given->rules[o].output && given->tensors[o] != NULL)
            status = check_output(given, spans, o);
    return status;
}
