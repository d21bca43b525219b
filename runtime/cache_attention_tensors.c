/* The tensors of cache attention: which there are, what they must look like, where they lie.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../ops/dtype.h"
#include "../ops/fail.h"
#include "../ops/tensor_scatter.h"
#include "cache_attention.h"
#include "tensor.h"

const char *const kvmill_cache_attention_names[KVMILL_CACHE_ATTENTION_TENSORS] = {
    [KVMILL_QUERY] = "query",
    [KVMILL_CURRENT_KEY] = "current_key",
    [KVMILL_CURRENT_VALUE] = "current_value",
    [KVMILL_KEY] = "key",
    [KVMILL_VALUE] = "value",
    [KVMILL_START_POS] = "start_pos",
    [KVMILL_SEQSTARTS] = "seqstarts",
    [KVMILL_KVSTARTS] = "kvstarts",
    [KVMILL_CACHESTARTS] = "cachestarts",
    [KVMILL_DECODING_BATCHES] = "decoding_batches",
    [KVMILL_MAX_SEQLEN] = "max_seqlen",
    [KVMILL_MAX_KVLEN] = "max_kvlen",
    [KVMILL_CACHE] = "cache",
    [KVMILL_SCALE] = "scale",
    [KVMILL_VALUE_CACHE] = "value_cache",
    [KVMILL_VALUE_SCALE] = "value_scale",
    [KVMILL_ATTN_MASK] = "attn_mask",
    [KVMILL_SINKS] = "sinks",
    [KVMILL_ATTN_OUTPUT] = "attn_output",
    [KVMILL_LSE] = "lse",
};

static const DLDataType int64_type = {kDLInt, 64, 1}, float32_type = {kDLFloat, 32, 1};

/* ---- Which tensors there are ---- */

static enum presence when(bool given) {
    return given ? REQUIRED : ABSENT;
}

static void expect(struct cache_plan *plan, int which, enum presence presence, DLDataType type) {
    plan->presence[which] = presence;
    plan->types[which] = type;
}

static void expect_numbers(struct cache_plan *plan) {
    bool dynamic = plan->geometry.dynamic;
    bool has_cache = plan->geometry.which != KVMILL_MULTI_HEAD_ATTENTION;
    bool has_query = plan->geometry.which != KVMILL_KEY_VALUE_CACHE;
    expect(plan, KVMILL_START_POS, when(has_cache), int64_type);
    expect(plan, KVMILL_SEQSTARTS, when(dynamic), int64_type);
    expect(plan, KVMILL_KVSTARTS, when(dynamic), int64_type);
    expect(plan, KVMILL_CACHESTARTS, when(dynamic && has_cache), int64_type);
    expect(plan, KVMILL_DECODING_BATCHES, when(dynamic && has_query), int64_type);
    expect(plan, KVMILL_MAX_SEQLEN, when(dynamic), int64_type);
    expect(plan, KVMILL_MAX_KVLEN, when(dynamic), int64_type);
}

static void expect_cache(struct cache_plan *plan, int cache, bool has_cache, int group,
                         DLDataType type, DLDataType scale) {
    expect(plan, cache, when(has_cache), type);
    expect(plan, cache + 1, !has_cache ? ABSENT : group > 0 ? REQUIRED : IGNORED, scale);
}

static void expect_caches(struct cache_plan *plan, const kvmill_cache_attention *op) {
    const struct kvmill_cache_geometry *geometry = &plan->geometry;
    bool has_cache = geometry->which != KVMILL_MULTI_HEAD_ATTENTION;
    expect_cache(plan, KVMILL_CACHE, has_cache, geometry->key.group, op->T2, op->T3);
    expect_cache(plan, KVMILL_VALUE_CACHE, has_cache && geometry->value_differs,
                 geometry->value.group, op->value_T2, op->value_T3);
}

