/* The view of a sparse flow for attention: the pages of requests, or the pages in lists.  There is
   one list for each row of a request; a request's last page, if it is listed, is the last there.

   SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "../core/numbers.h"
#include "flow_plan.h"

static const struct flow_call *call_of_view(const struct attend_view *view) {
    return (const struct flow_call *)(const void *)((const unsigned char *)view -
                                                    offsetof(struct flow_call, attend.base.view));
}

static const struct kvmill_flow_problem *problem_of(const struct flow_call *call) {
    return &flow_plan_of(call)->problem;
}

static const struct kvmill_cache_geometry *geometry_of(const struct flow_call *call) {
    return &problem_of(call)->geometry;
}

/* ---- Lists ---- */

/* The list of a query head. */
struct list {
    const int32_t *pages; /* NULL: all pages */
    int64_t count;
};

static int64_t pages_of(const struct flow_call *call, int64_t b) {
    return kvmill_flow_row_at(problem_of(call), &call->batch, b).pages;
}

static struct list list_of(const struct flow_call *call, int64_t b, int64_t head) {
    int64_t rows = kvmill_flow_rows_of_request(problem_of(call));
    int64_t row = b * rows + head * rows / geometry_of(call)->heads;
    if (call->starts == NULL)
        return (struct list){NULL, pages_of(call, b)};
    return (struct list){call->list + call->starts[row], call->starts[row + 1] - call->starts[row]};
}

/* The positions along a list.  Only a request's last page may be partial. */
static int64_t length_of(const struct flow_call *call, int64_t b, const struct list *list) {
    int64_t size = problem_of(call)->block_size, pages = pages_of(call, b);
    bool has_last =
        list->pages == NULL || (list->count > 0 && list->pages[list->count - 1] == pages - 1);
    return has_last ? call->batch.length[b] - (pages - list->count) * size : list->count * size;
}

static int64_t left_out(const struct flow_call *call, int64_t b, const struct list *list) {
    return call->batch.length[b] - length_of(call, b, list);
}

/* The first entry that is not below `page`, in an ascending list. */
static int64_t find_entry(const struct list *list, int64_t page) {
    int64_t first = 0, last = list->count;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (list->pages[middle] < page)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* The first position along a list that is in a window of the last `window` tokens of the request.
 */
static int64_t first_in_window(const struct flow_call *call, int64_t b, const struct list *list) {
    int64_t size = problem_of(call)->block_size;
    int64_t first = call->batch.length[b] - geometry_of(call)->window, page = first / size;
    if (first <= 0)
        return 0;
    int64_t entry = find_entry(list, page);
    return entry * size + (entry < list->count && list->pages[entry] == page ? first % size : 0);
}

/* ---- The view ---- */

static void look(const struct attend_view *view, int64_t b, int64_t head,
                 struct attend_sequence *sequence) {
    const struct flow_call *call = call_of_view(view);
    const struct list list = list_of(call, b, head);
    bool listed = list.pages != NULL;
    *sequence = whole_sequence(length_of(call, b, &list));
    sequence->origin = sequence->length - count_of(&view->tokens, b);
    sequence->left_out = left_out(call, b, &list);
    sequence->right = is_causal_sequence(&call->attend, b) ? 0 : -1;
    if (view->window > 0 && listed)
        sequence->first = first_in_window(call, b, &list);
    else
        sequence->left = view->window > 0 ? view->window - 1 : -1;
    sequence->pages[0] = (struct attend_pages){
        .size = listed ? problem_of(call)->block_size : geometry_of(call)->page_size,
        .numbers = {call->batch.ids + call->batch.indptr[b], 32, 1},
        .list = list.pages,
        .unit = 1,
        .rows = call->cache.page_rows,
        .parts = listed ? problem_of(call)->page_blocks : 1,
    };
}

static int64_t longest(const struct flow_call *call) {
    int64_t length = 0, heads = geometry_of(call)->heads;
    int64_t rows = call->starts ? kvmill_flow_rows_of_request(problem_of(call)) : 1;
    for (int64_t n = 0; n < call->batch.batch * rows; n++) {
        const struct list list = list_of(call, n / rows, n % rows * heads / rows);
        length = kvmill_max(length, length_of(call, n / rows, &list));
    }
    return length;
}

/* If query heads may have lists of their own, rows without lists use the same tiles, so that whole
   rows have the same bits as dense ones. */
void kvmill_flow_set_view(struct flow_call *call) {
    struct attend_view *view = &call->attend.base.view;
    bool one_each = view->tokens.starts.data == NULL;
    view->look = look;
    view->heads_alike = false;
    view->longest = longest(call);
    view->heads_apart = one_each && problem_of(call)->scope == KVMILL_SCOPE_QUERY_HEAD;
}
