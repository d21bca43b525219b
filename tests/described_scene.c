/* Scenes: attributes and tensors made from descriptions.

   SPDX-License-Identifier: Apache-2.0 */

#include "../base/hash.h"
#include "../defs/dtype.h"
#include "described.h"
#include "plans.h"

/* ---- Attributes ---- */

const struct op_struct *scene_attributes(const struct scene *scene) {
    return scene->attributes->parts[0];
}

void scene_set_integer(const struct op_member *member, void *base, int64_t value) {
    if (member->kind == OP_FLAG)
        *(int32_t *)kvmill_member_at(member, base) = value != 0;
    else
        *(int64_t *)kvmill_member_at(member, base) = value;
}

bool scene_range_holds(const struct scene *scene, const struct op_range *range) {
    return (range->ops & kvmill_op_bit(scene->attributes)) != 0 &&
           kvmill_op_holds(scene_attributes(scene), &scene->base, &range->when);
}

int64_t scene_range_most(const struct scene *scene, const struct op_range *range) {
    if (range->below == NULL)
        return range->most;
    return kvmill_member_value(kvmill_op_member(scene_attributes(scene), range->below),
                               &scene->base) -
           1;
}

static int64_t draw_integer(const struct scene *scene, const struct op_member *member) {
    static const int64_t others[] = {0, 1, 4, 8, -2};
    for (int i = 0; i < scene_attributes(scene)->range_count; i++) {
        const struct op_range *range = &scene_attributes(scene)->ranges[i];
        if (range->offset != member->offset || !scene_range_holds(scene, range))
            continue;
        int64_t most = scene_range_most(scene, range);
        return dice_range(scene->dice, range->least,
                          most > range->least + 6 ? range->least + 6 : most);
    }
    return others[dice_range(scene->dice, 0, 4)];
}

static const char *draw_word(const struct scene *scene, const char *const *words) {
    int64_t count = 0;
    while (words[count] != NULL)
        count++;
    return words[dice_range(scene->dice, 0, count)];
}

static DLDataType draw_type(const struct scene *scene, const struct op_member *member) {
    const char *names[KVMILL_MOST_FORMATS + 1];
    kvmill_row_types(names);
    const char *const *words = member->of_rows ? names : member->words;
    const char *word = words != NULL ? draw_word(scene, words) : NULL;
    return word != NULL ? kvmill_dtype_by_name(word)->dl : (DLDataType){0};
}

static void draw_member(struct scene *scene, const struct op_member *member) {
    static const double reals[] = {0, 0.25, 2};
    void *at = kvmill_member_at(member, &scene->base);
    if (member->kind == OP_REAL)
        *(double *)at = reals[dice_range(scene->dice, 0, 2)];
    else if (member->kind == OP_TYPE)
        *(DLDataType *)at = draw_type(scene, member);
    else if (member->kind == OP_WORD)
        *(const char **)at = draw_word(scene, member->words);
    else if (member->kind == OP_FLAG || member->kind == OP_COUNT || member->kind == OP_INTEGER ||
             member->kind == OP_AXIS)
        scene_set_integer(member, &scene->base, draw_integer(scene, member));
}

void scene_draw_members(struct scene *scene) {
    const struct op_struct *part = scene_attributes(scene);
    for (int64_t n = dice_range(scene->dice, 0, 3); n > 0; n--) {
        const struct op_member *member =
            &part->members[dice_range(scene->dice, 0, part->member_count - 1)];
        if (member->ops & kvmill_op_bit(scene->attributes))
            draw_member(scene, member);
    }
}

/* ---- Tensors ---- */

static const void *types_of(const struct scene *scene) {
    bool apart = kvmill_op_types(scene->op)->name == NULL;
    return apart ? (const void *)scene->types : (const void *)&scene->base;
}

DLDataType scene_type(const struct scene *scene, const struct op_tensor *tensor) {
    static const DLDataType any = {kDLFloat, 32, 1};
    DLDataType type = kvmill_op_type(scene->op, &scene->base, types_of(scene), tensor);
    return type.bits != 0 ? type : any;
}

const char *scene_shape(const struct scene *scene, const struct op_tensor *tensor) {
    const char *told = described_tensor(scene, tensor)->shape;
    return told != NULL ? told : kvmill_op_shape_words(scene->op, tensor);
}

static int64_t value_of(const struct scene *scene, const char *word) {
    int64_t dims[OP_MOST_RANK];
    return word != NULL && kvmill_op_shape(word, 0, scene->words, dims) == 1 ? dims[0] : 0;
}

static void fill(const struct scene *scene, const struct op_tensor *tensor,
                 const struct fenced_tensor *memory) {
    const struct described_tensor *row = described_tensor(scene, tensor);
    int64_t first = value_of(scene, row->first), step = value_of(scene, row->step);
    memset(memory->fence.data, 0, memory->fence.size);
    if (memory->dl.dtype.code != kDLInt || memory->dl.dtype.bits < 32)
        return;
    size_t bytes = memory->dl.dtype.bits / 8;
    for (size_t i = 0; i < memory->fence.size / bytes; i++) {
        int64_t value = first + (int64_t)i * step;
        memcpy(memory->fence.data + i * bytes, &value, bytes);
    }
}

