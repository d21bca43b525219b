/* What a flow stores for each page, and the library's queries about flows.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../defs/op_tables.h"
#include "flow_check.h"
#include "structs.h"

/* ---- What a flow keeps ---- */

int64_t kvmill_common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static kvmill_fraction fraction(int64_t numerator, int64_t denominator) {
    int64_t divisor = kvmill_common_divisor(numerator, denominator);
    return (kvmill_fraction){numerator / divisor, denominator / divisor};
}

static int64_t cache_row_bytes(const struct kvmill_format *format) {
    return kvmill_format_row_bytes(format) + kvmill_format_scale_bytes(format);
}

void kvmill_flow_layout_of(const struct kvmill_flow_problem *problem, kvmill_flow_layout *layout) {
    const struct kvmill_format *key = &problem->geometry.key, *value = &problem->geometry.value;
    int64_t block = problem->block_size, elements = 0, bytes = 0;
    for (int i = 0; i < problem->field_count; i++) {
        elements += problem->fields[i].rows * problem->fields[i].columns * problem->fields[i].heads;
        bytes += problem->fields[i].bytes * problem->fields[i].heads;
    }
    layout->page_size = problem->geometry.page_size;
    layout->block_size = block;
    layout->kv_heads = problem->geometry.kv_heads;
    layout->group = problem->group;
    bool view = problem->geometry.value_view;
    int64_t row = cache_row_bytes(key) + (view ? 0 : cache_row_bytes(value));
    int64_t rows = block * problem->geometry.kv_heads; /* in one block */
    layout->page_bytes = problem->geometry.page_size * row +
                         (problem->page_blocks * bytes + layout->kv_heads - 1) / layout->kv_heads;
    layout->ratio_elements =
        fraction(rows * (key->dim + (view ? 0 : value->dim)) + elements, rows * key->dim);
    layout->ratio_bytes = fraction(rows * row + bytes, rows * kvmill_format_row_bytes(key));
    layout->ratio_fields = fraction(bytes, rows * kvmill_format_row_bytes(key));
}

/* ---- Where fields lie ---- */

/* Strides are in elements. */
static kvmill_status check_beside(const struct checker *checker, int i) {
    const struct kvmill_flow_problem *problem = checker->problem;
    const struct kvmill_flow_field_data *field = &problem->fields[i];
    int64_t element = field->bytes / (field->rows * field->columns);
    if (field->heads != problem->fields[0].heads)
        return REFUSE(checker, ATTRIBUTE,
                      "has %" PRId64 " heads; accepted with field_layout \"%s\": %" PRId64
                      ", as the first field has",
                      field->heads, checker->flow->field_layout, problem->fields[0].heads);
    if (field->before % element != 0 || problem->record_bytes % element != 0)
        return REFUSE(checker, ATTRIBUTE,
                      "begins %" PRId64 " bytes into the %" PRId64
                      " of all fields; accepted with field_layout \"%s\": multiples of %" PRId64
                      ", the bytes of an element",
                      field->before, problem->record_bytes, checker->flow->field_layout, element);
    return KVMILL_OK;
}

kvmill_status kvmill_flow_check_fields_layout(struct checker *checker) {
    struct kvmill_flow_problem *problem = checker->problem;
    kvmill_status status = KVMILL_OK;
    for (int i = 0; i < problem->field_count; i++) {
        problem->fields[i].before = problem->record_bytes;
        problem->record_bytes += problem->fields[i].bytes;
    }
    if (problem->field_layout == KVMILL_FIELDS_APART)
        return KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < problem->field_count; i++) {
        set_place(checker, "fields", i);
        status = check_beside(checker, i);
    }
    return status;
}

