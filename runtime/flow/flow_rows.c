/* Counts the pages of each row of a batch, and those that are selected.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_portable.h"

#include <inttypes.h>

#include "../../ops/fail.h"
#include "../../ops/refuse.h"

struct flow_row kvmill_flow_row_of(const struct kvmill_flow_budget *budget, int64_t block_size,
                                   int64_t length) {
    int64_t pages = length / block_size + (length % block_size != 0);
    int64_t most = length < budget->dense_below ? pages : kvmill_flow_budget_of(budget, pages);
    return (struct flow_row){pages, pages < most ? pages : most,
                             pages == 0 ? 0 : length - (pages - 1) * block_size};
}

int64_t kvmill_flow_room_of(const struct kvmill_flow_problem *problem,
                            const struct flow_batch *batch, int64_t b) {
    return (batch->indptr[b + 1] - batch->indptr[b]) * problem->page_blocks;
}

int64_t kvmill_flow_room_before(const struct kvmill_flow_problem *problem,
                                const struct flow_batch *batch, int64_t b) {
    return batch->indptr[b] * problem->page_blocks;
}

/* A request's own budget replaces topk_val, topk_ratio and cap. */
struct flow_row kvmill_flow_row_at(const struct kvmill_flow_problem *problem,
                                   const struct flow_batch *batch, int64_t b) {
    struct kvmill_flow_budget budget = problem->budget;
    if (batch->topk != NULL && batch->topk[b] >= 0) {
        budget.k = batch->topk[b];
        budget.numerator = budget.cap = 0;
    }
    return kvmill_flow_row_of(&budget, problem->block_size, batch->length[b]);
}

/* ---- Validation ---- */

/* Without an index program nothing can be scored. */
static kvmill_status check_topk(const struct kvmill_flow_problem *problem, const int64_t *topk,
                                int64_t b, kvmill_error *error) {
    bool scores = problem->programs[KVMILL_INDEX_PROGRAM].step_count > 0;
    if (topk == NULL || topk[b] == -1 || topk[b] == 0 || topk[b] == KVMILL_FLOW_ALL ||
        (scores && topk[b] > 0 && topk[b] < KVMILL_FLOW_ALL))
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_INDEX_RANGE, "topk_vals[%" PRId64 "] is %" PRId64 "; accepted: %s%d", b,
        topk[b], scores ? "-1 to " : "in a flow without index program -1, 0, ", KVMILL_FLOW_ALL);
}

static kvmill_status check_length(const int64_t *length, int64_t b, kvmill_error *error) {
    return length[b] >= 0 ? KVMILL_OK
                          : kvmill_fail(error, KVMILL_E_INDEX_NEGATIVE,
                                        "seq_len[%" PRId64 "] is %" PRId64 "; accepted: 0 or more",
                                        b, length[b]);
}

/* Numbers of blocks have 31 bits. */
static kvmill_status check_blocks(const struct kvmill_flow_problem *problem, const int64_t *length,
                                  int64_t b, kvmill_error *error) {
    int64_t size = problem->block_size;
    return length[b] / size < INT32_MAX
               ? KVMILL_OK
               : kvmill_fail(error, KVMILL_E_OVERFLOW,
                             "seq_len[%" PRId64 "] is %" PRId64
                             "; accepted: less than 2^31 - 1 %s of %" PRId64,
                             b, length[b], problem->page_blocks > 1 ? "blocks" : "pages", size);
}

static kvmill_status check_request(const struct kvmill_flow_problem *problem,
                                   const struct flow_batch *batch, int64_t b, kvmill_error *error) {
    int64_t first = batch->indptr[b], pages = batch->indptr[b + 1], length = batch->length[b];
    int64_t size = problem->geometry.page_size;
    if (pages < first)
        return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                           "page_indptr[%" PRId64 "] is %" PRId64 "; accepted: %" PRId64
                           " or more, as the one before",
                           b + 1, pages, first);
    pages -= first;
    kvmill_status status = check_length(batch->length, b, error);
    if (status != KVMILL_OK)
        return status;
    int64_t needed = length / size + (length % size != 0);
    if (pages != needed)
        return kvmill_fail(error, KVMILL_E_SHAPE,
                           "seq_len[%" PRId64 "] is %" PRId64 ", in %" PRId64
                           " pages; accepted: %" PRId64 " pages of %" PRId64,
                           b, length, pages, needed, size);
    status = check_blocks(problem, batch->length, b, error);
    return status == KVMILL_OK ? check_topk(problem, batch->topk, b, error) : status;
}

static kvmill_status check_ids(const struct flow_batch *batch, kvmill_error *error) {
    if (batch->indptr[batch->batch] > batch->id_count)
        return kvmill_fail(error, KVMILL_E_SHAPE,
                           "page_indptr[%" PRId64 "] is %" PRId64 "; accepted: at most %" PRId64
                           ", as page_ids has",
                           batch->batch, (int64_t)batch->indptr[batch->batch], batch->id_count);
    for (int64_t i = 0; i < batch->indptr[batch->batch]; i++)
        if (batch->ids[i] < 0 || batch->ids[i] >= batch->page_count)
            return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                               "page_ids[%" PRId64 "] is %" PRId32 "; accepted: 0 to %" PRId64, i,
                               batch->ids[i], batch->page_count - 1);
    return KVMILL_OK;
}

