/* Describes in words which pages of a sequence a sparse flow reads.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../spec/flow_spec.h"

static const char *scope_words(const kvmill_flow_select *select) {
    const char *scope = select->scope ? select->scope : "kv_head";
    return *scope == 'k' ? "kv head" : *scope == 'q' ? "query head" : "request";
}

static bool selection_words(const kvmill_flow_select *select, struct text *text) {
    if (select->topk_val == KVMILL_FLOW_ALL)
        return text_print(text, "all of them read");
    return text_print(text, "of which each %s reads %" PRId64 " + %" PRId64 " + %" PRId64,
                      scope_words(select), select->reserved_bos, select->topk_val,
                      select->reserved_eos) &&
           (select->ratio_numerator == 0 ||
            text_print(text, " or %" PRId64 "/%" PRId64, select->ratio_numerator,
                       select->ratio_denominator)) &&
           (select->cap == 0 || text_print(text, ", at most %" PRId64, select->cap)) &&
           (select->dense_below == 0 ||
            text_print(text, "; rows of fewer than %" PRId64 " tokens whole", select->dense_below));
}

/* Says which recall approxTopK asks for; the selection's recall is 1. */
static bool recall_words(const kvmill_flow *flow, struct text *text) {
    for (size_t i = 0; i < flow->index_count; i++)
        if (strcmp(flow->index[i].op, "approxTopK") == 0)
            return text_print(text, "; recall 1, approxTopK asks for %g", 1 - flow->index[i].alpha);
    return true;
}

static bool union_words(const kvmill_flow *flow, struct text *text) {
    for (size_t i = 0; i < flow->index_count; i++)
        if (strcmp(flow->index[i].op, "Union") == 0)
            return text_print(text, "; %" PRId64 " of them by a second score",
                              flow->index[i].group);
    return true;
}

static bool layer_words(const kvmill_flow *flow, struct text *text) {
    bool done = true;
    for (size_t i = 0; done && i < flow->layers_skip_count; i++)
        done = text_print(text, "%s%" PRId64, i ? ", " : "; layers ", flow->layers_skip[i]);
    return done && (flow->layers_skip_count == 0 || text_print(text, " whole"));
}

bool flow_words(const struct spec *spec, struct text *text) {
    const kvmill_flow *flow = flow_of_spec(spec);
    return text_print(text, "pages of %" PRId64, flow->attention->page_size) &&
           (flow->block_size == 0 ||
            text_print(text, " in blocks of %" PRId64, flow->block_size)) &&
           text_print(text, ", ") && selection_words(&flow->select, text) &&
           recall_words(flow, text) && union_words(flow, text) && layer_words(flow, text);
}

/* Says how many kv heads share a matrix of the field. */
static bool sharer_words(const kvmill_flow *flow, size_t i, int64_t kv_heads, struct text *text) {
    int64_t heads = i < flow->field_count && flow->field_heads != NULL ? flow->field_heads[i] : 0;
    return heads == 0 || heads == kv_heads ||
           text_print(text, " for %" PRId64 " kv heads", kv_heads / heads);
}

static bool field_words(const kvmill_flow *flow, int64_t kv_heads, struct text *text) {
    kvmill_flow_field field;
    bool done = text_print(
        text, "\n  a %s keeps for each kv head:", flow->block_size == 0 ? "page" : "block");
    for (size_t i = 0; done && kvmill_flow_field_at(flow, i, &field); i++)
        done = text_print(text, "%s %s [%" PRId64 ", %" PRId64 "] %s", i ? "," : "", field.name,
                          field.rows, field.columns, kvmill_dtype_name(field.dtype)) &&
               sharer_words(flow, i, kv_heads, text);
    return done;
}

static bool ratio_words(const char *what, const kvmill_fraction *ratio, struct text *text) {
    return text_print(text, "%s %" PRId64, what, ratio->numerator) &&
           (ratio->denominator == 1 || text_print(text, "/%" PRId64, ratio->denominator));
}

bool flow_layout_words(const struct spec *spec, struct text *text) {
    kvmill_flow_layout layout = {.struct_size = sizeof layout};
    const kvmill_flow *flow = flow_of_spec(spec);
    return kvmill_flow_describe(flow, &layout, NULL) != KVMILL_OK ||
           (field_words(flow, layout.kv_heads, text) &&
            ratio_words("\n  token ratio", &layout.ratio_elements, text) &&
            ratio_words(" in elements,", &layout.ratio_bytes, text) &&
            ratio_words(" in bytes, of which fields are", &layout.ratio_fields, text));
}
