/* The functions in a pack's header that plan the steps of a flow.  They contain the whole flow as C
   data.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../defs/dtype.h"
#include "../spec/flow_spec.h"
#include "plan_header.h"

/* ---- Lists: km_flow_list(TYPE, MEMBER, COUNT, ROWS) ---- */

typedef bool print_row(const kvmill_flow *flow, size_t i, struct text *text);

static bool print_list(const char *type, const char *member, const char *count_member,
                       const kvmill_flow *flow, size_t count, print_row *row, struct text *text) {
    bool done = count == 0 ||
                text_print(text, "km_flow_list(«%s», «%s», «%s», «", type, member, count_member);
    for (size_t i = 0; done && i < count; i++)
        done = row(flow, i, text);
    return done && (count == 0 || text_print(text, "»)m4_dnl\n"));
}

static bool print_field(const kvmill_flow *flow, size_t i, struct text *text) {
    const kvmill_flow_field *field = &flow->fields[i];
    return text_print(text, "km_flow_row(«\"%s\", %" PRId64 ", %" PRId64 ", {%s, %d, 1}»)",
                      field->name, field->rows, field->columns, kvmill_dtype_code(field->dtype),
                      field->dtype.bits);
}

static bool print_constant(const kvmill_flow *flow, size_t i, struct text *text) {
    const kvmill_flow_constant *constant = &flow->constants[i];
    bool done = text_print(text, "km_flow_row(«\"%s\", %" PRId64 ", %" PRId64 ", %" PRId64 ", ",
                           constant->name, constant->taps, constant->rows, constant->columns);
    return done && (constant->values != NULL ? text_print(text, "values%zu»)", i)
                                             : text_print(text, "NULL»)"));
}

static bool print_name(const char *name, struct text *text) {
    return name != NULL ? text_print(text, "\"%s\"", name) : text_print(text, "NULL");
}

static bool print_op(const kvmill_flow_op *op, struct text *text) {
    return text_print(text, "km_flow_row(«\"%s\", {", op->op) && print_name(op->inputs[0], text) &&
           text_print(text, ", ") && print_name(op->inputs[1], text) && text_print(text, "}, ") &&
           print_name(op->output, text) &&
           text_print(text,
                      ", %.17g, %.17g, %.17g, %" PRIu32 "u, %" PRId64 ", %" PRId64 ", %" PRId64
                      ", %" PRId64 ", %" PRId64 "»)",
                      op->alpha, op->beta, op->scale, op->dims, op->group, op->start, op->end,
                      op->rows, op->columns);
}

static bool print_cache_op(const kvmill_flow *flow, size_t i, struct text *text) {
    return print_op(&flow->cache[i], text);
}

static bool print_index_op(const kvmill_flow *flow, size_t i, struct text *text) {
    return print_op(&flow->index[i], text);
}

static bool print_layer(const kvmill_flow *flow, size_t i, struct text *text) {
    return text_print(text, "        %" PRId64 ",\n", flow->layers_skip[i]);
}

/* Adds km_flow_values(NUMBER, VALUES). */
static bool print_values(const kvmill_flow *flow, struct text *text) {
    bool done = true;
    for (size_t i = 0; done && i < flow->constant_count; i++) {
        const kvmill_flow_constant *constant = &flow->constants[i];
        int64_t count = constant->taps * constant->rows * constant->columns;
        if (constant->values == NULL)
            continue;
        done = text_print(text, "km_flow_values(«%zu», «", i);
        for (int64_t j = 0; done && j < count; j++)
            done = text_print(text, "%s%.9g", j ? ", " : "", constant->values[j]);
        done = done && text_print(text, "»)m4_dnl\n");
    }
    return done;
}

static bool print_heads(const kvmill_flow *flow, size_t i, struct text *text) {
    return text_print(text, "        %" PRId64 ",\n", flow->field_heads[i]);
}

static bool print_scales(const kvmill_flow *flow, size_t i, struct text *text) {
    return text_print(text, "        ") && print_name(flow->field_scales[i], text) &&
           text_print(text, ",\n");
}

static bool print_lists(const kvmill_flow *flow, struct text *text) {
    return print_values(flow, text) &&
           print_list("kvmill_flow_field", "fields", "field_count", flow, flow->field_count,
                      print_field, text) &&
           print_list("kvmill_flow_constant", "constants", "constant_count", flow,
                      flow->constant_count, print_constant, text) &&
           print_list("kvmill_flow_op", "cache", "cache_count", flow, flow->cache_count,
                      print_cache_op, text) &&
           print_list("kvmill_flow_op", "index", "index_count", flow, flow->index_count,
                      print_index_op, text) &&
           print_list("int64_t", "field_heads", "", flow,
                      flow->field_heads != NULL ? flow->field_count : 0, print_heads, text) &&
           print_list("char *const", "field_scales", "", flow,
                      flow->field_scales != NULL ? flow->field_count : 0, print_scales, text) &&
           print_list("int64_t", "layers_skip", "layers_skip_count", flow, flow->layers_skip_count,
                      print_layer, text);
}

/* ---- Members outside lists ---- */

static bool print_number(const char *member, int64_t value, struct text *text) {
    return value == 0 || text_print(text, "km_flow_set(«%s», «%" PRId64 "»)", member, value);
}

static bool print_word(const char *member, const char *word, struct text *text) {
    return word == NULL || text_print(text, "km_flow_set(«%s», «\"%s\"»)", member, word);
}

static bool print_select(const kvmill_flow *flow, struct text *text) {
    const kvmill_flow_select *select = &flow->select;
    return print_number("select.topk_val", select->topk_val, text) &&
           print_number("select.reserved_bos", select->reserved_bos, text) &&
           print_number("select.reserved_eos", select->reserved_eos, text) &&
           print_number("select.ratio_numerator", select->ratio_numerator, text) &&
           print_number("select.ratio_denominator", select->ratio_denominator, text) &&
           print_number("select.cap", select->cap, text) &&
           print_number("select.dense_below", select->dense_below, text) &&
           print_word("select.order", select->order, text) &&
           print_word("select.scope", select->scope, text) &&
           print_word("summary", flow->summary, text) &&
           print_word("field_layout", flow->field_layout, text) &&
           print_word("temporaries", flow->temporaries, text) &&
           print_number("appended", flow->appended, text) &&
           print_number("powers", flow->powers, text) &&
           print_number("block_size", flow->block_size, text);
}

/* ---- The functions ---- */

/* Adds km_flow_functions(NAME, COMMENT, LISTS, MEMBERS, MEMBERS OF THE ATTENTION). */
bool flow_define_plan(const struct spec *spec, struct text *text) {
    const struct spec *attention = &spec->flow->attention;
    const kvmill_flow *flow = flow_of_spec(spec);
    return spec->name[0] == '\0' ||
           (text_print(text, "km_flow_functions(«%s», «", spec->name) &&
            attention_define_comment(attention, text) && text_print(text, "; ") &&
            flow_words(spec, text) && text_print(text, "», «") && print_lists(flow, text) &&
            text_print(text, "», «") && print_select(flow, text) && text_print(text, "», «") &&
            spec_define_members(attention, text) && text_print(text, "»)m4_dnl\n"));
}
