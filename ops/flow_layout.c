/* What a flow stores for each page.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "flow_check.h"

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
