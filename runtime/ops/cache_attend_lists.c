/* The tensors that name the rows which CacheAttend sees: lengths, ranges, pages, slots.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "../../ops/fail.h"
#include "../../ops/refuse.h"
#include "../core/numbers.h"
#include "../core/tensor.h"
#include "cache_attend_plan.h"

static const DLTensor *tensor_of(const struct attend_given *given, int which) {
    return given->base.tensors[which];
}

static bool has(const struct attend_given *given, int which) {
    return tensor_of(given, which) != NULL;
}

static const char *name_of(const struct attend_given *given, int which) {
    return given->base.rules[which].name;
}

/* ---- Numbers ---- */

struct number_array kvmill_numbers_of(const struct attend_given *given, int which) {
    const DLTensor *tensor = tensor_of(given, which);
    if (tensor == NULL)
        return (struct number_array){0};
    return (struct number_array){tensor_data(tensor), tensor->dtype.bits,
                                 kvmill_tensor_stride(tensor, 0)};
}

static kvmill_status refuse_number(const struct attend_given *given, int which, int64_t i,
                                   int64_t value, int64_t first, int64_t last) {
    char index[64] = "";
    bool pairs = which == KVMILL_CACHE_ATTEND_RANGES;
    if (pairs)
        snprintf(index, sizeof index, "[%" PRId64 ", %" PRId64 "]", i / 2, i % 2);
    else
        snprintf(index, sizeof index, "[%" PRId64 "]", i);
    return kvmill_refuse_number(kvmill_index_status(value), name_of(given, which), index, value,
                                (struct kvmill_range){first, last}, given->base.error);
}

kvmill_status kvmill_check_number(const struct attend_given *given, int which, int64_t i,
                                  int64_t first, int64_t last) {
    const struct number_array numbers = kvmill_numbers_of(given, which);
    int64_t value = number_at(&numbers, i);
    return value >= first && value <= last ? KVMILL_OK
                                           : refuse_number(given, which, i, value, first, last);
}

kvmill_status kvmill_check_starts(const struct attend_given *given, int which, int64_t count,
                                  int64_t end) {
    const struct number_array numbers = kvmill_numbers_of(given, which);
    int64_t least = 0;
    for (int64_t b = 0; b <= count; b++) {
        int64_t most = b == 0 ? 0 : end;
        kvmill_status status =
            kvmill_check_number(given, which, b, b == count ? most : least, most);
        if (status != KVMILL_OK)
            return status;
        least = number_at(&numbers, b);
    }
    return KVMILL_OK;
}

/* ---- Which tensors exist ---- */

static kvmill_status check_pair(const struct attend_given *given, int list, int starts) {
    if (has(given, list) == has(given, starts))
        return KVMILL_OK;
    int given_one = has(given, list) ? list : starts, missing = has(given, list) ? starts : list;
    return kvmill_fail(given->base.error, KVMILL_E_NULL, "%s is NULL; a tensor is required with %s",
                       name_of(given, missing), name_of(given, given_one));
}

/* Only lengths can count the positions of a ring. */
static kvmill_status check_circular(const struct attend_given *given) {
    static const int others[] = {KVMILL_CACHE_ATTEND_RANGES, KVMILL_CACHE_ATTEND_SLOTS,
                                 KVMILL_CACHE_ATTEND_KEY_POSITIONS};
    if (!given->plan->geometry.circular)
        return KVMILL_OK;
    for (int i = 0; i < 3; i++)
        if (has(given, others[i]))
            return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                               "%s is given; accepted with mode \"circular\": NULL",
                               name_of(given, others[i]));
    if (has(given, KVMILL_CACHE_ATTEND_LENGTHS))
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_NULL,
                       "lengths is NULL; a tensor is required with mode \"circular\"");
}

