/* kvmill run for the ops of cache attention.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/attributes.h"
#include "../ops/extent.h"
#include "run_op.h"

static int64_t dim_from_end(const struct npy *npy, int back) {
    return npy->tensor.ndim >= back ? npy->tensor.shape[npy->tensor.ndim - back] : 0;
}

/* ---- Outputs ---- */

static int64_t value_dim(const kvmill_cache_attention *op) {
    return op->value_differs ? op->value_head_dim : op->head_dim;
}

bool attention_make_scores(const struct spec *spec, struct arrays *arrays, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    struct described described = described_by(spec);
    DLTensor query = arrays->tensor[KVMILL_CACHE_ATTENTION_QUERY].tensor;
    if (query.ndim == 0)
        return fail(error, EXIT_USER, "query has no dims; accepted: 3, dynamic batching, or 4");
    if (op->partial && !described_make(&described, KVMILL_CACHE_ATTENTION_LSE, query.shape,
                                       query.ndim - 1, arrays, error))
        return false;
    int64_t last = query.shape[query.ndim - 1];
    query.shape[query.ndim - 1] = value_dim(op);
    bool done = described_make(&described, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, query.shape,
                               query.ndim, arrays, error);
    query.shape[query.ndim - 1] = last;
    return done;
}

static int64_t last_index(const struct npy *npy) {
    int64_t count = kvmill_element_count(&npy->tensor);
    return count > 0 ? ((const int64_t *)npy->tensor.data)[count - 1] : 0;
}

/* Returns the number of slots in each sequence's ring, or INT64_MAX for a linear cache. */
static int64_t ring_of(const kvmill_cache_attention *op, const struct arrays *arrays) {
    bool overflow = false;
    if (!kvmill_is_circular(op->mode))
        return INT64_MAX;
    if (!op->dynamic_batching)
        return dim_from_end(&arrays->tensor[KVMILL_CACHE_ATTENTION_CACHE],
                            op->cache_layout == 0 ? 3 : 2);
    if (op->cache_mode == 0)
        return op->capacity;
    int64_t pages = dim_from_end(&arrays->tensor[KVMILL_CACHE_ATTENTION_CACHESTARTS], 1);
    int64_t slots = kvmill_times(pages, op->page_size, &overflow);
    return overflow ? INT64_MAX : slots;
}

/* Returns the number of positions in all sequences of a dynamic batch, at most `ring` of each, or
   -1 if it overflows. */
static int64_t kept_positions(const struct npy *kvstarts, int64_t ring) {
    const int64_t *at = kvstarts->tensor.data;
    int64_t count = kvmill_element_count(&kvstarts->tensor), sum = 0, length;
    for (int64_t b = 0; b + 1 < count; b++)
        if (__builtin_sub_overflow(at[b + 1], at[b], &length) ||
            __builtin_add_overflow(sum, length < ring ? length : ring, &sum))
            return -1;
    return sum;
}

/* Returns the number of rows that KeyValueCache reads back, or 0 if the cache cannot have so many:
   the library then refuses the input. */
static int64_t rows_of(const struct spec *spec, const struct arrays *arrays) {
    const kvmill_cache_attention *op = &spec->attention.op;
    int64_t most = kvmill_element_count(&arrays->tensor[KVMILL_CACHE_ATTENTION_CACHE].tensor), rows;
    int64_t ring = ring_of(op, arrays);
    if (op->dynamic_batching)
        rows = kept_positions(&arrays->tensor[KVMILL_CACHE_ATTENTION_KVSTARTS], ring);
    else if (__builtin_add_overflow(
                 last_index(&arrays->tensor[KVMILL_CACHE_ATTENTION_START_POS]),
                 dim_from_end(&arrays->tensor[KVMILL_CACHE_ATTENTION_CURRENT_KEY], 3), &rows))
        return 0;
    else
        rows = rows < ring ? rows : ring;
    return rows < 0 || rows > most ? 0 : rows;
}

