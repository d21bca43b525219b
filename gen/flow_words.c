/* Sparse flows in words: what of a row is read.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "flow.h"

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

static bool layer_words(const kvmill_flow *flow, struct text *text) {
    bool done = true;
    for (size_t i = 0; done && i < flow->layers_skip_count; i++)
        done = text_print(text, "%s%" PRId64, i ? ", " : "; layers ", flow->layers_skip[i]);
    return done && (flow->layers_skip_count == 0 || text_print(text, " whole"));
}

bool flow_words(const struct spec *spec, struct text *text) {
    const kvmill_flow *flow = flow_of_spec(spec);
    return text_print(text, "pages of %" PRId64 ", ", flow->attention->page_size) &&
           selection_words(&flow->select, text) && layer_words(flow, text);
}
