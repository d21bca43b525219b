/* kvmill run for the ops of cache attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../ops/tensor_scatter.h"
#include "run_op.h"

/* ---- Tensors ---- */

enum {
    CACHE = 1 << KVMILL_KEY_VALUE_CACHE,
    INPUTS = 1 << KVMILL_MULTI_HEAD_ATTENTION,
    FUSED = 1 << KVMILL_MULTI_HEAD_CACHE_ATTENTION,
    STORE = CACHE | FUSED,
    SCORES = INPUTS | FUSED,
    ALL = CACHE | INPUTS | FUSED
};

/* When a tensor is there at all. */
enum condition { ALWAYS, DYNAMIC, SCALED, DIFFERENT, SCALED_DIFFERENT, PARTIAL };

/* What its elements are. */
enum content { T1, T2, T3, VALUE_T2, VALUE_T3, INDEX, SINK, FLOAT32 };

/* Which ops take it, need it, give it; one that is taken and given is updated in place. */
static const struct role {
    const char *name;
    unsigned in, needed, out;
    enum condition condition;
    enum content content;
} roles[] = {
    [KVMILL_QUERY] = {"query", SCORES, SCORES, 0, ALWAYS, T1},
    [KVMILL_CURRENT_KEY] = {"current_key", STORE, STORE, 0, ALWAYS, T1},
    [KVMILL_CURRENT_VALUE] = {"current_value", STORE, STORE, 0, ALWAYS, T1},
    [KVMILL_KEY] = {"key", INPUTS, INPUTS, CACHE, ALWAYS, T1},
    [KVMILL_VALUE] = {"value", INPUTS, INPUTS, CACHE, ALWAYS, T1},
    [KVMILL_START_POS] = {"start_pos", STORE, STORE, 0, ALWAYS, INDEX},
    [KVMILL_SEQSTARTS] = {"seqstarts", ALL, ALL, 0, DYNAMIC, INDEX},
    [KVMILL_KVSTARTS] = {"kvstarts", ALL, ALL, 0, DYNAMIC, INDEX},
    [KVMILL_CACHESTARTS] = {"cachestarts", STORE, STORE, 0, DYNAMIC, INDEX},
    [KVMILL_DECODING_BATCHES] = {"decoding_batches", SCORES, SCORES, 0, DYNAMIC, INDEX},
    [KVMILL_MAX_SEQLEN] = {"max_seqlen", ALL, 0, 0, DYNAMIC, INDEX},
    [KVMILL_MAX_KVLEN] = {"max_kvlen", ALL, 0, 0, DYNAMIC, INDEX},
    [KVMILL_CACHE] = {"cache", STORE, STORE, STORE, ALWAYS, T2},
    [KVMILL_SCALE] = {"scale", STORE, STORE, STORE, SCALED, T3},
    [KVMILL_VALUE_CACHE] = {"value_cache", STORE, STORE, STORE, DIFFERENT, VALUE_T2},
    [KVMILL_VALUE_SCALE] = {"value_scale", STORE, STORE, STORE, SCALED_DIFFERENT, VALUE_T3},
    [KVMILL_ATTN_MASK] = {"attn_mask", SCORES, 0, 0, ALWAYS, T1},
    [KVMILL_SINKS] = {"sinks", SCORES, 0, 0, ALWAYS, SINK},
    [KVMILL_ATTN_OUTPUT] = {"attn_output", 0, 0, SCORES, ALWAYS, T1},
    [KVMILL_LSE] = {"lse", 0, 0, SCORES, PARTIAL, FLOAT32},
};

static bool holds(const struct spec *spec, enum condition condition) {
    const kvmill_cache_attention *op = &spec->attention.op;
    switch (condition) {
    case ALWAYS:
        return true;
    case DYNAMIC:
        return op->dynamic_batching != 0;
    case SCALED:
        return op->quant_bit != 0;
    case DIFFERENT:
        return op->value_differs != 0;
    case SCALED_DIFFERENT:
        return op->value_differs != 0 && op->value_quant_bit != 0;
    case PARTIAL:
        return op->partial != 0;
    }
    return false;
}