kvmill_status kvmill_check_places(const struct attend_given *given) {
    static const int places[] = {KVMILL_CACHE_ATTEND_PAGE_IDS, KVMILL_CACHE_ATTEND_RANGES,
                                 KVMILL_CACHE_ATTEND_SLOTS, KVMILL_CACHE_ATTEND_LENGTHS};
    int count = 0;
    for (int i = 0; i < 4; i++)
        count += has(given, places[i]);
    if (has(given, KVMILL_CACHE_ATTEND_PAGE_IDS) && has(given, KVMILL_CACHE_ATTEND_LENGTHS))
        count--;
    if (count != 1)
        return kvmill_fail(given->base.error, count == 0 ? KVMILL_E_NULL : KVMILL_E_SHAPE,
                           "%d of lengths, ranges, page_ids and slots are given; accepted: one, or "
                           "page_ids with lengths",
                           count);
    kvmill_status status =
        check_pair(given, KVMILL_CACHE_ATTEND_PAGE_IDS, KVMILL_CACHE_ATTEND_PAGE_STARTS);
    if (status == KVMILL_OK)
        status = check_pair(given, KVMILL_CACHE_ATTEND_SLOTS, KVMILL_CACHE_ATTEND_SLOT_STARTS);
    return status == KVMILL_OK ? check_circular(given) : status;
}

/* ---- Their contents ---- */

static int64_t rows_of_pages(const struct cache_attend_call *call, int64_t b, int64_t kv_head) {
    return (page_list_at(call, b, kv_head, 1) - page_list_at(call, b, kv_head, 0)) *
           cache_attend_plan_of(call)->geometry.page_size;
}

int64_t kvmill_cache_attend_ring(const struct cache_attend_call *call, int64_t b, int64_t kv_head) {
    return call->page_ids.data != NULL ? rows_of_pages(call, b, kv_head) : call->rows;
}

int64_t kvmill_cache_attend_length(const struct cache_attend_call *call, int64_t b,
                                   int64_t kv_head) {
    if (call->lengths.data != NULL)
        return number_at(&call->lengths, b);
    if (call->slots.data != NULL)
        return number_at(&call->slot_starts, b + 1) - number_at(&call->slot_starts, b);
    if (call->page_ids.data != NULL)
        return rows_of_pages(call, b, kv_head);
    return call->ranges[0].data != NULL ? call->rows : 0;
}

static kvmill_status check_each(const struct attend_given *given, int which, int64_t count,
                                int64_t last) {
    kvmill_status status = KVMILL_OK;
    for (int64_t i = 0; status == KVMILL_OK && i < count; i++)
        status = kvmill_check_number(given, which, i, 0, last);
    return status;
}

static kvmill_status check_lengths(const struct attend_given *given) {
    const struct cache_attend_call *call = given->call;
    int64_t batch = call->base.view.batch;
    bool in_pages = has(given, KVMILL_CACHE_ATTEND_PAGE_IDS);
    bool circular = given->plan->geometry.circular && (in_pages || call->rows > 0);
    int64_t most = in_pages ? INT64_MAX : call->rows;
    if (!has(given, KVMILL_CACHE_ATTEND_LENGTHS))
        return KVMILL_OK;
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_LENGTHS, 1, &batch);
    return status == KVMILL_OK
               ? check_each(given, KVMILL_CACHE_ATTEND_LENGTHS, batch, circular ? farthest : most)
               : status;
}

static kvmill_status check_ranges(const struct attend_given *given) {
    struct cache_attend_call *call = given->call;
    const int64_t dims[] = {call->queries, 2};
    const DLTensor *ranges = tensor_of(given, KVMILL_CACHE_ATTEND_RANGES);
    if (ranges == NULL)
        return KVMILL_OK;
    kvmill_status status = kvmill_check_shape(&given->base, KVMILL_CACHE_ATTEND_RANGES, 2, dims);
    if (status != KVMILL_OK)
        return status;
    call->ranges[0] = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_RANGES);
    call->ranges[1] = call->ranges[0];
    call->ranges[1].data = kvmill_tensor_at(ranges, 1, 1);
    for (int64_t n = 0; n < call->queries; n++) {
        int64_t first = number_at(&call->ranges[0], n), end = number_at(&call->ranges[1], n);
        if (first < 0 || first > call->rows)
            return refuse_number(given, KVMILL_CACHE_ATTEND_RANGES, 2 * n, first, 0, call->rows);
        if (end < first || end > call->rows)
            return refuse_number(given, KVMILL_CACHE_ATTEND_RANGES, 2 * n + 1, end, first,
                                 call->rows);
    }
    return KVMILL_OK;
}

