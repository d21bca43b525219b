/* The tensors of cache attention: their required shapes, and their layouts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../../defs/dtype.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../../ops/tensor_scatter.h"
#include "../core/numbers.h"
#include "../core/tensor.h"
#include "cache_attention_plan.h"

/* ---- Caches ---- */

static kvmill_status check_cache_shape(const struct given *given, int cache, int64_t last) {
    int64_t dims[KVMILL_MOST_CACHE_DIMS];
    int rank = kvmill_cache_dims(&given->plan->geometry, last, dims);
    return kvmill_check_shape(&given->base, cache, rank, dims);
}

/* Scales have the cache's shape, except for the last dim.  An empty tensor counts as absent. */
static kvmill_status check_scale_shape(const struct given *given, int cache, int64_t last) {
    const DLTensor *tensor = given->base.tensors[cache];
    if (kvmill_tensor_is_empty(given->base.tensors[cache + 1]) && !kvmill_tensor_is_empty(tensor))
        return kvmill_fail(given->base.error, KVMILL_E_NULL, "%s is empty; a tensor is required",
                           given_name(given, cache + 1));
    int64_t dims[6];
    memcpy(dims, tensor->shape, (size_t)tensor->ndim * sizeof *dims);
    dims[tensor->ndim - 1] = last;
    return kvmill_check_shape(&given->base, cache + 1, tensor->ndim, dims);
}

static kvmill_status check_cache_batch(const struct given *given, int cache) {
    int batch = given->plan->layout.batch;
    if (batch < 0 || given->base.tensors[cache]->shape[batch] >= given->call->base.view.batch)
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                       "dim %d of %s is %" PRId64 "; accepted: %" PRId64 " or more, the batch",
                       batch, given_name(given, cache), given->base.tensors[cache]->shape[batch],
                       given->call->base.view.batch);
}

/* The rows from a page to the next, if pages are a dim. */
static kvmill_status check_page_stride(struct given *given, int which) {
    const struct kvmill_cache_layout *layout = &given->plan->layout;
    const DLTensor *tensor = given->base.tensors[which];
    if (tensor == NULL || tensor->shape[layout->row] < 2 || tensor->shape[layout->slot] < 2)
        return KVMILL_OK;
    int64_t row = kvmill_tensor_stride(tensor, layout->row);
    int64_t page = kvmill_tensor_stride(tensor, layout->slot), known = given->call->page_rows;
    if (row > 0 && page % row == 0 && (known == 0 || known == page / row)) {
        given->call->page_rows = page / row;
        return KVMILL_OK;
    }
    return kvmill_fail(given->base.error, KVMILL_E_STRIDE,
                       "%s has stride %" PRId64 " for pages and %" PRId64
                       " for rows; accepted: a multiple, the same in all caches and scales",
                       given_name(given, which), page, row);
}

static kvmill_status check_pages_apart(struct given *given, int cache) {
    if (given->plan->layout.row == 0)
        return KVMILL_OK;
    kvmill_status status = check_page_stride(given, cache);
    return status == KVMILL_OK ? check_page_stride(given, cache + 1) : status;
}

/* Tiles take the place of their rows; the number of slots is a multiple of a tile's rows. */
static kvmill_status check_tiles(const struct given *given, int cache,
                                 const struct kvmill_format *format) {
    const struct kvmill_cache_layout *layout = &given->plan->layout;
    const DLTensor *tensor = given->base.tensors[cache];
    int rows = layout->row > 0 ? layout->row : layout->slot;
    int64_t stride = kvmill_tensor_stride(tensor, rows), last = tensor->shape[tensor->ndim - 1];
    int64_t multiple = kvmill_format_row_multiple(format);
    const char *word = kvmill_tiles_word(&given->plan->geometry);
    if (multiple == 1 && !kvmill_format_parts(format->element)->transposed)
        return KVMILL_OK;
    if (tensor->shape[rows] % multiple != 0)
        return kvmill_fail(given->base.error, KVMILL_E_SHAPE,
                           "dim %d of %s is %" PRId64
                           "; accepted with cache_format \"%s\": multiples of %" PRId64,
                           rows, given_name(given, cache), tensor->shape[rows], word, multiple);
    if (stride != last && tensor->shape[rows] > 0)
        return kvmill_fail(given->base.error, KVMILL_E_STRIDE,
                           "dim %d of %s has stride %" PRId64
                           "; accepted with cache_format \"%s\": %" PRId64 ", rows side by side",
                           rows, given_name(given, cache), stride, word, last);
    int64_t page = kvmill_tensor_stride(tensor, layout->slot);
    if (layout->row == 0 || tensor->shape[layout->slot] < 2 || page % (multiple * last) == 0)
        return KVMILL_OK;
    return kvmill_fail(given->base.error, KVMILL_E_STRIDE,
                       "dim %d of %s has stride %" PRId64
                       "; accepted with cache_format \"%s\": multiples of %" PRId64
                       " rows of %" PRId64,
                       layout->slot, given_name(given, cache), page, word, multiple, last);
}

