/* The view of a run of PMX cache attention for attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "../core/numbers.h"
#include "cache_attention_plan.h"

static const struct cache_call *call_of_view(const struct attend_view *view) {
    return (const struct cache_call *)(const void *)((const unsigned char *)view -
                                                     offsetof(struct cache_call, base.view));
}

/* ---- Where rows are ---- */

static bool has_pages(const struct cache_call *call) {
    return cache_plan_of(call)->geometry.paged && call->cachestarts.data != NULL;
}

/* The row of position 0 in a cache without pages. */
static int64_t base_row(const struct cache_call *call, int64_t b) {
    if (call->cachestarts.data != NULL)
        return index_at(call->cachestarts, b);
    return offset_of_sequence(&call->length, b);
}

/* A page's number is its first row; if pages are a dim, rows of consecutive pages are not adjacent.
 */
struct attend_pages kvmill_cache_pages(const struct cache_call *call, int64_t b, int64_t head) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    if (!has_pages(call))
        return (struct attend_pages){.size = call->ring > 0 ? call->ring : INT64_MAX,
                                     .start = base_row(call, b)};
    bool apart = call->page_rows != geometry->page_size;
    return (struct attend_pages){
        .size = geometry->page_size,
        .numbers = {call->cachestarts.data + b * call->cachestarts.stride +
                        head / geometry->ratio * call->page_head,
                    64, call->page_stride},
        .ring = call->ring > 0 ? call->ring / geometry->page_size : 0,
        .unit = apart ? geometry->page_size : 1,
        .rows = apart ? call->page_rows : 1,
    };
}

/* ---- What tokens see ---- */

/* In dynamic batches, the columns of the mask are also counted over all sequences. */
static void look(const struct attend_view *view, int64_t b, int64_t head,
                 struct attend_sequence *sequence) {
    const struct cache_call *call = call_of_view(view);
    *sequence = whole_sequence(positions_of(call, b));
    sequence->origin = sequence->length - tokens_of(call, b);
    sequence->left = view->window > 0 ? view->window - 1 : -1;
    sequence->right = is_causal_sequence(call, b) ? 0 : -1;
    sequence->most = call->ring > 0 ? call->ring : INT64_MAX;
    sequence->pages[0] = kvmill_cache_pages(call, b, head);
    sequence->column = offset_of_sequence(&call->length, b);
}

static struct token_span turn(const struct attend_view *view, int64_t b) {
    return kvmill_tokens_of_turn(call_of_view(view), b);
}

/* ---- The view ---- */

static int64_t longest(const struct cache_call *call) {
    int64_t length = 0;
    for (int64_t b = 0; b < call->base.view.batch; b++)
        length = kvmill_max(length, positions_of(call, b));
    return length;
}

/* The means over the sequences; only positions that a token sees count. */
static struct kvmill_call_size size_of_call(const struct cache_call *call) {
    int64_t window = kvmill_most_visible(call);
    int64_t batch = kvmill_max(call->base.view.batch, 1), positions = call->positions / batch;
    return (struct kvmill_call_size){batch, call->tokens / batch,
                                     window > 0 && window < positions ? window : positions};
}

void kvmill_set_view(struct cache_call *call) {
    const struct cache_plan *plan = cache_plan_of(call);
    struct attend_view *view = &call->base.view;
    view->plan = &plan->attend;
    view->workspace = call->base.base.base.workspace;
    if (plan->geometry.alibi)
        view->slopes =
            (struct head_numbers){(const unsigned char *)plan->slopes, sizeof(float), KVMILL_F32};
    view->look = look;
    view->heads_alike = !has_pages(call) || call->page_head == 0;
    view->turn = call->turns > 1 ? turn : NULL;
    view->window = kvmill_most_visible(call);
    view->longest = longest(call);
    view->size = size_of_call(call);
}
