/* Checks a run of CacheAttend: tensors, shapes, numbers.  If a check fails, nothing has been
   written.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../core/numbers.h"
#include "../core/tensor.h"
#include "cache_attend_plan.h"

static const DLTensor *tensor_of(const struct attend_given *given, int which) {
    return given->base.tensors[which];
}

static const struct kvmill_cache_geometry *geometry_of(const struct attend_given *given) {
    return &given->plan->geometry;
}

/* ---- Queries ---- */

/* (B, S, H, D), or (N, H, D) with query_starts. */
static kvmill_status check_queries(struct attend_given *given) {
    struct attend_view *view = &given->call->base.view;
    const DLTensor *query = tensor_of(given, KVMILL_CACHE_ATTEND_QUERY);
    const DLTensor *starts = tensor_of(given, KVMILL_CACHE_ATTEND_QUERY_STARTS);
    const int64_t dims[] = {KVMILL_DYNAMIC, KVMILL_DYNAMIC, geometry_of(given)->heads,
                            geometry_of(given)->key.dim};
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_QUERY,
                                              starts ? 3 : 4, dims + (starts != NULL));
    if (status != KVMILL_OK)
        return status;
    view->batch = query->shape[0];
    view->tokens.each = query->shape[1];
    given->call->queries = kvmill_count_of(query->shape, 2);
    if (starts == NULL)
        return KVMILL_OK;
    given->call->queries = query->shape[0];
    if (starts->ndim != 1 || starts->shape[0] < 1)
        return kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_QUERY_STARTS, 1, &(int64_t){1});
    view->batch = starts->shape[0] - 1;
    view->tokens.each = 0;
    view->tokens.starts = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_QUERY_STARTS);
    return kvmill_check_starts(given, KVMILL_CACHE_ATTEND_QUERY_STARTS, view->batch,
                               query->shape[0]);
}

/* The shape of `other`, except for the last dim, which NO_DIM leaves out. */
enum { NO_DIM = -1 };

static kvmill_status check_beside(const struct attend_given *given, int which, int other,
                                  int64_t last) {
    const DLTensor *like = tensor_of(given, other);
    int64_t dims[4];
    if (tensor_of(given, which) == NULL)
        return KVMILL_OK;
    memcpy(dims, like->shape, (size_t)like->ndim * sizeof *dims);
    dims[like->ndim - 1] = last;
    return kvmill_check_shape(&given->base, which, like->ndim - (last == NO_DIM), dims);
}

/* ---- The cache ---- */

static bool has_pages(const struct attend_given *given) {
    return tensor_of(given, KVMILL_CACHE_ATTEND_PAGE_IDS) != NULL;
}

/* Elements of the last dim: bytes, for blocks and for 4-bit codes as uint8. */
static int64_t last_dim(const struct attend_given *given, int which,
                        const struct kvmill_format *format) {
    bool bytes = tensor_of(given, which)->dtype.code == kDLUInt;
    return bytes ? kvmill_format_row_bytes(format) : format->dim;
}

static kvmill_status check_key(struct attend_given *given) {
    const DLTensor *key = tensor_of(given, KVMILL_CACHE_ATTEND_KEY);
    const struct kvmill_cache_geometry *geometry = geometry_of(given);
    bool slots = tensor_of(given, KVMILL_CACHE_ATTEND_SLOTS) != NULL, pages = has_pages(given);
    int64_t dims[] = {pages ? KVMILL_DYNAMIC : given->call->base.view.batch,
                      pages ? geometry->page_size : KVMILL_DYNAMIC, geometry->kv_heads,
                      last_dim(given, KVMILL_CACHE_ATTEND_KEY, &geometry->key)};
    if (slots || key->ndim != 4)
        dims[1] = KVMILL_DYNAMIC;
    int rank = slots || key->ndim != 4 ? 3 : 4;
    kvmill_status status =
        kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_KEY, rank, dims + 4 - rank);
    if (status != KVMILL_OK)
        return status;
    given->call->rows = rank == 3 ? key->shape[0]
                        : pages   ? kvmill_count_of(key->shape, 2)
                                  : key->shape[1];
    return KVMILL_OK;
}

