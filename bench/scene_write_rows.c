/* WriteRows: new rows of HEADS heads, stored in slots of a cache in random order.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/write_rows.h"

#include "../defs/format.h"
#include "scene_fill.h"
#include "scene_op.h"

enum { HEADS = 8 };

static const kvmill_write_rows *op_of(const struct scene *scene) {
    return &scene->spec->write_rows;
}

static bool knows_write_rows(const struct spec *spec) {
    return spec_is(spec, OP_WRITE_ROWS);
}

static bool open_write_rows(struct scene *scene, struct error *error) {
    struct kvmill_convert_shape shape;
    kvmill_error reason;
    return scene_demand(kvmill_write_rows_check(op_of(scene), &shape, &reason), &reason, error);
}

/* The spec has been checked before. */
static struct kvmill_format format_of(const struct scene *scene) {
    struct kvmill_convert_shape shape;
    kvmill_error ignored;
    kvmill_write_rows_check(op_of(scene), &shape, &ignored);
    return shape.format;
}

static int64_t row_bytes(const struct scene *scene, int tensor) {
    const struct kvmill_format format = format_of(scene);
    return tensor == KVMILL_WRITE_ROWS_SCALE ? kvmill_format_scale_bytes(&format)
                                             : kvmill_format_row_bytes(&format);
}

/* ---- Tensors ---- */

static void shape_write_rows(struct scene_call *call) {
    const struct scene *scene = call->scene;
    const kvmill_write_rows *op = op_of(scene);
    const struct kvmill_format format = format_of(scene);
    const int64_t cells[] = {scene->size.positions, HEADS, kvmill_format_last_dim(&format)};
    const struct op_dim words[] = {
        {"N", call->size.tokens}, {"H", HEADS}, {"D", op->head_dim}, {NULL, 0}};
    scene_set_described(call, scene->spec->op, op, words);
    scene_set_tensor(call, KVMILL_WRITE_ROWS_CACHE, op->T2, 3, cells);
    if (op->quant_bit > 0) {
        const int64_t scales[] = {scene->size.positions, HEADS, op->head_dim / op->quant_group};
        scene_set_tensor(call, KVMILL_WRITE_ROWS_SCALE, op->T3, 3, scales);
    }
}

/* An odd step from slot to slot: with a power of two of cells, none is written twice. */
static void fill_slots(struct scene_memory *memory, int64_t cells) {
    enum { STRIDE = 1000003 };
    int64_t *slots = (int64_t *)(void *)memory->data;
    for (int64_t i = 0; i < memory->bytes / (int64_t)sizeof *slots; i++)
        slots[i] = i * STRIDE % cells;
}

static bool fill_write_rows(struct scene *scene, int i) {
    struct scene_memory *memory = &scene->memory[i];
    const struct kvmill_format format = format_of(scene);
    if (i == KVMILL_WRITE_ROWS_ROWS)
        return false;
    if (i == KVMILL_WRITE_ROWS_SLOTS)
        fill_slots(memory, scene->size.positions);
    else
        fill_memory_rows(memory, &format, i == KVMILL_WRITE_ROWS_SCALE, row_bytes(scene, i),
                         (uint32_t)i);
    return true;
}

static kvmill_status plan_write_rows(const struct scene_call *call,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *reason) {
    return kvmill_plan_write_rows(op_of(call->scene), options, plan, reason);
}

/* Counts rows that are read and cells that are written. */
static double write_rows_bytes(const struct scene_call *call) {
    const struct scene *scene = call->scene;
    int64_t cell = row_bytes(scene, KVMILL_WRITE_ROWS_CACHE);
    if (op_of(scene)->quant_bit > 0)
        cell += row_bytes(scene, KVMILL_WRITE_ROWS_SCALE);
    return (double)(call->size.tokens * HEADS * cell) +
           (double)scene_tensor_bytes(scene, KVMILL_WRITE_ROWS_ROWS);
}

const struct scene_op write_rows_scene_op = {
    .words = "WriteRows",
    .knows = knows_write_rows,
    .open = open_write_rows,
    .shape = shape_write_rows,
    .fill = fill_write_rows,
    .plan = plan_write_rows,
    .bytes = write_rows_bytes,
    .rotation = ATTENTION_ROTATION,
    .count = KVMILL_WRITE_ROWS_TENSORS,
    .use = {[KVMILL_WRITE_ROWS_ROWS] = USE_INPUT,
            [KVMILL_WRITE_ROWS_SLOTS] = USE_SAME,
            [KVMILL_WRITE_ROWS_CACHE] = USE_CACHE,
            [KVMILL_WRITE_ROWS_SCALE] = USE_CACHE},
    .output = KVMILL_WRITE_ROWS_CACHE,
    .read = KVMILL_WRITE_ROWS_CACHE,
    .written = {KVMILL_WRITE_ROWS_CACHE, KVMILL_WRITE_ROWS_SCALE},
};
