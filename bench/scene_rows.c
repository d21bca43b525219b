/* TensorScatter, as what it folds to: cache [batch, heads, slots, row].

   SPDX-License-Identifier: Apache-2.0 */
#include "scene_rows.h"

#include "../defs/dtype.h"
#include "scene_op.h"

enum { PREFILL_ROWS = 512 };

static bool knows_rows(const struct spec *spec) {
    return spec_is(spec, OP_TENSOR_SCATTER);
}

/* ---- Sizes ---- */

/* Returns a dim that one of the tensors fixes; 1 if all leave it open. */
static int64_t dim_of(const struct scatter_spec *spec, int d) {
    int64_t past = spec->past_cache.shape[d];
    int64_t dim = past >= 0 ? past : spec->update.shape[d];
    return dim >= 0 ? dim : 1;
}

/* Counts the elements of dims first to last - 1.  Returns false on overflow. */
static bool count_dims(const struct scatter_spec *spec, int first, int last, int64_t *count) {
    *count = 1;
    for (int d = first; d < last; d++)
        if (__builtin_mul_overflow(*count, dim_of(spec, d), count))
            return false;
    return true;
}

static bool fold(const struct spec *spec, struct kvmill_row_geometry *geometry,
                 struct error *error) {
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    if (kvmill_tensor_scatter_check(&op, geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    const struct scatter_spec *scatter = &spec->scatter;
    if (!count_dims(scatter, 1, geometry->axis, &geometry->heads) ||
        !count_dims(scatter, geometry->axis + 1, scatter->past_cache.ndim, &geometry->row))
        geometry->row = 0;
    return true;
}

bool rows_is_decode(const struct spec *spec) {
    struct kvmill_row_geometry geometry;
    struct error ignored;
    return fold(spec, &geometry, &ignored) && geometry.rows == 1;
}

static bool is_countable(int64_t others, int64_t slots) {
    int64_t elements;
    return !__builtin_mul_overflow(others, slots, &elements) && elements <= PTRDIFF_MAX / 16;
}

bool rows_size(const struct spec *spec, int64_t batch, int64_t bytes, struct run_size *size) {
    struct kvmill_row_geometry g;
    struct error ignored;
    int64_t others;
    if (!fold(spec, &g, &ignored))
        return false;
    size->batch = spec->scatter.past_cache.shape[0] >= 0 || spec->scatter.update.shape[0] >= 0
                      ? dim_of(&spec->scatter, 0)
                      : batch;
    if (__builtin_mul_overflow(size->batch, g.heads, &others) ||
        __builtin_mul_overflow(others, g.row, &others) || others <= 0)
        return false;
    int64_t least = g.rows > 0 ? g.rows : 1;
    int64_t open = bytes / kvmill_dtype_bytes(spec->scatter.dtype, others);
    size->positions = g.capacity >= 0 ? g.capacity : open < least ? least : open;
    size->tokens = g.rows >= 0 ? g.rows : PREFILL_ROWS;
    if (size->tokens > size->positions)
        size->tokens = size->positions;
    return size->tokens > 0 && is_countable(others, size->positions);
}

/* ---- Tensors ---- */

static bool open_rows(struct scene *scene, struct error *error) {
    return fold(scene->spec, &scene->rows, error);
}

static void shape_rows(struct scene_call *call) {
    const struct kvmill_row_geometry *g = &call->scene->rows;
    DLDataType type = call->scene->spec->scatter.dtype;
    const int64_t cache[] = {call->size.batch, g->heads, call->size.positions, g->row};
    const int64_t update[] = {call->size.batch, g->heads, call->size.tokens, g->row};
    scene_set_tensor(call, KVMILL_TENSOR_SCATTER_PAST_CACHE, type, 4, cache);
    scene_set_tensor(call, KVMILL_TENSOR_SCATTER_UPDATE, type, 4, update);
    scene_set_tensor(call, KVMILL_TENSOR_SCATTER_WRITE_INDICES, kvmill_int64, 1, cache);
    scene_set_tensor(call, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, type, 4, cache);
}

static kvmill_status plan_rows(const struct scene_call *call, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *reason) {
    const kvmill_tensor_scatter op = {
        .struct_size = sizeof op,
        .axis = 2,
        .mode = call->scene->spec->scatter.op.mode,
        .past_cache = call->given[KVMILL_TENSOR_SCATTER_PAST_CACHE],
        .update = call->given[KVMILL_TENSOR_SCATTER_UPDATE],
        .write_indices = call->given[KVMILL_TENSOR_SCATTER_WRITE_INDICES],
    };
    return kvmill_plan_tensor_scatter(&op, options, plan, reason);
}

/* Changes the slots with every call, so that a row is not in the processor's cache from the last
   one. */
static void move_rows(struct scene_call *call, int64_t turn) {
    int64_t *starts = call->tensors[KVMILL_TENSOR_SCATTER_WRITE_INDICES].data;
    int64_t span = call->size.positions - call->size.tokens + 1;
    for (int64_t b = 0; b < call->size.batch; b++)
        starts[b] = (turn * 7919 + b * 131) % span;
}

/* Returns the least bytes that a run reads and writes. */
static double rows_bytes(const struct scene_call *call) {
    return 2.0 * (double)scene_tensor_bytes(call->scene, call->in_place
                                                             ? KVMILL_TENSOR_SCATTER_UPDATE
                                                             : KVMILL_TENSOR_SCATTER_PAST_CACHE);
}

const struct scene_op rows_scene_op = {
    .words = "TensorScatter",
    .knows = knows_rows,
    .open = open_rows,
    .shape = shape_rows,
    .plan = plan_rows,
    .move = move_rows,
    .bytes = rows_bytes,
    .rotation = 512 << 20,
    .count = KVMILL_TENSOR_SCATTER_TENSORS,
    .use = {USE_SAME, USE_SAME, USE_SAME, USE_SAME},
    .output = KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
    .read = KVMILL_TENSOR_SCATTER_PAST_CACHE,
    .past = KVMILL_TENSOR_SCATTER_PAST_CACHE,
    .present = KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
    .written = {KVMILL_TENSOR_SCATTER_PRESENT_CACHE},
};
