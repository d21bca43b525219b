/* Checks a run of cache attention, except its tensors: lengths, positions, places in the cache.  If
   a check fails, nothing has been written.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../../ops/fail.h"
#include "../../ops/refuse.h"
#include "../core/numbers.h"
#include "../core/tensor.h"
#include "cache_attention_plan.h"

static bool has_cache(const struct given *given) {
    return given->plan->geometry.which != KVMILL_MULTI_HEAD_ATTENTION;
}

/* ---- Numbers ---- */

static struct index_array array_of(const struct given *given, int which) {
    return kvmill_index_array(given->base.tensors[which]);
}

static struct number_array numbers_of(const struct given *given, int which) {
    struct index_array array = array_of(given, which);
    return (struct number_array){array.data, 64, array.stride};
}

/* Sums of lengths that disagree are an error of shape. */
static kvmill_status status_of(int which, int64_t value) {
    bool counts =
        which == KVMILL_CACHE_ATTENTION_SEQSTARTS || which == KVMILL_CACHE_ATTENTION_KVSTARTS;
    return counts && value >= 0 ? KVMILL_E_SHAPE : kvmill_index_status(value);
}

/* index: that of the element, in brackets, or "" for the only one. */
static kvmill_status refuse_number(const struct given *given, int which, const char *index,
                                   int64_t value, int64_t first, int64_t last) {
    return kvmill_refuse_number(status_of(which, value), given_name(given, which), index, value,
                                (struct kvmill_range){first, last}, given->base.error);
}

static kvmill_status check_element(const struct given *given, int which, int64_t i, int64_t first,
                                   int64_t last) {
    int64_t value = index_at(array_of(given, which), i);
    char index[32];
    if (value >= first && value <= last)
        return KVMILL_OK;
    snprintf(index, sizeof index, "[%" PRId64 "]", i);
    return refuse_number(given, which, index, value, first, last);
}

/* A tensor of one element, of rank 0 or 1. */
static kvmill_status check_one(const struct given *given, int which, int64_t first, int64_t last,
                               int64_t *value) {
    static const int64_t one = 1;
    if (given->base.tensors[which]->ndim != 0) {
        kvmill_status status = kvmill_check_shape(&given->base, which, 1, &one);
        if (status != KVMILL_OK)
            return status;
    }
    *value = *array_of(given, which).data;
    if (*value >= first && *value <= last)
        return KVMILL_OK;
    return refuse_number(given, which, "", *value, first, last);
}

/* ---- Static batch ---- */

/* Query or current_key determines the batch and the number of new tokens. */
static kvmill_status set_batch(struct given *given) {
    static const int64_t any[] = {KVMILL_DYNAMIC, KVMILL_DYNAMIC, KVMILL_DYNAMIC, KVMILL_DYNAMIC};
    int lead = given->base.tensors[KVMILL_CACHE_ATTENTION_QUERY]
                   ? KVMILL_CACHE_ATTENTION_QUERY
                   : KVMILL_CACHE_ATTENTION_CURRENT_KEY;
    kvmill_status status = kvmill_check_shape(&given->base, lead, 4, any);
    if (status == KVMILL_OK && !has_cache(given))
        status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_KEY, 4, any);
    if (status != KVMILL_OK)
        return status;
    given->call->base.view.batch = given->base.tensors[lead]->shape[0];
    given->call->base.view.tokens.each = given->base.tensors[lead]->shape[1];
    if (!has_cache(given))
        given->call->length.each = given->base.tensors[KVMILL_CACHE_ATTENTION_KEY]->shape[1];
    return KVMILL_OK;
}

static bool is_circular(const struct given *given) {
    return given->plan->geometry.circular;
}

/* If there are positions, a ring must have slots. */
static kvmill_status set_ring(const struct given *given, int64_t slots, bool has_positions) {
    given->call->ring = slots;
    if (slots > 0 || !has_positions)
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                       "the cache is a ring of 0 rows; accepted: 1 or more");
}

static kvmill_status check_ring_start(struct given *given) {
    struct cache_call *call = given->call;
    int64_t start, tokens = call->base.view.tokens.each;
    kvmill_status status = check_one(given, KVMILL_CACHE_ATTENTION_START_POS, 0, farthest, &start);
    if (status != KVMILL_OK)
        return status;
    call->length.each = start + tokens;
    return set_ring(given, given->capacity, call->length.each > 0);
}