/* A list of integers, and where the parts of `count` owners begin in it. */
static kvmill_status check_list(const struct attend_given *given, int list, int starts,
                                int64_t count, int64_t last) {
    static const int64_t any[] = {KVMILL_DYNAMIC};
    const int64_t dims[] = {count + 1};
    kvmill_status status = kvmill_check_shape(&given->base, list, 1, any);
    if (status == KVMILL_OK)
        status = kvmill_check_shape(&given->base, starts, 1, dims);
    if (status != KVMILL_OK)
        return status;
    int64_t elements = tensor_of(given, list)->shape[0];
    status = kvmill_check_starts(given, starts, count, elements);
    return status == KVMILL_OK ? check_each(given, list, elements, last) : status;
}

/* The lists must have the pages that lengths need. */
static kvmill_status check_counts(const struct attend_given *given, int64_t heads) {
    const struct cache_attend_call *call = given->call;
    int64_t size = given->plan->geometry.page_size;
    for (int64_t n = 0; call->lengths.data != NULL && n < call->base.view.batch * heads; n++) {
        int64_t length = number_at(&call->lengths, n / heads);
        int64_t needed = length / size + (length % size != 0);
        if (given->plan->geometry.circular)
            needed = kvmill_min(needed, 1);
        int64_t pages = number_at(&call->page_starts, n + 1) - number_at(&call->page_starts, n);
        if (pages < needed)
            return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                               "page_starts[%" PRId64 "] to [%" PRId64 "] are %" PRId64
                               " pages; accepted: %" PRId64 " or more, for lengths[%" PRId64
                               "], %" PRId64,
                               n, n + 1, pages, needed, n / heads, length);
    }
    return KVMILL_OK;
}

static kvmill_status check_pages(struct attend_given *given) {
    struct cache_attend_call *call = given->call;
    int64_t batch = call->base.view.batch, size = given->plan->geometry.page_size;
    const DLTensor *starts = tensor_of(given, KVMILL_CACHE_ATTEND_PAGE_STARTS);
    int64_t kv_heads = given->plan->geometry.kv_heads;
    if (starts == NULL)
        return KVMILL_OK;
    call->heads_apart =
        starts->ndim == 1 && kv_heads > 1 && batch > 0 && starts->shape[0] == batch * kv_heads + 1;
    int64_t heads = call->heads_apart ? kv_heads : 1;
    kvmill_status status =
        check_list(given, KVMILL_CACHE_ATTEND_PAGE_IDS, KVMILL_CACHE_ATTEND_PAGE_STARTS,
                   batch * heads, call->rows / size - 1);
    if (status != KVMILL_OK)
        return status;
    call->page_ids = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_PAGE_IDS);
    call->page_starts = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_PAGE_STARTS);
    return check_counts(given, heads);
}

static kvmill_status check_slots(const struct attend_given *given) {
    struct cache_attend_call *call = given->call;
    if (!has(given, KVMILL_CACHE_ATTEND_SLOTS))
        return KVMILL_OK;
    call->slots = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_SLOTS);
    call->slot_starts = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_SLOT_STARTS);
    return check_list(given, KVMILL_CACHE_ATTEND_SLOTS, KVMILL_CACHE_ATTEND_SLOT_STARTS,
                      call->base.view.batch, call->rows - 1);
}

kvmill_status kvmill_check_lists(struct attend_given *given) {
    kvmill_status status = check_lengths(given);
    given->call->lengths = kvmill_numbers_of(given, KVMILL_CACHE_ATTEND_LENGTHS);
    if (status == KVMILL_OK)
        status = check_ranges(given);
    if (status == KVMILL_OK)
        status = check_pages(given);
    return status == KVMILL_OK ? check_slots(given) : status;
}
