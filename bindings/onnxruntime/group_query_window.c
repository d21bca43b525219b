/* Caches that hold a window of keys (sliding_window_cache), as ONNX Runtime defines them: rows are
   in the order of positions from row 0 on.  Of a sequence of T tokens, the cache holds the last
   L(T); when it is full, it loses as many rows at once as it has beyond the window.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "group_query.h"

/* Returns L(length). */
static int64_t resident(const struct group_query_call *call, int64_t length) {
    int64_t capacity = call->past_rows, step = capacity - call->window + 1;
    if (length <= capacity)
        return length;
    return length - (length - capacity + step - 1) / step * step;
}

/* Whether an entry's first query sees a row that the cache loses in this call. */
static bool loses_seen(const struct group_query_call *call, int64_t length, int64_t queries) {
    int64_t first = length - queries - call->window + 1;
    return length - resident(call, length) > (first > 0 ? first : 0);
}

bool group_query_is_staged(const struct group_query_call *call, const DLTensor *const *given) {
    bool staged = false;
    for (int64_t b = 0; call->window > 0 && b < call->batch; b++) {
        int64_t length = group_query_integer(given[KVMILL_GROUP_QUERY_SEQLENS_K], b) + 1;
        int64_t queries = group_query_valid_queries(call, given, b, length);
        staged = staged || (queries > 0 && queries <= length && loses_seen(call, length, queries));
    }
    return staged;
}

void group_query_set_window(struct group_query_call *call, int64_t b, int64_t length,
                            int64_t queries) {
    int64_t before = resident(call, length - queries), after = resident(call, length);
    call->lengths[b] = call->staged ? before + queries : after;
    call->starts[b] = call->kept[b] = call->lengths[b] - queries;
    call->dropped[b] = before - call->kept[b];
    call->evicted[b] = length - call->lengths[b];
}

static void evict_side(const struct group_query_call *call, const struct group_query_side *side,
                       int64_t part) {
    int64_t b = part / call->heads.kv_heads, row = side->row_bytes, capacity = call->past_rows;
    int64_t end = call->lengths[b], kept = resident(call, call->evicted[b] + end);
    unsigned char *to = side->final + part * capacity * row;
    memcpy(to, side->present + (part * call->capacity + end - kept) * row, (size_t)(kept * row));
    if (side->final != side->past)
        memset(to + kept * row, 0, (size_t)((capacity - kept) * row));
}

void group_query_evict(void *data, int64_t part) {
    const struct group_query_call *call = data;
    evict_side(call, &call->key, part);
    evict_side(call, &call->value, part);
}