static kvmill_status check_start(struct given *given) {
    struct cache_call *call = given->call;
    int64_t start, room = given->capacity - call->base.view.tokens.each;
    if (is_circular(given))
        return check_ring_start(given);
    if (room < 0)
        return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                           "current_key has %" PRId64 " tokens; accepted: at most the %" PRId64
                           " rows of the cache",
                           call->base.view.tokens.each, given->capacity);
    kvmill_status status = check_one(given, KVMILL_CACHE_ATTENTION_START_POS, 0, room, &start);
    if (status == KVMILL_OK)
        call->length.each = start + call->base.view.tokens.each;
    return status;
}

static kvmill_status check_static(struct given *given) {
    kvmill_status status = set_batch(given);
    if (status == KVMILL_OK && has_cache(given)) {
        status = kvmill_check_caches(given);
        if (status == KVMILL_OK)
            status = check_start(given);
    }
    return status;
}

/* ---- Dynamic batch: lengths ---- */

/* Check running sums of lengths, from 0 on. */
static kvmill_status check_sums(const struct given *given, int which) {
    kvmill_status status = check_element(given, which, 0, 0, 0);
    for (int64_t b = 0; status == KVMILL_OK && b < given->call->base.view.batch; b++)
        status = check_element(given, which, b + 1, index_at(array_of(given, which), b), INT64_MAX);
    return status;
}

/* The last sum must be the number of tokens. */
static kvmill_status check_total(const struct given *given, int which, int rows) {
    const DLTensor *tensor = given->base.tensors[rows];
    if (tensor == NULL || tensor->ndim == 0)
        return KVMILL_OK;
    return check_element(given, which, given->call->base.view.batch, tensor->shape[0],
                         tensor->shape[0]);
}

/* With a ring, not all positions are read back. */
static kvmill_status check_totals(const struct given *given) {
    int lead = given->base.tensors[KVMILL_CACHE_ATTENTION_QUERY]
                   ? KVMILL_CACHE_ATTENTION_QUERY
                   : KVMILL_CACHE_ATTENTION_CURRENT_KEY;
    kvmill_status status = check_total(given, KVMILL_CACHE_ATTENTION_SEQSTARTS, lead);
    return status == KVMILL_OK && !is_circular(given)
               ? check_total(given, KVMILL_CACHE_ATTENTION_KVSTARTS, KVMILL_CACHE_ATTENTION_KEY)
               : status;
}

static kvmill_status check_lengths(struct given *given) {
    struct cache_call *call = given->call;
    const DLTensor *seqstarts = given->base.tensors[KVMILL_CACHE_ATTENTION_SEQSTARTS];
    if (seqstarts->ndim != 1 || seqstarts->shape[0] < 1)
        return kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_SEQSTARTS, 1, &(int64_t){1});
    call->base.view.batch = seqstarts->shape[0] - 1;
    kvmill_status status =
        kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_KVSTARTS, 1, seqstarts->shape);
    if (status == KVMILL_OK)
        status = check_sums(given, KVMILL_CACHE_ATTENTION_SEQSTARTS);
    if (status == KVMILL_OK)
        status = check_sums(given, KVMILL_CACHE_ATTENTION_KVSTARTS);
    if (status == KVMILL_OK)
        status = check_totals(given);
    if (status != KVMILL_OK)
        return status;
    call->base.view.tokens.starts = numbers_of(given, KVMILL_CACHE_ATTENTION_SEQSTARTS);
    call->length.starts = numbers_of(given, KVMILL_CACHE_ATTENTION_KVSTARTS);
    return KVMILL_OK;
}

static kvmill_status refuse_length(const struct given *given, int64_t b) {
    return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                       "kvstarts[%" PRId64 "] - kvstarts[%" PRId64 "] is %" PRId64
                       "; accepted: %" PRId64 ", start_pos[%" PRId64 "] + its tokens in seqstarts",
                       b + 1, b, positions_of(given->call, b),
                       index_at(array_of(given, KVMILL_CACHE_ATTENTION_START_POS), b) +
                           tokens_of(given->call, b),
                       b);
}

