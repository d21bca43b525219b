/* Plans and runs every op that has a description, as a hostile caller: attributes, tensors and
   indices of any values, in memory between pages that trap.  Kernels are those of packs.

   SPDX-License-Identifier: Apache-2.0 */

#include "../described.h"
#include "../plans.h"
#include "call.h"
#include "fuzz.h"

static const struct described_case *draw_case(struct dice *dice) {
    int64_t count = 0;
    while (described_cases[count].name != NULL)
        count++;
    return &described_cases[dice_range(dice, 0, count - 1)];
}

/* ---- Attributes ---- */

static void bend_prototype(struct scene *scene, const DLTensor **prototype) {
    static struct fenced_tensor bent;
    int64_t other = dice_range(scene->dice, 0, scene->by->count - 1);
    bool there = scene->memory[other].fence.pages != NULL;
    if (there)
        bend_tensor(&bent, &scene->memory[other], scene->dice);
    *prototype = there ? &bent.dl : NULL;
}

static void bend_member(struct scene *scene) {
    const struct op_struct *part = scene_attributes(scene);
    const struct op_member *member =
        &part->members[dice_range(scene->dice, 0, part->member_count - 1)];
    if (member->kind == OP_FLAG || member->kind == OP_COUNT || member->kind == OP_INTEGER ||
        member->kind == OP_AXIS)
        scene_set_integer(member, &scene->base, bend_number(scene->dice));
    else if (member->kind == OP_TENSOR)
        bend_prototype(scene, kvmill_member_at(member, &scene->base));
}

/* ---- Tensors ---- */

static void bend_one(struct scene *scene, struct fenced_tensor bent[MOST_TENSORS]) {
    int64_t at = dice_range(scene->dice, 0, MOST_TENSORS - 1);
    at %= scene->by->count;
    int64_t other = dice_range(scene->dice, 0, scene->by->count - 1);
    if (scene->memory[at].fence.pages == NULL)
        scene->tensors[at] = scene->tensors[other];
    else if (dice_once_in(scene->dice, 6))
        scene->tensors[at] = dice_once_in(scene->dice, 2) ? NULL : scene->tensors[other];
    else if (dice_once_in(scene->dice, 3))
        bend_indices(&scene->memory[at], scene->dice);
    else {
        bend_tensor(&bent[at], &scene->memory[at], scene->dice);
        scene->tensors[at] = &bent[at].dl;
    }
}

static kvmill_status plan_call(void *context, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    const struct scene *scene = context;
    return scene->by->plan(scene, options, plan, error);
}

static void call(struct scene *scene) {
    struct fenced_tensor bent[MOST_TENSORS];
    const struct call call = {
        .memory = scene->memory,
        .count = MOST_TENSORS,
        .tensors = scene->tensors,
        .plan = plan_call,
        .context = scene,
        .dice = scene->dice,
    };
    OWN_PLAN kvmill_plan *plan = call_plan(&call);
    if (plan == NULL)
        return;
    for (int64_t n = dice_range(scene->dice, 0, 3); n > 0; n--)
        bend_one(scene, bent);
    call_run(&call, plan);
}

void fuzz_calls(const unsigned char *data, size_t size) {
    static struct scene scene;
    struct dice dice = dice_of_bytes(data, size);
    const struct described_case *by = draw_case(&dice);
    scene_start(&scene, described_op(by), by, &dice);
    scene.may_be_empty = fuzz_number(data, size) % 8 == 0;
    scene_draw_members(&scene);
    described_open(&scene, 3);
    if (dice_once_in(&dice, 3))
        bend_member(&scene);
    call(&scene);
    described_close(&scene);
}