static bool is_of(const struct spec *spec, unsigned ops) {
    return ops >> attention_op_of(spec) & 1;
}

static const char *input(const struct spec *spec, int tensor) {
    const struct role *role = &roles[tensor];
    /* A scale beside a cache without one is taken and left alone. */
    bool there = holds(spec, role->condition) || tensor == KVMILL_SCALE;
    return there && is_of(spec, role->in) ? role->name : NULL;
}

static const char *output(const struct spec *spec, int tensor) {
    const struct role *role = &roles[tensor];
    return holds(spec, role->condition) && is_of(spec, role->out) ? role->name : NULL;
}

/* ---- The spec learns from the arrays ---- */

static int64_t dim_from_end(const struct npy *npy, int back) {
    return npy->tensor.ndim >= back ? npy->tensor.shape[npy->tensor.ndim - back] : 0;
}

/* KeyValueCache has no attributes for what its inputs say. */
static void learn_heads(struct spec *spec, const struct arrays *arrays) {
    kvmill_cache_attention *op = &spec->attention.op;
    const struct npy *key = &arrays->tensor[KVMILL_CURRENT_KEY];
    const struct npy *value = &arrays->tensor[KVMILL_CURRENT_VALUE];
    if (op->num_kv_heads == 0)
        op->num_kv_heads = dim_from_end(key, 2);
    if (op->head_dim == 0)
        op->head_dim = dim_from_end(key, 1);
    if (op->value_differs && op->value_head_dim == 0)
        op->value_head_dim = dim_from_end(value, 1);
}

/* The axis of the layers: first, or behind the batch entries or tokens in layout 0. */
void attention_learn_layers(struct spec *spec, const struct npy *cache) {
    kvmill_cache_attention *op = &spec->attention.op;
    int axis = op->cache_layout == 0;
    if (spec->attention.layers_open && cache->tensor.ndim > axis)
        op->num_layer = cache->tensor.shape[axis];
}

/* ---- Types ---- */

/* Sinks are float32, or T1. */
static DLDataType sink_type(const kvmill_cache_attention *op, const struct npy *sinks) {
    return strcmp(sinks->descr, "<f4") == 0 ? kvmill_dtype_by_name("float32")->dl : op->T1;
}

static DLDataType type_of(const struct spec *spec, enum content content, const struct npy *npy) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const DLDataType types[] = {[T1] = op->T1,
                                [T2] = op->T2,
                                [T3] = op->T3,
                                [VALUE_T2] = op->value_T2,
                                [VALUE_T3] = op->value_T3,
                                [INDEX] = {kDLInt, 64, 1},
                                [SINK] = sink_type(op, npy),
                                [FLOAT32] = {kDLFloat, 32, 1}};
    return types[content];
}

bool attention_adopt(const struct spec *spec, int tensor, struct arrays *arrays,
                     struct error *error) {
    const struct role *role = &roles[tensor];
    struct npy *npy = &arrays->tensor[tensor];
    if (!holds(spec, role->condition))
        return true; /* left alone */
    if (role->content == INDEX)
        return array_is_index(role->name, npy, error);
    if (output(spec, tensor) && !array_keep(role->name, npy, &arrays->file[tensor], error))
        return false;
    return array_adopt(role->name, type_of(spec, role->content, npy), NULL, npy, error);
}

static bool adopt_all(const struct spec *spec, struct arrays *arrays, struct error *error) {
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++)
        if (is_given(&arrays->tensor[i]) && !attention_adopt(spec, i, arrays, error))
            return false;
    return true;
}

static bool require_all(const struct spec *spec, const struct arrays *arrays, struct error *error) {
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++)
        if (is_of(spec, roles[i].needed) && holds(spec, roles[i].condition) &&
            !array_require(roles[i].name, &arrays->tensor[i], error))
            return false;
    return true;
}

/* ---- Outputs ---- */

/* The element type of attn_output: partial results are not rounded. */
static DLDataType result_type(const kvmill_cache_attention *op) {
    return op->partial ? (DLDataType){kDLFloat, 32, 1} : op->T1;
}