/* kvlen = start_pos + seqlen. */
static kvmill_status check_starts(const struct given *given) {
    const struct cache_call *call = given->call;
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_START_POS, 1,
                                              &call->base.view.batch);
    for (int64_t b = 0; status == KVMILL_OK && b < call->base.view.batch; b++) {
        status = check_element(given, KVMILL_CACHE_ATTENTION_START_POS, b, 0,
                               is_circular(given) ? farthest : INT64_MAX - tokens_of(call, b));
        if (status == KVMILL_OK && index_at(array_of(given, KVMILL_CACHE_ATTENTION_START_POS), b) !=
                                       positions_of(call, b) - tokens_of(call, b))
            status = refuse_length(given, b);
    }
    return status;
}

/* Upper bounds of lengths; nothing relies on them. */
static kvmill_status check_bounds(const struct given *given) {
    const struct cache_call *call = given->call;
    int64_t tokens = 0, positions = 0, unused;
    for (int64_t b = 0; b < call->base.view.batch; b++) {
        tokens = tokens_of(call, b) > tokens ? tokens_of(call, b) : tokens;
        positions = positions_of(call, b) > positions ? positions_of(call, b) : positions;
    }
    kvmill_status status =
        check_one(given, KVMILL_CACHE_ATTENTION_MAX_SEQLEN, tokens, INT64_MAX, &unused);
    return status == KVMILL_OK
               ? check_one(given, KVMILL_CACHE_ATTENTION_MAX_KVLEN, positions, INT64_MAX, &unused)
               : status;
}

/* ---- Dynamic batch: places ---- */

/* Positions must begin at a tile: 16 rows, or a page. */
static kvmill_status check_tile(const struct given *given, int64_t b, int64_t row) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    int64_t multiple = kvmill_max(kvmill_format_row_multiple(&geometry->key),
                                  kvmill_format_row_multiple(&geometry->value));
    if (row % multiple == 0)
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_INDEX_RANGE,
                       "cachestarts of sequence %" PRId64 " has %" PRId64
                       "; accepted with cache_format \"%s\": multiples of %" PRId64,
                       b, row, kvmill_tiles_word(geometry), multiple);
}

static kvmill_status check_offsets(struct given *given) {
    struct cache_call *call = given->call;
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_CACHESTARTS, 1,
                                              &call->base.view.batch);
    call->ring = given->plan->geometry.ring;
    for (int64_t b = 0; status == KVMILL_OK && b < call->base.view.batch; b++) {
        int64_t length = kvmill_kept(call, b);
        if (length > given->capacity)
            return kvmill_fail(given->base.error, KVMILL_E_INDEX_RANGE,
                               "sequence %" PRId64 " of kvstarts has %" PRId64
                               " positions; accepted: at most the %" PRId64 " rows of the cache",
                               b, length, given->capacity);
        status = check_element(given, KVMILL_CACHE_ATTENTION_CACHESTARTS, b, 0,
                               given->capacity - length);
        if (status == KVMILL_OK)
            status = check_tile(given, b, index_at(call->cachestarts, b));
    }
    return status;
}

/* The list of a sequence, for one kv head or for all. */
struct page_list {
    int64_t b, head; /* head -1: the list is for all heads */
    const kvmill_index *rows;
};

static kvmill_status refuse_page(const struct given *given, const struct page_list *list,
                                 int64_t page, int64_t first, int64_t last) {
    char index[96], head[32] = "";
    if (list->head >= 0)
        snprintf(head, sizeof head, "%" PRId64 ", ", list->head);
    snprintf(index, sizeof index, "[%" PRId64 ", %s%" PRId64 "]", list->b, head, page);
    return refuse_number(given, KVMILL_CACHE_ATTENTION_CACHESTARTS, index,
                         list->rows[page * given->call->page_stride], first, last);
}

/* If pages are a dim of the cache, entries must be multiples of page_size. */
static bool has_split_pages(const struct given *given) {
    return given->plan->layout.row > 0;
}