/* Absolute numbers have 32 bits. */
kvmill_status kvmill_flow_check_batch(const struct kvmill_flow_problem *problem,
                                      const struct flow_batch *batch, kvmill_error *error) {
    int64_t kv_heads = problem->geometry.kv_heads, blocks = problem->page_blocks;
    if (batch->page_count > INT32_MAX / kv_heads / blocks)
        return kvmill_fail(error, KVMILL_E_OVERFLOW,
                           "%" PRId64 " blocks of %" PRId64 " kv heads; accepted: less than 2^31 "
                           "together",
                           batch->page_count * blocks, kv_heads);
    if (batch->indptr[0] != 0)
        return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                           "page_indptr[0] is %" PRId64 "; accepted: 0", batch->indptr[0]);
    for (int64_t b = 0; b < batch->batch; b++) {
        kvmill_status status = check_request(problem, batch, b, error);
        if (status != KVMILL_OK)
            return status;
    }
    return check_ids(batch, error);
}

/* A list of `count` of a request's `pages` pages; it begins at entry `first` of all lists. */
struct listed {
    const int32_t *page;
    int64_t first, count, pages;
    bool ascends; /* it must ascend */
    bool ends;    /* the last page, which may be partial, must be the last */
    bool ended;   /* the last page must be there */
};

static kvmill_status refuse_entry(const struct listed *listed, int64_t i, int64_t first,
                                  int64_t last, kvmill_error *error) {
    return kvmill_refuse_element(KVMILL_E_INDEX_RANGE, "sel", listed->first + i, listed->page[i],
                                 (struct kvmill_range){first, last}, error);
}

static kvmill_status check_entries(const struct listed *listed, kvmill_error *error) {
    int64_t least = 0;
    for (int64_t i = 0; i < listed->count; i++) {
        bool is_end = listed->ends && i + 1 == listed->count;
        int64_t last = listed->pages - 1 - (listed->ends && !is_end);
        int64_t first = is_end && listed->ended ? last : least;
        if (listed->page[i] < first || listed->page[i] > last)
            return refuse_entry(listed, i, first, last, error);
        least = listed->ascends ? listed->page[i] + 1 : 0;
    }
    return KVMILL_OK;
}

static kvmill_status check_list(const struct flow_lists *lists, int64_t row,
                                const struct listed *listed, kvmill_error *error) {
    int64_t first = lists->starts[row], end = lists->starts[row + 1];
    int64_t room = lists->count - first, most = listed->pages < room ? listed->pages : room;
    if (listed->count >= 0 && listed->count <= most)
        return check_entries(listed, error);
    return kvmill_refuse_element(KVMILL_E_INDEX_RANGE, "sel_indptr", row + 1, end,
                                 (struct kvmill_range){first, first + (most > 0 ? most : 0)},
                                 error);
}

kvmill_status kvmill_flow_check_lists(const struct kvmill_flow_problem *problem,
                                      const struct flow_batch *batch,
                                      const struct flow_lists *lists, kvmill_error *error) {
    int64_t rows = kvmill_flow_rows_of_request(problem);
    kvmill_status status = KVMILL_OK;
    if (lists->starts[0] != 0)
        return kvmill_fail(error, KVMILL_E_INDEX_RANGE, "sel_indptr[0] is %" PRId64 "; accepted: 0",
                           lists->starts[0]);
    for (int64_t row = 0; status == KVMILL_OK && row < batch->batch * rows; row++) {
        int64_t b = row / rows, first = lists->starts[row], end = lists->starts[row + 1];
        const struct listed listed = {lists->list + first,
                                      first,
                                      end < first ? -1 : end - first,
                                      kvmill_flow_row_at(problem, batch, b).pages,
                                      problem->geometry.window > 0,
                                      problem->block_size > 1,
                                      problem->block_size > 1 && problem->budget.eos > 0};
        status = check_list(lists, row, &listed, error);
    }
    return status;
}

/* ---- Counting ---- */

void kvmill_flow_count_rows(const struct kvmill_flow_problem *problem,
                            const struct flow_batch *batch, int64_t *starts) {
    int64_t rows = kvmill_flow_rows_of_request(problem), total = 0;
    for (int64_t b = 0; b < batch->batch; b++) {
        struct flow_row row = kvmill_flow_row_at(problem, batch, b);
        for (int64_t r = 0; r < rows; r++, total += row.selected)
            starts[b * rows + r] = total;
    }
    starts[batch->batch * rows] = total;
}

/* ---- For the library's users ---- */

static kvmill_status check_counted(const struct kvmill_flow_problem *problem,
                                   const struct flow_batch *batch, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (int64_t b = 0; status == KVMILL_OK && b < batch->batch; b++) {
        status = check_length(batch->length, b, error);
        if (status == KVMILL_OK)
            status = check_blocks(problem, batch->length, b, error);
        if (status == KVMILL_OK)
            status = check_topk(problem, batch->topk, b, error);
    }
    return status;
}

kvmill_status kvmill_flow_count(const kvmill_flow *flow, int64_t batch, const int64_t *seq_len,
                                const int64_t *topk_vals, int64_t *sel_indptr,
                                kvmill_error *error) {
    struct kvmill_own_flow own;
    struct kvmill_flow_problem problem;
    const struct flow_batch counted = {.batch = batch, .length = seq_len, .topk = topk_vals};
    kvmill_status status = kvmill_take_flow(flow, &own, error);
    if (status == KVMILL_OK)
        status = kvmill_flow_verify(&own.flow, &problem, error);
    if (status != KVMILL_OK)
        return status;
    if (batch < 0 || batch > INT32_MAX)
        return kvmill_fail(error, KVMILL_E_SHAPE, "batch is %" PRId64 "; accepted: 0 to %" PRId32,
                           batch, INT32_MAX);
    if ((seq_len == NULL && batch > 0) || sel_indptr == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; an array is required",
                           sel_indptr == NULL ? "sel_indptr" : "seq_len");
    status = check_counted(&problem, &counted, error);
    if (status == KVMILL_OK)
        kvmill_flow_count_rows(&problem, &counted, sel_indptr);
    return status;
}