void kvmill_cache_attention_expect(struct cache_plan *plan, const kvmill_cache_attention *op) {
    enum kvmill_cache_op which = plan->geometry.which;
    bool has_query = which != KVMILL_KEY_VALUE_CACHE;
    bool has_current = which != KVMILL_MULTI_HEAD_ATTENTION;
    bool has_key = which != KVMILL_MULTI_HEAD_CACHE_ATTENTION;
    enum presence extra = has_query ? OPTIONAL : ABSENT;
    expect_numbers(plan);
    expect_caches(plan, op);
    expect(plan, KVMILL_QUERY, when(has_query), op->T1);
    expect(plan, KVMILL_CURRENT_KEY, when(has_current), op->T1);
    expect(plan, KVMILL_CURRENT_VALUE, when(has_current), op->T1);
    expect(plan, KVMILL_KEY, when(has_key), op->T1);
    expect(plan, KVMILL_VALUE, when(has_key), op->T1);
    expect(plan, KVMILL_ATTN_MASK, extra, op->T1);
    expect(plan, KVMILL_SINKS, extra, op->T1);
    expect(plan, KVMILL_ATTN_OUTPUT, when(has_query), plan->partial ? float32_type : op->T1);
    expect(plan, KVMILL_LSE, when(has_query && plan->partial), float32_type);
}

/* ---- Each by itself ---- */

static bool is_type(const struct given *given, int which, DLDataType type) {
    return kvmill_dtype_equal(type, given->plan->types[which]) ||
           (which == KVMILL_SINKS && kvmill_dtype_equal(type, float32_type));
}

static kvmill_status check_type(const struct given *given, int which, const DLTensor *tensor) {
    if (is_type(given, which, tensor->dtype))
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_DTYPE, "%s has type %s; accepted: %s%s",
                       kvmill_cache_attention_names[which], kvmill_dtype_name(tensor->dtype),
                       kvmill_dtype_name(given->plan->types[which]),
                       which == KVMILL_SINKS ? ", float32" : "");
}

static kvmill_status check_size(const struct given *given, int which, const DLTensor *tensor) {
    struct kvmill_shape_text words;
    const char *name = kvmill_cache_attention_names[which];
    int64_t most = kvmill_dtype_most(tensor->dtype), count = kvmill_element_count(tensor);
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0)
            return kvmill_fail(given->error, KVMILL_E_SHAPE,
                               "dim %d of %s is %" PRId64 "; accepted: 0 or more", d, name,
                               tensor->shape[d]);
    if (count < 0 || count > most)
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "%s has shape %s; accepted: at most %" PRId64 " elements", name,
                           kvmill_shape_words(tensor, &words), most);
    return KVMILL_OK;
}

static bool is_output(const struct given *given, int which) {
    switch (which) {
    case KVMILL_KEY:
    case KVMILL_VALUE:
        return given->plan->geometry.which == KVMILL_KEY_VALUE_CACHE;
    case KVMILL_CACHE:
    case KVMILL_SCALE:
    case KVMILL_VALUE_CACHE:
    case KVMILL_VALUE_SCALE:
    case KVMILL_ATTN_OUTPUT:
    case KVMILL_LSE:
        return true;
    default:
        return false;
    }
}

/* Kernels walk the last dim of these. */
static bool has_rows(int which) {
    return which < KVMILL_START_POS || (which >= KVMILL_CACHE && which <= KVMILL_ATTN_MASK) ||
           which == KVMILL_ATTN_OUTPUT;
}

static kvmill_status check_rows(const struct given *given, int which, const DLTensor *tensor) {
    const char *name = kvmill_cache_attention_names[which];
    int last = tensor->ndim - 1;
    if (kvmill_dtype_bits(tensor->dtype) == 4 && !kvmill_tensor_is_dense_from(tensor, 0))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "%s has strides; accepted for 4-bit types: row-major without gaps",
                           name);
    if (has_rows(which) && last >= 0 && tensor->shape[last] > 1 && tensor->strides[last] != 1)
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the last dim of %s has stride %" PRId64 "; accepted: 1", name,
                           tensor->strides[last]);
    return KVMILL_OK;
}