/* The row strides from a page to the next, which must be the same for all tensors. */
static kvmill_status check_page_rows(struct attend_given *given, int which) {
    const DLTensor *tensor = tensor_of(given, which);
    int64_t known = given->call->page_rows;
    if (tensor == NULL || tensor->ndim != 4 || tensor->shape[0] < 2 || tensor->shape[1] < 2)
        return KVMILL_OK;
    int64_t page = kvmill_tensor_stride(tensor, 0), row = kvmill_tensor_stride(tensor, 1);
    if (row > 0 && page % row == 0 && (known == 0 || known == page / row)) {
        given->call->page_rows = page / row;
        return KVMILL_OK;
    }
    return kvmill_fail(given->base.error, KVMILL_E_STRIDE,
                       "%s has stride %" PRId64 " for pages and %" PRId64
                       " for rows; accepted: a multiple, the same for key, value and scales",
                       given->base.rules[which].name, page, row);
}

static kvmill_status check_cache(struct attend_given *given) {
    const struct kvmill_format *key = &geometry_of(given)->key, *value = &geometry_of(given)->value;
    kvmill_status status = check_key(given);
    if (status == KVMILL_OK)
        status = check_beside(given, KVMILL_CACHE_ATTEND_VALUE, KVMILL_CACHE_ATTEND_KEY,
                              last_dim(given, KVMILL_CACHE_ATTEND_VALUE, value));
    if (status == KVMILL_OK)
        status = check_beside(given, KVMILL_CACHE_ATTEND_KEY_SCALE, KVMILL_CACHE_ATTEND_KEY,
                              kvmill_format_scale_count(key));
    if (status == KVMILL_OK)
        status = check_beside(given, KVMILL_CACHE_ATTEND_VALUE_SCALE, KVMILL_CACHE_ATTEND_KEY,
                              kvmill_format_scale_count(value));
    for (int i = KVMILL_CACHE_ATTEND_KEY;
         status == KVMILL_OK && has_pages(given) && i <= KVMILL_CACHE_ATTEND_VALUE_SCALE; i++)
        status = check_page_rows(given, i);
    if (given->call->page_rows == 0)
        given->call->page_rows = geometry_of(given)->page_size;
    return status;
}

/* ---- Positions ---- */

static kvmill_status check_positions(const struct attend_given *given) {
    const DLTensor *positions = tensor_of(given, KVMILL_CACHE_ATTEND_POSITIONS);
    int64_t queries = given->call->queries;
    if (positions == NULL)
        return KVMILL_OK;
    kvmill_status status =
        kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_POSITIONS, 1, &queries);
    for (int64_t n = 0; status == KVMILL_OK && n < queries; n++)
        status = kvmill_check_number(given, KVMILL_CACHE_ATTEND_POSITIONS, n, -farthest, farthest);
    return status;
}

/* The beginning of a query's window must still be in the ring, if the window fits into it. */
static kvmill_status check_window(const struct attend_given *given, int64_t b, int64_t head,
                                  int64_t n) {
    struct attend_sequence sequence;
    const struct attend_view *view = &given->call->base.view;
    kvmill_cache_attend_look(view, b, head, &sequence);
    int64_t position = position_of(&sequence, n), left = sequence.left;
    if (left < 0 || left >= sequence.most || sequence.first == 0 ||
        position - left >= sequence.first)
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_INDEX_RANGE,
                       "query %" PRId64 " of sequence %" PRId64 " sees positions from %" PRId64
                       " on; accepted: from %" PRId64 " on, which the ring of %" PRId64
                       " rows still has",
                       n, b, kvmill_max(position - left, 0), sequence.first, sequence.most);
}

/* Without positions, the first query is the one that sees farthest back. */
static kvmill_status check_windows(const struct attend_given *given) {
    const struct attend_view *view = &given->call->base.view;
    int64_t ratio = geometry_of(given)->ratio;
    int64_t heads = given->call->heads_apart ? geometry_of(given)->kv_heads : 1;
    kvmill_status status = KVMILL_OK;
    for (int64_t i = 0; geometry_of(given)->circular && i < view->batch * heads; i++) {
        int64_t b = i / heads, count = count_of(&view->tokens, b);
        if (given->call->positions.data == NULL)
            count = kvmill_min(count, 1);
        for (int64_t n = 0; status == KVMILL_OK && n < count; n++)
            status = check_window(given, b, i % heads * ratio, n);
    }
    return status;
}

