/* New tokens: checks their slots, and stores their rows in the cache.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_portable.h"

#include <inttypes.h>
#include <string.h>

#include "../../ops/fail.h"
#include "../core/write_tokens.h"

/* ---- Validation ---- */

/* The page that a token goes to; -1: none. */
static int64_t page_of(int64_t slot, int64_t size) {
    return slot < 0 ? -1 : slot / size;
}

/* A row has one token, and a page's last one tells how many rows it has. */
static kvmill_status check_slot(const int64_t *slot, int64_t t, int64_t slots, bool stays,
                                kvmill_error *error) {
    if (slot[t] < -1 || slot[t] >= slots)
        return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                           "slot_mapping[%" PRId64 "] is %" PRId64 "; accepted: -1 to %" PRId64, t,
                           slot[t], slots - 1);
    if (stays && slot[t] <= slot[t - 1])
        return kvmill_fail(error, KVMILL_E_ALIAS,
                           "slot_mapping[%" PRId64 "] is %" PRId64
                           ", of the page of the token before; accepted: above its %" PRId64,
                           t, slot[t], slot[t - 1]);
    return KVMILL_OK;
}

/* Each token alone and with the one before; pages of earlier calls are forgotten. */
static kvmill_status check_tokens(const struct flow_tokens *tokens, int64_t page_count,
                                  int64_t size, unsigned char *seen, kvmill_error *error) {
    int64_t before = -1, page;
    for (int64_t t = 0; t < tokens->tokens; t++, before = page) {
        page = page_of(tokens->slot[t], size);
        bool stays = page >= 0 && page == before;
        kvmill_status status = check_slot(tokens->slot, t, page_count * size, stays, error);
        if (status != KVMILL_OK)
            return status;
        if (page >= 0 && !stays)
            seen[page / 8] &= (unsigned char)~(1u << page % 8);
    }
    return KVMILL_OK;
}

static kvmill_status check_pages(const struct flow_tokens *tokens, int64_t size,
                                 unsigned char *seen, kvmill_error *error) {
    int64_t before = -1, page;
    for (int64_t t = 0; t < tokens->tokens; t++, before = page) {
        page = page_of(tokens->slot[t], size);
        if (page < 0 || page == before)
            continue;
        unsigned bit = 1u << page % 8;
        if (seen[page / 8] & bit)
            return kvmill_fail(error, KVMILL_E_ALIAS,
                               "slot_mapping[%" PRId64 "] is %" PRId64
                               ", in a page that earlier tokens "
                               "have left; accepted: the tokens of a page one after another",
                               t, tokens->slot[t]);
        seen[page / 8] |= (unsigned char)bit;
    }
    return KVMILL_OK;
}

kvmill_status kvmill_flow_check_slots(const struct kvmill_flow_problem *problem,
                                      const struct flow_tokens *tokens, int64_t page_count,
                                      unsigned char *seen, kvmill_error *error) {
    int64_t size = problem->geometry.page_size;
    kvmill_status status = check_tokens(tokens, page_count, size, seen, error);
    if (status == KVMILL_OK)
        status = check_pages(tokens, size, seen, error);
    return status == KVMILL_OK ? kvmill_succeed(error) : status;
}

/* ---- Writing ---- */

struct paged_tokens {
    const struct flow_writer *writer;
    const struct flow_tokens *tokens;
};

static int64_t row_of(const void *context, int64_t t) {
    const struct paged_tokens *paged = context;
    const struct flow_writer *writer = paged->writer;
    int64_t slot = paged->tokens->slot[t];
    return slot < 0 ? -1 : slot / writer->page_size * writer->page_rows + slot % writer->page_size;
}

void kvmill_flow_write(const struct flow_writer *writer, const struct flow_tokens *tokens, int v,
                       const struct flow_span *span) {
    const struct paged_tokens paged = {writer, tokens};
    const struct kvmill_convert convert = {
        .shape = writer->shape,
        .activation = (unsigned char *)(uintptr_t)tokens->data[v],
        .token_stride = tokens->token_stride[v],
        .head_stride = tokens->head_stride[v],
        .cache = writer->cache,
        .heads = writer->heads,
        .repeat = 1,
        .stream = writer->stream,
        .saturate = writer->saturates,
    };
    kvmill_write_tokens(writer->kernel, &convert, row_of, &paged, span->first, span->last);
}

/* ---- Rows of fields ---- */

void kvmill_flow_write_field(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, const struct flow_tokens *tokens,
                             int field, const struct flow_span *span) {
    const struct flow_field_rows rows = flow_field_rows_of(problem, cache, field);
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    const unsigned char *from = tokens->rows[known->appended];
    for (int64_t t = span->first; t < span->last; t++)
        for (int64_t h = 0; h < known->heads && tokens->slot[t] >= 0; h++)
            memcpy(flow_field_row(&rows, tokens->slot[t]) + h * rows.head,
                   from + (t * known->heads + h) * rows.row, (size_t)rows.row);
}