static kvmill_status check_strides(const struct given *given, int which, const DLTensor *tensor) {
    const char *name = kvmill_cache_attention_names[which];
    if (tensor->strides == NULL || kvmill_tensor_is_empty(tensor))
        return KVMILL_OK;
    if (!kvmill_tensor_is_reachable(tensor))
        return kvmill_fail(given->error, KVMILL_E_OVERFLOW,
                           "the strides of %s reach further than PTRDIFF_MAX bytes", name);
    if (is_output(given, which) && !kvmill_tensor_is_injective(tensor))
        return kvmill_fail(given->error, KVMILL_E_STRIDE,
                           "the strides of %s let elements overlap; accepted: one place each",
                           name);
    return check_rows(given, which, tensor);
}

static kvmill_status check_memory(const struct given *given, int which, const DLTensor *tensor) {
    const char *name = kvmill_cache_attention_names[which];
    if (tensor->device.device_type != kDLCPU)
        return kvmill_fail(given->error, KVMILL_E_DEVICE,
                           "%s is on device type %d; accepted: kDLCPU (%d)", name,
                           (int)tensor->device.device_type, (int)kDLCPU);
    if (tensor->data == NULL && !kvmill_tensor_is_empty(tensor))
        return kvmill_fail(given->error, KVMILL_E_NULL,
                           "the data of %s is NULL; it has %" PRId64 " elements", name,
                           kvmill_element_count(tensor));
    return KVMILL_OK;
}

static kvmill_status check_tensor(const struct given *given, int which, const DLTensor *tensor) {
    kvmill_status status = check_type(given, which, tensor);
    if (status == KVMILL_OK)
        status = check_size(given, which, tensor);
    if (status == KVMILL_OK)
        status = check_strides(given, which, tensor);
    return status == KVMILL_OK ? check_memory(given, which, tensor) : status;
}

static kvmill_status refuse_presence(const struct given *given, int which) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    if (given->plan->presence[which] == REQUIRED)
        return kvmill_fail(given->error, KVMILL_E_NULL, "%s is NULL; a tensor is required",
                           kvmill_cache_attention_names[which]);
    return kvmill_fail(
        given->error, KVMILL_E_SHAPE, "%s is given; accepted: NULL, this %s%s has none",
        kvmill_cache_attention_names[which], geometry->dynamic ? "dynamic_batching." : "",
        kvmill_cache_op_name(geometry->which));
}

/* An empty mask is none. */
static bool counts_as_absent(const struct given *given, int which, const DLTensor *tensor) {
    return tensor == NULL || given->plan->presence[which] == IGNORED ||
           (which == KVMILL_ATTN_MASK && kvmill_tensor_is_empty(tensor));
}

kvmill_status kvmill_check_given(struct given *given, const DLTensor *const *tensors) {
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++) {
        enum presence presence = given->plan->presence[i];
        const DLTensor *tensor = tensors[i];
        if ((presence == REQUIRED && tensor == NULL) || (presence == ABSENT && tensor != NULL))
            return refuse_presence(given, i);
        given->tensors[i] = counts_as_absent(given, i, tensor) ? NULL : tensor;
        kvmill_status status = given->tensors[i] ? check_tensor(given, i, tensor) : KVMILL_OK;
        if (status != KVMILL_OK)
            return status;
    }
    return KVMILL_OK;
}

/* ---- Shapes ---- */

static bool has_shape(const DLTensor *tensor, int rank, const int64_t *dims) {
    bool same = tensor->ndim == rank;
    for (int d = 0; same && d < rank; d++)
        same = dims[d] == KVMILL_DYNAMIC || dims[d] == tensor->shape[d];
    return same;
}

kvmill_status kvmill_check_shape(const struct given *given, int which, int rank,
                                 const int64_t *dims) {
    struct kvmill_shape_text have, want;
    const DLTensor *tensor = given->tensors[which];
    const DLTensor wanted = {.ndim = rank, .shape = (int64_t *)dims};
    if (has_shape(tensor, rank, dims))
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_SHAPE, "%s has shape %s; accepted: %s",
                       kvmill_cache_attention_names[which], kvmill_shape_words(tensor, &have),
                       kvmill_shape_words(&wanted, &want));
}