static kvmill_status check_cache(struct given *given, int cache,
                                 const struct kvmill_format *format) {
    if (given->base.tensors[cache] == NULL)
        return KVMILL_OK;
    kvmill_status status = check_cache_shape(given, cache, kvmill_format_last_dim(format));
    if (status == KVMILL_OK)
        status = check_cache_batch(given, cache);
    if (status == KVMILL_OK)
        status = check_tiles(given, cache, format);
    if (status == KVMILL_OK && given->base.tensors[cache + 1] != NULL)
        status = check_scale_shape(given, cache, kvmill_format_scale_count(format));
    if (status != KVMILL_OK)
        return status;
    bool overflow = false; /* never set: the tensor has this many rows */
    int64_t capacity =
        kvmill_times(given->base.tensors[cache]->shape[given->plan->layout.slot],
                     given->plan->layout.row > 0 ? given->plan->geometry.page_size : 1, &overflow);
    given->capacity = capacity < given->capacity ? capacity : given->capacity;
    return check_pages_apart(given, cache);
}

kvmill_status kvmill_check_caches(struct given *given) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    given->capacity = INT64_MAX;
    kvmill_status status = check_cache(given, KVMILL_CACHE_ATTENTION_CACHE, &geometry->key);
    if (status == KVMILL_OK)
        status = check_cache(given, KVMILL_CACHE_ATTENTION_VALUE_CACHE, &geometry->value);
    if (given->call->page_rows == 0)
        given->call->page_rows =
            given->plan->layout.row > 0 && geometry->page_size == 1 ? 1 : geometry->page_size;
    return status;
}

/* ---- Activations ---- */

/* [batch, tokens or positions, heads, dim]; dynamic batches have no batch dim; the last dim is left
   out if `dim` is 0. */
static kvmill_status check_tokens(const struct given *given, int which, bool all, int64_t heads,
                                  int64_t dim) {
    const struct cache_call *call = given->call;
    bool dynamic = given->plan->geometry.dynamic;
    int64_t kept = dynamic ? kvmill_kept_before(call, call->base.view.batch) : kvmill_kept(call, 0);
    int64_t tokens = dynamic ? call->tokens : call->base.view.tokens.each;
    const int64_t dims[] = {call->base.view.batch, all ? kept : tokens, heads, dim};
    if (given->base.tensors[which] == NULL)
        return KVMILL_OK;
    return kvmill_check_shape(&given->base, which, (dim != 0) + (dynamic ? 2 : 3), dims + dynamic);
}

/* The dims of a mask of the highest rank; a mask has the last ones of these. */
static kvmill_status check_mask(const struct given *given) {
    const struct cache_call *call = given->call;
    const DLTensor *mask = given->base.tensors[KVMILL_CACHE_ATTENTION_ATTN_MASK];
    bool dynamic = given->plan->geometry.dynamic;
    int64_t columns = dynamic ? call->positions : call->length.each;
    int64_t dims[] = {call->base.view.batch, given->plan->geometry.heads,
                      dynamic ? call->tokens : call->base.view.tokens.each, columns};
    if (mask == NULL)
        return KVMILL_OK;
    int most = dynamic ? 3 : 4, rank = mask->ndim < 2 ? 2 : mask->ndim > most ? most : mask->ndim;
    if (mask->ndim == rank && mask->shape[rank - 1] > columns)
        dims[3] = KVMILL_DYNAMIC;
    if (mask->ndim == 4 && mask->shape[0] == 1)
        dims[0] = 1;
    return kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_ATTN_MASK, rank,
                              dims + 4 - rank);
}

kvmill_status kvmill_check_activations(const struct given *given) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    int64_t kv_heads = geometry->kv_heads, loaded = kv_heads * geometry->repeat;
    const struct {
        int which;
        bool all;
        int64_t heads, dim;
    } rows[] = {
        {KVMILL_CACHE_ATTENTION_QUERY, false, geometry->heads, geometry->key.dim},
        {KVMILL_CACHE_ATTENTION_CURRENT_KEY, false, kv_heads, geometry->key.dim},
        {KVMILL_CACHE_ATTENTION_CURRENT_VALUE, false, kv_heads, geometry->value.dim},
        {KVMILL_CACHE_ATTENTION_KEY, true, loaded, geometry->key.dim},
        {KVMILL_CACHE_ATTENTION_VALUE, true, loaded, geometry->value.dim},
        {KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, false, geometry->heads, geometry->value.dim},
        {KVMILL_CACHE_ATTENTION_LSE, false, geometry->heads, 0},
    };
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < sizeof rows / sizeof *rows; i++)
        status = check_tokens(given, rows[i].which, rows[i].all, rows[i].heads, rows[i].dim);
    if (status == KVMILL_OK && given->base.tensors[KVMILL_CACHE_ATTENTION_SINKS] != NULL)
        status =
            kvmill_check_shape(&given->base, KVMILL_CACHE_ATTENTION_SINKS, 1, &geometry->heads);
    return status == KVMILL_OK ? check_mask(given) : status;
}

/* ---- Addresses ---- */