static kvmill_status refuse_start(const struct given *given, const struct page_list *list,
                                  int64_t page) {
    return kvmill_fail(given->base.error, KVMILL_E_INDEX_RANGE,
                       "cachestarts of sequence %" PRId64 " has %" PRId64 " for page %" PRId64
                       "; accepted in this layout: multiples of page_size, %" PRId64,
                       list->b, (int64_t)list->rows[page * given->call->page_stride], page,
                       given->plan->geometry.page_size);
}

/* The last page of a sequence that is in place `page` of a list; in a ring, lists wrap around. */
static int64_t last_in_place(const struct given *given, int64_t b, int64_t page, int64_t pages) {
    int64_t last = (positions_of(given->call, b) - 1) / given->plan->geometry.page_size;
    return page + (last - page) / pages * pages;
}

/* New tokens are written for all heads at once, so their pages must be the same. */
static kvmill_status check_new_page(const struct given *given, const struct page_list *list,
                                    int64_t page, int64_t pages) {
    const struct cache_call *call = given->call;
    int64_t tokens = tokens_of(call, list->b), older = positions_of(call, list->b) - tokens;
    int64_t last = last_in_place(given, list->b, page, pages);
    bool is_new = tokens > 0 && last >= older / given->plan->geometry.page_size;
    int64_t at = page * call->page_stride, head = list->head > 0 ? list->head : 0;
    int64_t first = list->rows[at - head * call->page_head];
    return !is_new || list->rows[at] == first ? KVMILL_OK
                                              : refuse_page(given, list, page, first, first);
}

/* A page may begin at row `last` at most. */
static kvmill_status check_page(const struct given *given, const struct page_list *list,
                                int64_t page, int64_t pages, int64_t last) {
    int64_t row = list->rows[page * given->call->page_stride];
    if (row < 0 || row > last)
        return refuse_page(given, list, page, 0, last);
    if (has_split_pages(given) && row % given->plan->geometry.page_size != 0)
        return refuse_start(given, list, page);
    kvmill_status status = check_tile(given, list->b, row);
    return status == KVMILL_OK ? check_new_page(given, list, page, pages) : status;
}

/* Only pages that hold positions are checked. */
static kvmill_status check_list(const struct given *given, const struct page_list *list,
                                int64_t pages) {
    const struct cache_call *call = given->call;
    int64_t b = list->b, size = given->plan->geometry.page_size, length = kvmill_kept(call, b);
    int64_t used = length / size + (length % size != 0);
    if (is_circular(given))
        used = kvmill_min(used, pages);
    if (used > pages)
        return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                           "cachestarts has %" PRId64 " pages of %" PRId64
                           "; accepted: enough for the %" PRId64 " positions of sequence %" PRId64,
                           pages, size, length, b);
    kvmill_status status = KVMILL_OK;
    for (int64_t page = 0; status == KVMILL_OK && page < used; page++) {
        int64_t last = given->capacity - kvmill_min(size, length - page * size);
        status = check_page(given, list, page, pages, last);
    }
    return status;
}

/* KeyValueCache reads all heads of a row at once, so it has one list. */
static bool has_lists_of_heads(const struct given *given) {
    return given->base.tensors[KVMILL_CACHE_ATTENTION_CACHESTARTS]->ndim == 3 &&
           given->plan->geometry.which == KVMILL_MULTI_HEAD_CACHE_ATTENTION;
}

static kvmill_status check_pages(struct given *given) {
    struct cache_call *call = given->call;
    const DLTensor *table = given->base.tensors[KVMILL_CACHE_ATTENTION_CACHESTARTS];
    bool of_heads = has_lists_of_heads(given);
    int64_t lists = of_heads ? given->plan->geometry.kv_heads : 1;
    const int64_t dims[] = {call->base.view.batch, of_heads ? lists : KVMILL_DYNAMIC,
                            KVMILL_DYNAMIC};
    kvmill_status status =
        kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_CACHESTARTS, 2 + of_heads, dims);
    if (status != KVMILL_OK)
        return status;
    bool overflow = false;
    int64_t slots =
        kvmill_times(table->shape[1 + of_heads], given->plan->geometry.page_size, &overflow);
    if (is_circular(given))
        status = set_ring(given, overflow ? INT64_MAX : slots,
                          count_before(&call->length, call->base.view.batch) > 0);
    call->page_stride = kvmill_tensor_stride(table, 1 + of_heads);
    call->page_head = of_heads ? kvmill_tensor_stride(table, 1) : 0;
    for (int64_t n = 0; status == KVMILL_OK && n < call->base.view.batch * lists; n++) {
        int64_t b = n / lists, head = n % lists;
        const struct page_list list = {b, of_heads ? head : -1,
                                       call->cachestarts.data + b * call->cachestarts.stride +
                                           head * call->page_head};
        status = check_list(given, &list, table->shape[1 + of_heads]);
    }
    return status;
}