/* ---- Caches ---- */

/* Elements of the last dim of a cache: blocks are bytes. */
static int64_t last_dim(const struct kvmill_format *format) {
    bool is_blocks = format->element == KVMILL_Q8_0 || format->element == KVMILL_Q4_0;
    return is_blocks ? kvmill_format_row_bytes(format) : format->dim;
}

static kvmill_status check_cache_shape(const struct given *given, int cache, int64_t last) {
    const struct cache_layout *layout = &given->plan->layout;
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    int64_t dims[6];
    for (int d = 0; d < layout->rank; d++)
        dims[d] = KVMILL_DYNAMIC;
    dims[layout->layer] = geometry->layers;
    dims[layout->kv] = geometry->value_differs ? 1 : 2;
    dims[layout->head] = geometry->kv_heads;
    dims[layout->rank - 1] = last;
    return kvmill_check_shape(given, cache, layout->rank, dims);
}

/* The scales have the cache's shape but for the last dim.  An empty one is none. */
static kvmill_status check_scale_shape(const struct given *given, int cache, int64_t last) {
    const DLTensor *tensor = given->tensors[cache];
    if (kvmill_tensor_is_empty(given->tensors[cache + 1]) && !kvmill_tensor_is_empty(tensor))
        return kvmill_fail(given->error, KVMILL_E_NULL, "%s is empty; a tensor is required",
                           kvmill_cache_attention_names[cache + 1]);
    int64_t dims[6];
    memcpy(dims, tensor->shape, (size_t)tensor->ndim * sizeof *dims);
    dims[tensor->ndim - 1] = last;
    return kvmill_check_shape(given, cache + 1, tensor->ndim, dims);
}

static kvmill_status check_cache_batch(const struct given *given, int cache) {
    int batch = given->plan->layout.batch;
    if (batch < 0 || given->tensors[cache]->shape[batch] >= given->call->batch)
        return KVMILL_OK;
    return kvmill_fail(given->error, KVMILL_E_SHAPE,
                       "dim %d of %s is %" PRId64 "; accepted: %" PRId64 " or more, the batch",
                       batch, kvmill_cache_attention_names[cache],
                       given->tensors[cache]->shape[batch], given->call->batch);
}

static kvmill_status check_cache(struct given *given, int cache,
                                 const struct kvmill_format *format) {
    if (given->tensors[cache] == NULL)
        return KVMILL_OK;
    kvmill_status status = check_cache_shape(given, cache, last_dim(format));
    if (status == KVMILL_OK)
        status = check_cache_batch(given, cache);
    if (status == KVMILL_OK && given->tensors[cache + 1] != NULL)
        status = check_scale_shape(given, cache, format->dim / format->group);
    if (status != KVMILL_OK)
        return status;
    int64_t capacity = given->tensors[cache]->shape[given->plan->layout.slot];
    given->capacity = capacity < given->capacity ? capacity : given->capacity;
    return KVMILL_OK;
}

kvmill_status kvmill_check_caches(struct given *given) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    given->capacity = INT64_MAX;
    kvmill_status status = check_cache(given, KVMILL_CACHE, &geometry->key);
    return status == KVMILL_OK ? check_cache(given, KVMILL_VALUE_CACHE, &geometry->value) : status;
}

/* ---- Activations ---- */

/* [batch, tokens or positions, heads, dim], in dynamic batches without the first dim; the last dim
   only where `dim` is not 0. */
static kvmill_status check_tokens(const struct given *given, int which, bool all, int64_t heads,
                                  int64_t dim) {
    const struct cache_call *call = given->call;
    bool dynamic = given->plan->geometry.dynamic;
    int64_t count = dynamic ? all ? call->positions : call->tokens
                    : all   ? call->kvlen
                            : call->seqlen;
    const int64_t dims[] = {call->batch, count, heads, dim};
    if (given->tensors[which] == NULL)
        return KVMILL_OK;
    return kvmill_check_shape(given, which, (dim != 0) + (dynamic ? 2 : 3), dims + dynamic);
}

