/* CacheAttend: each sequence has a cache of its own, token after token, all of it valid; the
   queries are the last positions, and masks hide nothing.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../defs/arithmetic.h"
#include "../ops/cache_attend.h"
#include "../ops/extent.h"
#include "attention_work.h"
#include "scene_fill.h"
#include "scene_op.h"

static const kvmill_cache_attend *op_of(const struct scene *scene) {
    return &scene->spec->cache_attend;
}

static bool knows_attend(const struct spec *spec) {
    return spec_is(spec, OP_CACHE_ATTEND);
}

static bool open_attend(struct scene *scene, struct error *error) {
    kvmill_error reason;
    return kvmill_cache_attend_check(op_of(scene), &scene->attend, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s", reason.message);
}

static void say_attend(const struct scene *scene, char words[SAID_SIZE]) {
    side_describe(&scene->attend, words);
}

/* ---- Tensors ---- */

/* From keys to the scales of values, in the order of the op's tensors. */
enum { FIRST_SIDE = KVMILL_CACHE_ATTEND_KEY, LAST_SIDE = KVMILL_CACHE_ATTEND_VALUE_SCALE };

static bool is_side(int tensor) {
    return tensor >= FIRST_SIDE && tensor <= LAST_SIDE;
}

static bool is_scale(int tensor) {
    return tensor >= KVMILL_CACHE_ATTEND_KEY_SCALE;
}

static const struct kvmill_format *format_of(const struct scene *scene, int tensor) {
    bool value = tensor == KVMILL_CACHE_ATTEND_VALUE || tensor == KVMILL_CACHE_ATTEND_VALUE_SCALE;
    return value ? &scene->attend.value : &scene->attend.key;
}

static DLDataType type_of(const struct scene *scene, const struct op_tensor *tensor) {
    return kvmill_op_type(scene->spec->op, op_of(scene), op_of(scene), tensor);
}

static void shape_side(struct scene_call *call, int tensor) {
    const struct scene *scene = call->scene;
    const struct kvmill_format *format = format_of(scene, tensor);
    const struct op *op = scene->spec->op;
    const struct op_tensor *known = kvmill_op_tensor(op, tensor);
    const int64_t dims[] = {scene->size.batch, scene->size.positions, scene->attend.kv_heads,
                            is_scale(tensor) ? kvmill_format_scale_count(format)
                                             : kvmill_format_last_dim(format)};
    if (kvmill_op_presence(op, op_of(scene), known) != OP_ABSENT)
        scene_set_tensor(call, tensor, type_of(scene, known), 4, dims);
}

static void shape_attend(struct scene_call *call) {
    const struct kvmill_cache_geometry *g = &call->scene->attend;
    const struct op_dim words[] = {{"B", call->size.batch},
                                   {"S", call->size.tokens},
                                   {"T", call->scene->size.positions},
                                   {"H", g->heads},
                                   {"D", g->key.dim},
                                   {"E", g->value.dim},
                                   {NULL, 0}};
    scene_set_described(call, call->scene->spec->op, op_of(call->scene), words);
    for (int i = FIRST_SIDE; i <= LAST_SIDE; i++)
        shape_side(call, i);
    scene_set_tensor(call, KVMILL_CACHE_ATTEND_LENGTHS, kvmill_int64, 1, &call->size.batch);
}

/* A mask that is added is all zeros. */
static bool fill_attend(struct scene *scene, int i) {
    struct scene_memory *memory = &scene->memory[i];
    const struct kvmill_format *format = format_of(scene, i);
    if (is_side(i))
        fill_memory_rows(memory, format, is_scale(i),
                         is_scale(i) ? kvmill_format_scale_bytes(format)
                                     : kvmill_format_row_bytes(format),
                         (uint32_t)i);
    else if (i == KVMILL_CACHE_ATTEND_LENGTHS)
        fill_memory_numbers(memory, scene->size.positions);
    else if (i == KVMILL_CACHE_ATTEND_ATTN_MASK)
        memset(memory->data, op_of(scene)->mask_T1.code == KVMILL_DL_BOOL, (size_t)memory->bytes);
    else
        return false;
    return true;
}

static kvmill_status plan_attend(const struct scene_call *call, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *reason) {
    return kvmill_plan_cache_attend(op_of(call->scene), options, plan, reason);
}

/* ---- Work ---- */

/* ALiBi slopes hide no positions in this op, and windows may extend to the right. */
static struct attention_sight sight_of(const struct scene_call *call) {
    const kvmill_cache_attend *op = op_of(call->scene);
    return (struct attention_sight){.first = call->size.positions - call->size.tokens,
                                    .tokens = call->size.tokens,
                                    .positions = call->size.positions,
                                    .left = op->left_window_size,
                                    .right = op->is_causal ? 0 : op->right_window_size};
}

static double attend_bytes(const struct scene_call *call) {
    const struct attention_sight sight = sight_of(call);
    return (double)call->size.batch * (double)attention_rows(&sight) *
           (double)attention_row_bytes(&call->scene->attend);
}

static double attend_flops(const struct scene_call *call) {
    const struct kvmill_cache_geometry *g = &call->scene->attend;
    const struct attention_sight sight = sight_of(call);
    return 2 * attention_pairs(&sight) * (double)(call->size.batch * g->heads) *
           (g->key.dim + g->value.dim);
}

/* Results are compared in the output's type, which may differ from the kernels'. */
static struct kvmill_cache_geometry arithmetic(const struct scene *scene) {
    struct kvmill_cache_geometry found = scene->attend;
    found.activation = kvmill_element_of(
        type_of(scene, kvmill_op_tensor(scene->spec->op, KVMILL_CACHE_ATTEND_ATTN_OUTPUT)));
    return found;
}

const struct scene_op attend_scene_op = {
    .words = "CacheAttend",
    .knows = knows_attend,
    .say = say_attend,
    .open = open_attend,
    .shape = shape_attend,
    .fill = fill_attend,
    .plan = plan_attend,
    .bytes = attend_bytes,
    .flops = attend_flops,
    .arithmetic = arithmetic,
    .rotation = ATTENTION_ROTATION,
    .count = KVMILL_CACHE_ATTEND_TENSORS,
    .use = {[KVMILL_CACHE_ATTEND_QUERY] = USE_INPUT,
            [KVMILL_CACHE_ATTEND_KEY] = USE_CACHE,
            [KVMILL_CACHE_ATTEND_VALUE] = USE_CACHE,
            [KVMILL_CACHE_ATTEND_KEY_SCALE] = USE_CACHE,
            [KVMILL_CACHE_ATTEND_VALUE_SCALE] = USE_CACHE,
            [KVMILL_CACHE_ATTEND_LENGTHS] = USE_SAME,
            [KVMILL_CACHE_ATTEND_ATTN_MASK] = USE_SAME,
            [KVMILL_CACHE_ATTEND_ATTN_OUTPUT] = USE_SAME},
    .output = KVMILL_CACHE_ATTEND_ATTN_OUTPUT,
    .read = KVMILL_CACHE_ATTEND_KEY,
};