static kvmill_status check_places(struct given *given) {
    kvmill_status status = kvmill_check_caches(given);
    if (status == KVMILL_OK)
        status = check_starts(given);
    if (status != KVMILL_OK)
        return status;
    given->call->cachestarts = array_of(given, KVMILL_CACHE_ATTENTION_CACHESTARTS);
    return given->plan->geometry.paged ? check_pages(given) : check_offsets(given);
}

static kvmill_status check_dynamic(struct given *given) {
    struct cache_call *call = given->call;
    kvmill_status status = check_lengths(given);
    if (status == KVMILL_OK && given->base.tensors[KVMILL_CACHE_ATTENTION_DECODING_BATCHES] != NULL)
        status = check_one(given, KVMILL_CACHE_ATTENTION_DECODING_BATCHES, 0, call->base.view.batch,
                           &call->decoding);
    if (status == KVMILL_OK)
        status = check_bounds(given);
    return status == KVMILL_OK && has_cache(given) ? check_places(given) : status;
}

/* ---- The ops ---- */

/* Counts of all sequences. */
static kvmill_status sum_up(struct given *given) {
    struct cache_call *call = given->call;
    if (given->plan->geometry.dynamic) {
        call->tokens = count_before(&call->base.view.tokens, call->base.view.batch);
        call->positions = count_before(&call->length, call->base.view.batch);
        return KVMILL_OK;
    }
    if (__builtin_mul_overflow(call->base.view.batch, call->base.view.tokens.each, &call->tokens) ||
        __builtin_mul_overflow(call->base.view.batch, call->length.each, &call->positions))
        return kvmill_fail(given->base.error, KVMILL_E_OVERFLOW,
                           "%" PRId64 " sequences have %" PRId64 " tokens and %" PRId64
                           " positions each; accepted: products of 64 bits",
                           call->base.view.batch, call->base.view.tokens.each, call->length.each);
    return KVMILL_OK;
}

/* Overlaps are checked before lengths, because lengths may be in memory that is written. */
static kvmill_status check(struct given *given, const DLTensor *const *tensors) {
    kvmill_status status = kvmill_check_given(&given->base, tensors);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&given->base);
    if (status == KVMILL_OK)
        status = given->plan->geometry.dynamic ? check_dynamic(given) : check_static(given);
    if (status == KVMILL_OK)
        status = sum_up(given);
    return status == KVMILL_OK ? kvmill_check_activations(given) : status;
}

kvmill_status kvmill_cache_attention_begin(struct call *base, const DLTensor *const *tensors,
                                           kvmill_error *error) {
    struct cache_call *call = (struct cache_call *)(void *)base;
    const DLTensor *known[KVMILL_CACHE_ATTENTION_TENSORS];
    const struct cache_plan *plan = cache_plan_of(call);
    struct given given = {
        .base = {.rules = plan->rules,
                 .count = KVMILL_CACHE_ATTENTION_TENSORS,
                 .op = kvmill_cache_op_of(&plan->geometry)->name,
                 .tensors = known,
                 .error = error},
        .plan = plan,
        .call = call,
    };
    *call = (struct cache_call){.base = {.base = {*base, plan->phases}}};
    kvmill_status status = check(&given, tensors);
    if (status != KVMILL_OK)
        return status;
    kvmill_set_turns(call);
    kvmill_set_addresses(&given);
    status = kvmill_attend_check_masks(&plan->base, &call->base.view, error);
    if (status == KVMILL_OK)
        kvmill_begin_turn(call, 0);
    return status;
}