/* Dims of a mask of the most dims: as many of the last ones as it has. */
static kvmill_status check_mask(const struct given *given) {
    const struct cache_call *call = given->call;
    const DLTensor *mask = given->tensors[KVMILL_ATTN_MASK];
    bool dynamic = given->plan->geometry.dynamic;
    int64_t columns = dynamic ? call->positions : call->kvlen;
    int64_t dims[] = {call->batch, given->plan->geometry.heads,
                      dynamic ? call->tokens : call->seqlen, columns};
    if (mask == NULL)
        return KVMILL_OK;
    int most = dynamic ? 3 : 4, rank = mask->ndim < 2 ? 2 : mask->ndim > most ? most : mask->ndim;
    if (mask->ndim == rank && mask->shape[rank - 1] > columns)
        dims[3] = KVMILL_DYNAMIC;
    if (mask->ndim == 4 && mask->shape[0] == 1)
        dims[0] = 1;
    return kvmill_check_shape(given, KVMILL_ATTN_MASK, rank, dims + 4 - rank);
}

kvmill_status kvmill_check_activations(const struct given *given) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    int64_t kv_heads = geometry->kv_heads, loaded = kv_heads * geometry->repeat;
    const struct {
        int which;
        bool all;
        int64_t heads, dim;
    } rows[] = {
        {KVMILL_QUERY, false, geometry->heads, geometry->key.dim},
        {KVMILL_CURRENT_KEY, false, kv_heads, geometry->key.dim},
        {KVMILL_CURRENT_VALUE, false, kv_heads, geometry->value.dim},
        {KVMILL_KEY, true, loaded, geometry->key.dim},
        {KVMILL_VALUE, true, loaded, geometry->value.dim},
        {KVMILL_ATTN_OUTPUT, false, geometry->heads, geometry->value.dim},
        {KVMILL_LSE, false, geometry->heads, 0},
    };
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < sizeof rows / sizeof *rows; i++)
        status = check_tokens(given, rows[i].which, rows[i].all, rows[i].heads, rows[i].dim);
    if (status == KVMILL_OK && given->tensors[KVMILL_SINKS] != NULL)
        status = kvmill_check_shape(given, KVMILL_SINKS, 1, &geometry->heads);
    return status == KVMILL_OK ? check_mask(given) : status;
}

/* ---- Overlaps ---- */

static kvmill_status refuse_overlap(const struct given *given, int output, int other) {
    return kvmill_fail(given->error, KVMILL_E_ALIAS, "%s overlaps %s; accepted: memory of its own",
                       kvmill_cache_attention_names[other], kvmill_cache_attention_names[output]);
}

kvmill_status kvmill_check_overlaps(const struct given *given) {
    struct tensor_span spans[KVMILL_CACHE_ATTENTION_TENSORS] = {{0, 0}};
    for (int i = 0; i < KVMILL_CACHE_ATTENTION_TENSORS; i++)
        if (given->tensors[i] != NULL)
            spans[i] = kvmill_tensor_span_of(given->tensors[i]);
    for (int o = 0; o < KVMILL_CACHE_ATTENTION_TENSORS; o++)
        for (int i = 0;
             spans[o].end > 0 && is_output(given, o) && i < KVMILL_CACHE_ATTENTION_TENSORS; i++)
            if (i != o && spans_overlap(spans[o], spans[i]))
                return refuse_overlap(given, o, i);
    return KVMILL_OK;
}

/* ---- Addresses ---- */

/* Bytes between neighbours of dim d; those of a dim that has none do not matter. */
static int64_t step_of(const DLTensor *tensor, int d) {
    if (d < 0 || tensor->shape[d] <= 1)
        return 0;
    return kvmill_tensor_stride(tensor, d) * kvmill_dtype_bits(tensor->dtype) / 8;
}

