/* New tokens: their rows into the cache, then the summaries of their pages.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <inttypes.h>

#include "../ops/fail.h"
#include "portable.h"

/* ---- Validation ---- */

/* Whether token t is not in the page of the token before. */
static bool begins(const int64_t *slot, int64_t t, int64_t size) {
    return slot[t] >= 0 && (t == 0 || slot[t - 1] < 0 || slot[t - 1] / size != slot[t] / size);
}

static kvmill_status check_slot(const struct flow_tokens *tokens, int64_t t, int64_t slots,
                                kvmill_error *error) {
    if (tokens->slot[t] >= -1 && tokens->slot[t] < slots)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                       "slot[%" PRId64 "] is %" PRId64 "; accepted: -1 to %" PRId64, t,
                       tokens->slot[t], slots - 1);
}

static void forget_pages(const struct flow_tokens *tokens, int64_t size, unsigned char *seen) {
    for (int64_t t = 0; t < tokens->tokens; t++)
        if (begins(tokens->slot, t, size))
            seen[tokens->slot[t] / size / 8] &= (unsigned char)~(1u << tokens->slot[t] / size % 8);
}

static kvmill_status check_pages(const struct flow_tokens *tokens, int64_t size,
                                 unsigned char *seen, kvmill_error *error) {
    for (int64_t t = 0; t < tokens->tokens; t++) {
        if (!begins(tokens->slot, t, size))
            continue;
        int64_t page = tokens->slot[t] / size;
        unsigned bit = 1u << page % 8;
        if (seen[page / 8] & bit)
            return kvmill_fail(error, KVMILL_E_ALIAS,
                               "slot[%" PRId64 "] is %" PRId64 ", of a page that earlier tokens "
                               "have left; accepted: each page's tokens together",
                               t, tokens->slot[t]);
        seen[page / 8] |= (unsigned char)bit;
    }
    return KVMILL_OK;
}

kvmill_status kvmill_flow_check_slots(const struct kvmill_flow_problem *problem,
                                      const struct flow_tokens *tokens, int64_t page_count,
                                      unsigned char *seen, kvmill_error *error) {
    int64_t size = problem->geometry.page_size;
    for (int64_t t = 0; t < tokens->tokens; t++) {
        kvmill_status status = check_slot(tokens, t, page_count * size, error);
        if (status != KVMILL_OK)
            return status;
    }
    forget_pages(tokens, size, seen);
    kvmill_status status = check_pages(tokens, size, seen, error);
    return status == KVMILL_OK ? kvmill_succeed(error) : status;
}

/* ---- Writing ---- */

/* K or V (v = 0, 1) of tokens [first, last), which all have slots. */
static void write_run(const struct kvmill_flow_problem *problem, const struct flow_cache *cache,
                      const struct flow_tokens *tokens, int v, int64_t first, int64_t last) {
    const struct kvmill_convert_shape shape = kvmill_convert_shape_of(&problem->geometry, v);
    const struct kvmill_convert convert = {
        .shape = &shape,
        .activation = (unsigned char *)(uintptr_t)tokens->data[v],
        .token_stride = tokens->token_stride[v],
        .head_stride = tokens->head_stride[v],
        .cache = v ? cache->value : cache->key,
        .slot = tokens->slot,
        .heads = problem->geometry.kv_heads,
        .repeat = 1,
    };
    kvmill_portable_write_rows.run(&convert, first, last);
}

static int64_t end_of_run(const struct flow_tokens *tokens, int64_t first) {
    while (first < tokens->tokens && tokens->slot[first] >= 0)
        first++;
    return first;
}

void kvmill_flow_append(const struct kvmill_flow_problem *problem,
                        const struct flow_schedule *schedule, const struct flow_cache *cache,
                        const struct flow_tokens *tokens, float *workspace) {
    for (int64_t first = 0, last; first < tokens->tokens; first = last + 1) {
        last = end_of_run(tokens, first);
        for (int v = 0; v < 2; v++)
            write_run(problem, cache, tokens, v, first, last);
    }
    kvmill_flow_summarise_tokens(problem, schedule, cache, tokens->slot, tokens->tokens, workspace);
}