/* (B, T), (C), or (pages, page_size), like key. */
static kvmill_status check_key_positions(const struct attend_given *given) {
    const DLTensor *key = tensor_of(given, KVMILL_CACHE_ATTEND_KEY);
    const DLTensor *positions = tensor_of(given, KVMILL_CACHE_ATTEND_KEY_POSITIONS);
    if (positions == NULL)
        return KVMILL_OK;
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_KEY_POSITIONS,
                                              key->ndim - 2, key->shape);
    if (status != KVMILL_OK)
        return status;
    if (!kvmill_tensor_is_dense_from(positions, 0))
        return kvmill_fail(given->base.error, KVMILL_E_STRIDE,
                           "key_positions has strides; accepted: row-major without gaps");
    const struct number_array numbers = {tensor_data(positions), positions->dtype.bits, 1};
    int64_t count = kvmill_element_count(positions);
    for (int64_t i = 0; i < count; i++)
        if (number_at(&numbers, i) < -farthest || number_at(&numbers, i) > farthest)
            return kvmill_fail(given->base.error, KVMILL_E_INDEX_RANGE,
                               "key_positions has %" PRId64 " in place %" PRId64
                               "; accepted: %" PRId64 " to %" PRId64,
                               number_at(&numbers, i), i, -farthest, farthest);
    return KVMILL_OK;
}

/* ---- What is added ---- */

/* The last dims of (B, H, S, T), as many as it has; each has this size or is 1.  T is any. */
static kvmill_status check_mask(const struct attend_given *given) {
    const struct attend_view *view = &given->call->base.view;
    const DLTensor *mask = tensor_of(given, KVMILL_CACHE_ATTEND_ATTN_MASK);
    bool together = view->tokens.starts.data != NULL;
    int64_t dims[] = {together ? 1 : view->batch, geometry_of(given)->heads,
                      together ? given->call->queries : view->tokens.each, KVMILL_DYNAMIC};
    if (mask == NULL)
        return KVMILL_OK;
    int rank = mask->ndim < 1 ? 1 : mask->ndim > 4 ? 4 : mask->ndim;
    for (int d = 0; d + 1 < rank && d < mask->ndim; d++)
        if (mask->shape[d] == 1)
            dims[4 - rank + d] = 1;
    return kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_ATTN_MASK, rank, dims + 4 - rank);
}

static kvmill_status check_heads(const struct attend_given *given, int which) {
    if (tensor_of(given, which) == NULL)
        return KVMILL_OK;
    return kvmill_check_shape(&given->base, which, 1, &geometry_of(given)->heads);
}

/* ---- All of it ---- */

static kvmill_status check_shapes(struct attend_given *given) {
    kvmill_status status = check_queries(given);
    if (status == KVMILL_OK)
        status = check_cache(given);
    if (status == KVMILL_OK)
        status = kvmill_check_lists(given);
    if (status == KVMILL_OK)
        status = check_positions(given);
    if (status == KVMILL_OK)
        status = check_key_positions(given);
    if (status == KVMILL_OK)
        status = check_mask(given);
    if (status == KVMILL_OK)
        status = check_heads(given, KVMILL_CACHE_ATTEND_ALIBI_SLOPES);
    if (status == KVMILL_OK)
        status = check_heads(given, KVMILL_CACHE_ATTEND_SINKS);
    if (status == KVMILL_OK)
        status = check_beside(given, KVMILL_CACHE_ATTEND_ATTN_OUTPUT, KVMILL_CACHE_ATTEND_QUERY,
                              geometry_of(given)->value.dim);
    return status == KVMILL_OK
               ? check_beside(given, KVMILL_CACHE_ATTEND_LSE, KVMILL_CACHE_ATTEND_QUERY, NO_DIM)
               : status;
}

kvmill_status kvmill_cache_attend_begin(struct cache_attend_call *call,
                                        const DLTensor *const *tensors, kvmill_error *error) {
    const DLTensor *known[KVMILL_CACHE_ATTEND_TENSORS];
    const struct cache_attend_plan *plan = cache_attend_plan_of(call);
    struct attend_given given = {
        .base = {plan->rules, KVMILL_CACHE_ATTEND_TENSORS, "CacheAttend", known, error, NULL,
                 false},
        .plan = plan,
        .call = call,
    };
    kvmill_status status = kvmill_check_given(&given.base, tensors);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&given.base);
    if (status == KVMILL_OK)
        status = kvmill_check_places(&given);
    if (status == KVMILL_OK)
        status = check_shapes(&given);
    if (status == KVMILL_OK)
        kvmill_cache_attend_set_view(&given);
    return status == KVMILL_OK ? check_windows(&given) : status;
}