static bool has_bytes(const int64_t *dims, int rank, bool may_be_empty) {
    enum { NOBODY_HAS = 1 << 24 };
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count =
            dims[d] < 0 || dims[d] > 1 << 20 || count >= NOBODY_HAS ? NOBODY_HAS : count * dims[d];
    return count < NOBODY_HAS && (count > 0 || may_be_empty);
}

/* Makes a tensor; returns without one if neither the description nor the case has its shape. */
static void give(struct scene *scene, const struct op_tensor *tensor) {
    int64_t dims[OP_MOST_RANK];
    int rank = kvmill_op_shape(scene_shape(scene, tensor), 0, scene->words, dims);
    if (rank < 0 || !has_bytes(dims, rank, scene->may_be_empty))
        return;
    struct fenced_tensor *memory = &scene->memory[tensor->index];
    if (scene->by->aligned)
        tensor_open_aligned(memory, scene_type(scene, tensor), rank, dims, scene->dice);
    else
        tensor_open(memory, scene_type(scene, tensor), rank, dims, NULL, scene->dice);
    fill(scene, tensor, memory);
    scene->tensors[tensor->index] = &memory->dl;
}

static void give_tensors(struct scene *scene, int64_t optional_once_in) {
    for (int i = 0; i < scene->op->tensor_count; i++) {
        const struct op_tensor *tensor = &scene->op->tensors[i];
        enum op_presence presence = kvmill_op_presence(scene->op, &scene->base, tensor);
        bool extra = described_tensor(scene, tensor)->given || tensor->optional != 0 ||
                     (optional_once_in > 0 && dice_once_in(scene->dice, optional_once_in));
        if (tensor->index < scene->by->count &&
            (presence == OP_REQUIRED || (presence == OP_OPTIONAL && extra)))
            give(scene, tensor);
    }
}

void scene_set_prototypes(struct scene *scene) {
    setting_tensors(scene->op, &scene->base, scene->tensors, scene->by->count);
}

/* ---- A scene ---- */

const struct described_case *described_case_of(const struct op *op) {
    const struct described_case *by = described_cases;
    while (by->name != NULL && strcmp(by->name, op->name) != 0)
        by++;
    return by->name != NULL ? by : NULL;
}

const struct op *described_op(const struct described_case *by) {
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        if (strcmp(kvmill_flow_steps[i].name, by->name) == 0)
            return &kvmill_flow_steps[i];
    return kvmill_op_by_name(by->name);
}

bool scene_apply(void *to, const struct setting *setting) {
    struct scene *scene = to;
    static const struct wanted_setting of_flows[] = {
        SETTING_OF(struct scene, "batch", limits.batch),
        SETTING_OF(struct scene, "pages", limits.pages),
        SETTING_OF(struct scene, "cache_pages", limits.cache_pages),
        SETTING_OF(struct scene, "topk_val", topk_val),
        SETTING_OF(struct scene, "dense_below", dense_below),
        {.name = NULL}};
    const struct op_struct *types = kvmill_op_types(scene->op), *step = scene->op->parts[2];
    return setting_apply(setting, scene_attributes(scene), &scene->base) ||
           (scene->op->family == OP_FLOW && setting_want(setting, of_flows, scene) >= 0) ||
           (types->name == NULL && setting_apply(setting, types, scene->types)) ||
           (step != NULL && setting_apply(setting, step, &scene->step));
}

static void start_attributes(struct scene *scene) {
    kvmill_op_init(scene_attributes(scene), &scene->base);
    scene->limits = (kvmill_flow_limits){sizeof scene->limits, 4, 4, 16};
    scene->topk_val = 1;
    if (scene->op->parts[2] != NULL)
        kvmill_op_init(scene->op->parts[2], &scene->step);
    if (scene->attributes->family == OP_CACHE_ATTENTION)
        scene->base.cache.dynamic_batching = scene->attributes->dynamic;
    setting_say(scene->by->settings, scene->dice, scene, scene_apply);
}

void scene_start(struct scene *scene, const struct op *op, const struct described_case *by,
                 struct dice *dice) {
    memset(scene, 0, sizeof *scene);
    scene->by = by;
    scene->op = op;
    scene->attributes = by->attributes ? kvmill_op_by_name(by->attributes) : op;
    scene->dice = dice;
    start_attributes(scene);
}

void described_open(struct scene *scene, int64_t optional_once_in) {
    scene->by->bind(scene);
    give_tensors(scene, optional_once_in);
    scene_set_prototypes(scene);
}

void described_close(struct scene *scene) {
    tensors_close(scene->memory, MOST_TENSORS);
}

kvmill_status scene_run(const struct scene *scene, const kvmill_plan *plan, kvmill_error *error) {
    return run_with_workspace(plan, scene->tensors, 0, scene->dice, error);
}

uint64_t scene_hash(const struct scene *scene) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < MOST_TENSORS; i++)
        hash = hash_bytes(hash, scene->memory[i].fence.data, scene->memory[i].fence.size);
    return hash;
}

bool scene_is_intact(const struct scene *scene) {
    return tensors_are_intact(scene->memory, MOST_TENSORS, scene->op->name);
}