struct kvmill_field_place kvmill_flow_field_place(const struct kvmill_flow_problem *problem,
                                                  int field, int64_t blocks) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    int64_t record = problem->record_bytes;
    switch (problem->field_layout) {
    case KVMILL_FIELDS_BY_PAGE:
        return (struct kvmill_field_place){known->before, known->heads * record, record};
    case KVMILL_FIELDS_BY_HEAD:
        return (struct kvmill_field_place){known->before, record, blocks * record};
    default:
        return (struct kvmill_field_place){0, known->heads * known->bytes, known->bytes};
    }
}

/* ---- For the library's users ---- */

/* The place, for the beginning of a message. */
static kvmill_status tell_place(const struct kvmill_flow_place *place, kvmill_status status,
                                const kvmill_error *reason, kvmill_error *error) {
    if (place->list == NULL)
        return kvmill_fail(error, status, "%.250s", reason->message);
    if (place->number < 0)
        return kvmill_fail(error, status, "%s: %.220s", place->list, reason->message);
    return kvmill_fail(error, status, "%s[%d]: %.220s", place->list, place->number,
                       reason->message);
}

kvmill_status kvmill_take_flow_attention(struct kvmill_own_flow *own, kvmill_error *error) {
    kvmill_status status = kvmill_take_struct(&kvmill_cache_attention_attributes, "flow.attention",
                                              own->flow.attention, &own->attention, error);
    own->flow.attention = &own->attention;
    return status;
}

kvmill_status kvmill_take_flow(const kvmill_flow *given, struct kvmill_own_flow *own,
                               kvmill_error *error) {
    kvmill_status status =
        kvmill_take_struct(kvmill_flow_op_def.parts[0], "flow", given, &own->flow, error);
    return status == KVMILL_OK ? kvmill_take_flow_attention(own, error) : status;
}

/* K or V as a field. */
static kvmill_flow_field cache_field(const struct kvmill_own_flow *own, bool is_value) {
    const kvmill_cache_attention *attention = &own->attention;
    int64_t block = own->flow.block_size > 0 ? own->flow.block_size : attention->page_size;
    bool differs = is_value && attention->value_differs;
    return (kvmill_flow_field){
        is_value ? "v" : "k", block,
        differs && attention->value_head_dim ? attention->value_head_dim : attention->head_dim,
        differs && !attention->value_view ? attention->value_T2 : attention->T2};
}

int kvmill_flow_field_at(const kvmill_flow *flow, size_t i, kvmill_flow_field *field) {
    struct kvmill_own_flow own;
    if (field == NULL || kvmill_take_flow(flow, &own, NULL) != KVMILL_OK)
        return 0;
    if (i < own.flow.field_count && own.flow.fields == NULL)
        return 0;
    if (i >= own.flow.field_count && i - own.flow.field_count > 1)
        return 0;
    *field =
        i < own.flow.field_count ? own.flow.fields[i] : cache_field(&own, i > own.flow.field_count);
    return 1;
}

kvmill_status kvmill_flow_verify(const kvmill_flow *flow, struct kvmill_flow_problem *problem,
                                 kvmill_error *error) {
    struct kvmill_flow_place place = {0};
    kvmill_error reason;
    kvmill_status status = kvmill_flow_check(flow, problem, &place, &reason);
    return status == KVMILL_OK ? kvmill_succeed(error) : tell_place(&place, status, &reason, error);
}

kvmill_status kvmill_flow_describe(const kvmill_flow *flow, kvmill_flow_layout *layout,
                                   kvmill_error *error) {
    struct kvmill_flow_problem problem;
    struct kvmill_own_flow own;
    kvmill_flow_layout own_layout = {0};
    kvmill_status status = kvmill_take_flow(flow, &own, error);
    if (status == KVMILL_OK)
        status = kvmill_flow_verify(&own.flow, &problem, error);
    if (status != KVMILL_OK || layout == NULL)
        return status;
    kvmill_flow_layout_of(&problem, &own_layout);
    return kvmill_give_struct(&kvmill_flow_layout_struct, "layout", &own_layout, layout, error);
}