static bool make_rows(const struct spec *spec, struct arrays *arrays, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    struct described described = described_by(spec);
    int64_t heads = op->num_kv_heads * op->num_repeat;
    int64_t batch = dim_from_end(&arrays->tensor[KVMILL_CACHE_ATTENTION_CURRENT_KEY], 4);
    int64_t key[] = {batch, rows_of(spec, arrays), heads, op->head_dim};
    int64_t value[] = {batch, key[1], heads, value_dim(op)};
    int skip = op->dynamic_batching != 0;
    return described_make(&described, KVMILL_CACHE_ATTENTION_KEY, key + skip, 4 - skip, arrays,
                          error) &&
           described_make(&described, KVMILL_CACHE_ATTENTION_VALUE, value + skip, 4 - skip, arrays,
                          error);
}

/* ---- Hints that were not given ---- */

static int64_t longest(const struct npy *starts) {
    const int64_t *at = starts->tensor.data;
    int64_t count = kvmill_element_count(&starts->tensor), most = 0, length;
    for (int64_t i = 0; i + 1 < count; i++)
        if (!__builtin_sub_overflow(at[i + 1], at[i], &length) && length > most)
            most = length;
    return most;
}

static bool make_hint(struct npy *hint, const struct npy *starts, struct error *error) {
    if (is_given(hint))
        return true;
    if (!npy_make(kvmill_int64, NULL, 0, hint, error))
        return false;
    *(int64_t *)hint->tensor.data = longest(starts);
    return true;
}

static bool make_hints(const struct spec *spec, struct arrays *arrays, struct error *error) {
    struct npy *tensor = arrays->tensor;
    return !spec->attention.op.dynamic_batching ||
           (make_hint(&tensor[KVMILL_CACHE_ATTENTION_MAX_SEQLEN],
                      &tensor[KVMILL_CACHE_ATTENTION_SEQSTARTS], error) &&
            make_hint(&tensor[KVMILL_CACHE_ATTENTION_MAX_KVLEN],
                      &tensor[KVMILL_CACHE_ATTENTION_KVSTARTS], error));
}

/* ---- Preparing and planning ---- */

static bool prepare_cache_attention(struct spec *spec, struct arrays *arrays, struct error *error) {
    bool store = attention_op_of(spec) == KVMILL_KEY_VALUE_CACHE;
    struct described described = described_by(spec);
    if (!described_require(&described, arrays, error))
        return false;
    if (store)
        attention_learn_heads(spec, &arrays->tensor[KVMILL_CACHE_ATTENTION_CURRENT_KEY].tensor,
                              &arrays->tensor[KVMILL_CACHE_ATTENTION_CURRENT_VALUE].tensor);
    attention_learn_layers(spec, &arrays->tensor[KVMILL_CACHE_ATTENTION_CACHE].tensor);
    return described_adopt(&described, arrays, error) && spec_check(spec, error) &&
           make_hints(spec, arrays, error) &&
           (store ? make_rows(spec, arrays, error) : attention_make_scores(spec, arrays, error));
}

static kvmill_status plan_cache_attention(const struct spec *spec, const struct arrays *arrays,
                                          const kvmill_plan_options *options, kvmill_plan **plan,
                                          kvmill_error *reason) {
    kvmill_status (*const plans[])(const kvmill_cache_attention *, const kvmill_plan_options *,
                                   kvmill_plan **, kvmill_error *) = {
        kvmill_plan_key_value_cache, kvmill_plan_multi_head_attention,
        kvmill_plan_multi_head_cache_attention};
    (void)arrays;
    return plans[attention_op_of(spec)](&spec->attention.op, options, plan, reason);
}

const struct run_op cache_attention_run = {
    .tensors = KVMILL_CACHE_ATTENTION_TENSORS,
    .prepare = prepare_cache_attention,
    .plan = plan_cache_attention,
};