static int64_t value_dim(const kvmill_cache_attention *op) {
    return op->value_differs ? op->value_head_dim : op->head_dim;
}

bool attention_make_scores(const struct spec *spec, struct arrays *arrays, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    DLTensor query = arrays->tensor[KVMILL_QUERY].tensor;
    struct npy *out = &arrays->tensor[KVMILL_ATTN_OUTPUT];
    if (query.ndim == 0)
        return fail(error, EXIT_USER, "query has no dims; accepted: 3, dynamic batching, or 4");
    if (op->partial && !npy_make((DLDataType){kDLFloat, 32, 1}, query.shape, query.ndim - 1,
                                 &arrays->tensor[KVMILL_LSE], error))
        return false;
    int64_t last = query.shape[query.ndim - 1];
    query.shape[query.ndim - 1] = value_dim(op);
    bool done = npy_make(result_type(op), query.shape, query.ndim, out, error);
    query.shape[query.ndim - 1] = last;
    return done;
}

static int64_t last_index(const struct npy *npy) {
    int64_t count = kvmill_element_count(&npy->tensor);
    return count > 0 ? ((const int64_t *)npy->tensor.data)[count - 1] : 0;
}

/* Rows that KeyValueCache reads back.  What the cache cannot hold is for the library to refuse. */
static int64_t rows_of(const struct spec *spec, const struct arrays *arrays) {
    int64_t most = kvmill_element_count(&arrays->tensor[KVMILL_CACHE].tensor), rows;
    if (spec->attention.op.dynamic_batching)
        rows = last_index(&arrays->tensor[KVMILL_KVSTARTS]);
    else if (__builtin_add_overflow(last_index(&arrays->tensor[KVMILL_START_POS]),
                                    dim_from_end(&arrays->tensor[KVMILL_CURRENT_KEY], 3), &rows))
        return 0;
    return rows < 0 || rows > most ? 0 : rows;
}

static bool make_rows(const struct spec *spec, struct arrays *arrays, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    int64_t heads = op->num_kv_heads * op->num_repeat;
    int64_t batch = dim_from_end(&arrays->tensor[KVMILL_CURRENT_KEY], 4);
    int64_t key[] = {batch, rows_of(spec, arrays), heads, op->head_dim};
    int64_t value[] = {batch, key[1], heads, value_dim(op)};
    int skip = op->dynamic_batching != 0;
    return npy_make(op->T1, key + skip, 4 - skip, &arrays->tensor[KVMILL_KEY], error) &&
           npy_make(op->T1, value + skip, 4 - skip, &arrays->tensor[KVMILL_VALUE], error);
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
    if (!npy_make((DLDataType){kDLInt, 64, 1}, NULL, 0, hint, error))
        return false;
    *(int64_t *)hint->tensor.data = longest(starts);
    return true;
}

static bool make_hints(const struct spec *spec, struct arrays *arrays, struct error *error) {
    struct npy *tensor = arrays->tensor;
    return !spec->attention.op.dynamic_batching ||
           (make_hint(&tensor[KVMILL_MAX_SEQLEN], &tensor[KVMILL_SEQSTARTS], error) &&
            make_hint(&tensor[KVMILL_MAX_KVLEN], &tensor[KVMILL_KVSTARTS], error));
}

/* ---- All of it ---- */

static bool prepare(struct spec *spec, struct arrays *arrays, struct error *error) {
    bool store = attention_op_of(spec) == KVMILL_KEY_VALUE_CACHE;
    if (!require_all(spec, arrays, error))
        return false;
    if (store)
        learn_heads(spec, arrays);
    attention_learn_layers(spec, &arrays->tensor[KVMILL_CACHE]);
    return adopt_all(spec, arrays, error) && spec->op->check(spec, error) &&
           make_hints(spec, arrays, error) &&
           (store ? make_rows(spec, arrays, error) : attention_make_scores(spec, arrays, error));
}

static kvmill_status plan(const struct spec *spec, const struct arrays *arrays,
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
    .input = input,
    .output = output,
    .prepare = prepare,
    .plan = plan,
};
