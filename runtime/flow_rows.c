/* How many pages each row of a batch has, and how many of them are selected.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <inttypes.h>

#include "../ops/fail.h"

struct flow_row kvmill_flow_row_of(const struct kvmill_flow_budget *budget, int64_t page_size,
                                   int64_t length) {
    int64_t pages = length / page_size + (length % page_size != 0);
    int64_t most = kvmill_flow_budget_of(budget, pages);
    return (struct flow_row){pages, pages < most ? pages : most,
                             pages == 0 ? 0 : length - (pages - 1) * page_size};
}

int64_t kvmill_flow_rows_of_request(const struct kvmill_flow_problem *problem) {
    switch (problem->scope) {
    case KVMILL_SCOPE_REQUEST:
        return 1;
    case KVMILL_SCOPE_QUERY_HEAD:
        return problem->geometry.heads;
    default:
        return problem->geometry.kv_heads;
    }
}

/* ---- Validation ---- */

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
    if (length < 0)
        return kvmill_fail(error, KVMILL_E_INDEX_NEGATIVE,
                           "seq_len[%" PRId64 "] is %" PRId64 "; accepted: 0 or more", b, length);
    if (pages != length / size + (length % size != 0))
        return kvmill_fail(error, KVMILL_E_SHAPE,
                           "seq_len[%" PRId64 "] is %" PRId64 ", in %" PRId64
                           " pages; accepted: %" PRId64 " tokens to a page",
                           b, length, pages, size);
    return KVMILL_OK;
}

static kvmill_status check_ids(const struct flow_batch *batch, kvmill_error *error) {
    for (int64_t i = 0; i < batch->indptr[batch->batch]; i++)
        if (batch->ids[i] < 0 || batch->ids[i] >= batch->page_count)
            return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                               "page_ids[%" PRId64 "] is %" PRId32 "; accepted: 0 to %" PRId64, i,
                               batch->ids[i], batch->page_count - 1);
    return KVMILL_OK;
}

/* Absolute ids are 32 bits wide. */
static kvmill_status check_batch(const struct kvmill_flow_problem *problem,
                                 const struct flow_batch *batch, kvmill_error *error) {
    int64_t kv_heads = problem->geometry.kv_heads;
    if (batch->page_count > INT32_MAX / kv_heads)
        return kvmill_fail(error, KVMILL_E_OVERFLOW,
                           "%" PRId64 " pages of %" PRId64 " kv heads; accepted: less than 2^31 "
                           "together",
                           batch->page_count, kv_heads);
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

/* ---- Counting ---- */

kvmill_status kvmill_flow_count_rows(const struct kvmill_flow_problem *problem,
                                     const struct flow_batch *batch, int64_t *selected,
                                     kvmill_error *error) {
    int64_t rows = kvmill_flow_rows_of_request(problem), total = 0;
    kvmill_status status = check_batch(problem, batch, error);
    if (status != KVMILL_OK)
        return status;
    for (int64_t b = 0; b < batch->batch; b++) {
        struct flow_row row =
            kvmill_flow_row_of(&problem->budget, problem->geometry.page_size, batch->length[b]);
        for (int64_t r = 0; r < rows; r++, total += row.selected)
            selected[b * rows + r] = total;
    }
    selected[batch->batch * rows] = total;
    return kvmill_succeed(error);
}