/* Tokens and heads are the dims after the batch, if there is one. */
static struct token_rows rows_of(const struct given *given, int which) {
    const DLTensor *tensor = given->base.tensors[which];
    int token = given->plan->geometry.dynamic ? 0 : 1;
    if (tensor == NULL)
        return (struct token_rows){0};
    return (struct token_rows){tensor_data(tensor), kvmill_tensor_step(tensor, token - 1),
                               kvmill_tensor_step(tensor, token),
                               kvmill_tensor_step(tensor, token + 1)};
}

static struct mask_view mask_of(const struct given *given) {
    const DLTensor *mask = given->base.tensors[KVMILL_CACHE_ATTENTION_ATTN_MASK];
    if (mask == NULL)
        return (struct mask_view){0};
    int rank = mask->ndim;
    return (struct mask_view){
        .rows = {tensor_data(mask), kvmill_tensor_step(mask, rank - 4),
                 kvmill_tensor_step(mask, rank - 2), kvmill_tensor_step(mask, rank - 3)},
        .key = kvmill_activation_bytes(given->plan->geometry.activation),
        .as_it_is = true,
    };
}

/* MultiHeadAttention uses key and value themselves as rows. */
static struct cache_side plain_side(const struct given *given, int which) {
    struct token_rows rows = rows_of(given, which);
    return (struct cache_side){
        .rows = {.data = rows.data, .row_stride = rows.token, .head_stride = rows.head},
        .batch = rows.batch,
    };
}

/* The address of K (v = 0) or V of the layer. */
static unsigned char *layer_of(const struct given *given, const DLTensor *tensor, int v) {
    const struct kvmill_cache_layout *layout = &given->plan->layout;
    uintptr_t of_layer =
        (uintptr_t)kvmill_tensor_at(tensor, layout->layer, given->plan->geometry.layer);
    uintptr_t of_value = (uintptr_t)kvmill_tensor_at(tensor, layout->kv, v);
    return (unsigned char *)(of_layer + of_value - (uintptr_t)tensor_data(tensor));
}

static int64_t row_step(const struct given *given, const DLTensor *tensor) {
    return kvmill_tensor_step(tensor, kvmill_cache_row_dim(&given->plan->geometry));
}

/* V (v = 1) comes after K in one tensor, or is alone in its tensor, or is K. */
static struct cache_side cache_side_of(const struct given *given, int v) {
    const struct kvmill_cache_geometry *geometry = &given->plan->geometry;
    const struct kvmill_cache_layout *layout = &given->plan->layout;
    bool apart = v && geometry->value_differs && !geometry->value_view;
    const DLTensor *cache =
        given->base
            .tensors[apart ? KVMILL_CACHE_ATTENTION_VALUE_CACHE : KVMILL_CACHE_ATTENTION_CACHE];
    const DLTensor *scale =
        given->base
            .tensors[apart ? KVMILL_CACHE_ATTENTION_VALUE_SCALE : KVMILL_CACHE_ATTENTION_SCALE];
    if (cache == NULL)
        return (struct cache_side){0};
    struct cache_side side = {
        .rows = {.data = layer_of(given, cache, v),
                 .row_stride = row_step(given, cache),
                 .head_stride = kvmill_tensor_step(cache, layout->head)},
        .batch = kvmill_tensor_step(cache, layout->batch),
    };
    if (scale == NULL)
        return side;
    side.rows.scale = layer_of(given, scale, v);
    side.rows.scale_row_stride = row_step(given, scale);
    side.rows.scale_head_stride = kvmill_tensor_step(scale, layout->head);
    side.scale_batch = kvmill_tensor_step(scale, layout->batch);
    return side;
}

static struct head_numbers sinks_of(const struct given *given) {
    const DLTensor *sinks = given->base.tensors[KVMILL_CACHE_ATTENTION_SINKS];
    if (sinks == NULL)
        return (struct head_numbers){0};
    return (struct head_numbers){tensor_data(sinks), kvmill_tensor_step(sinks, 0),
                                 kvmill_dtype_equal(sinks->dtype, kvmill_float32)
                                     ? KVMILL_F32
                                     : given->plan->geometry.activation};
}

void kvmill_set_addresses(const struct given *given) {
    struct cache_call *call = given->call;
    struct attend_view *view = &call->base.view;
    bool plain = given->plan->geometry.which == KVMILL_MULTI_HEAD_ATTENTION;
    for (int v = 0; v < 2; v++) {
        view->side[0][v] =
            plain ? plain_side(given, KVMILL_CACHE_ATTENTION_KEY + v) : cache_side_of(given, v);
        call->current[v] = rows_of(given, KVMILL_CACHE_ATTENTION_CURRENT_KEY + v);
        call->loaded[v] = rows_of(given, KVMILL_CACHE_ATTENTION_KEY + v);
    }
    view->query = rows_of(given, KVMILL_CACHE_ATTENTION_QUERY);
    view->output = rows_of(given, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    view->lse = rows_of(given, KVMILL_CACHE_ATTENTION_LSE);
    view->mask = mask_of(given);
    view->sinks = sinks_of(given);
    kvmill_set_view(call);
}