/* The dims of tokens and heads are those behind the batch, if there is one. */
static struct token_rows rows_of(const struct given *given, int which) {
    const DLTensor *tensor = given->tensors[which];
    int token = given->plan->geometry.dynamic ? 0 : 1;
    if (tensor == NULL)
        return (struct token_rows){0};
    return (struct token_rows){tensor_data(tensor), step_of(tensor, token - 1),
                               step_of(tensor, token), step_of(tensor, token + 1)};
}

static struct token_rows mask_rows(const struct given *given) {
    const DLTensor *mask = given->tensors[KVMILL_ATTN_MASK];
    if (mask == NULL)
        return (struct token_rows){0};
    int rank = mask->ndim;
    return (struct token_rows){tensor_data(mask), step_of(mask, rank - 4), step_of(mask, rank - 2),
                               step_of(mask, rank - 3)};
}

/* Of MultiHeadAttention: key and value themselves are the rows. */
static struct cache_side plain_side(const struct given *given, int which) {
    struct token_rows rows = rows_of(given, which);
    return (struct cache_side){
        .rows = {.data = rows.data, .row_stride = rows.token, .head_stride = rows.head},
        .batch = rows.batch,
    };
}

/* Address of K (v = 0) or V of the layer. */
static unsigned char *layer_of(const struct given *given, const DLTensor *tensor, int v) {
    const struct cache_layout *layout = &given->plan->layout;
    return tensor_data(tensor) + given->plan->geometry.layer * step_of(tensor, layout->layer) +
           v * step_of(tensor, layout->kv);
}

/* v = 1 lies behind K in one tensor, or is the only part of another. */
static struct cache_side cache_side_of(const struct given *given, int v) {
    bool differs = given->plan->geometry.value_differs;
    const struct cache_layout *layout = &given->plan->layout;
    const DLTensor *cache = given->tensors[differs && v ? KVMILL_VALUE_CACHE : KVMILL_CACHE];
    const DLTensor *scale = given->tensors[differs && v ? KVMILL_VALUE_SCALE : KVMILL_SCALE];
    struct cache_side side = {
        .rows = {.data = layer_of(given, cache, v),
                 .row_stride = step_of(cache, layout->slot),
                 .head_stride = step_of(cache, layout->head)},
        .batch = step_of(cache, layout->batch),
    };
    if (scale == NULL)
        return side;
    side.rows.scale = layer_of(given, scale, v);
    side.rows.scale_row_stride = step_of(scale, layout->slot);
    side.rows.scale_head_stride = step_of(scale, layout->head);
    side.scale_batch = step_of(scale, layout->batch);
    return side;
}

static void set_sinks(const struct given *given) {
    const DLTensor *sinks = given->tensors[KVMILL_SINKS];
    struct cache_call *call = given->call;
    call->sinks = sinks ? tensor_data(sinks) : NULL;
    if (sinks == NULL)
        return;
    call->sink_stride = step_of(sinks, 0);
    call->sink_element = kvmill_dtype_equal(sinks->dtype, float32_type)
                             ? KVMILL_F32
                             : given->plan->geometry.activation;
}

void kvmill_set_addresses(const struct given *given) {
    struct cache_call *call = given->call;
    bool plain = given->plan->geometry.which == KVMILL_MULTI_HEAD_ATTENTION;
    for (int v = 0; v < 2; v++) {
        call->side[v] = plain ? plain_side(given, KVMILL_KEY + v) : cache_side_of(given, v);
        call->current[v] = rows_of(given, KVMILL_CURRENT_KEY + v);
        call->loaded[v] = rows_of(given, KVMILL_KEY + v);
    }
    call->query = rows_of(given, KVMILL_QUERY);
    call->output = rows_of(given, KVMILL_ATTN_OUTPUT);
    call->lse = rows_of(given, KVMILL_LSE);
    call->mask = mask_rows(given);
    set_sinks(given);
}
