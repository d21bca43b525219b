/* Gathers of long windows, which kernels copy from several places in turn, bring into the caches
   ahead, store around them, or cut into pieces: against both oracles, serially and in shuffled
   parts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fence.h"
#include "oracle/windows.h"
#include "tap.h"
#include "windows_pack.h"

/* operand [batch, rows, columns], start_indices [batch, count, 2], windows of 1 x elements. */
struct problem {
    const char *name;
    DLDataType index;
    int64_t element_bytes, elements, batch, rows, count;
};

static const struct problem problems[] = {
    {"520 bytes", {kDLInt, 64, 1}, 2, 260, 1, 30, 40},
    {"1024 bytes in a batch", {kDLInt, 32, 1}, 4, 256, 3, 20, 25},
    {"4096 bytes", {kDLInt, 8, 1}, 16, 256, 1, 100, 9},
    {"8192 bytes", {kDLUInt, 64, 1}, 8, 1024, 2, 20, 11},
    {"8240 bytes", {kDLUInt, 64, 1}, 2, 4120, 1, 20, 11},
    {"16384 bytes", {kDLInt, 16, 1}, 8, 2048, 1, 9, 17},
    {"40000 bytes", {kDLUInt, 8, 1}, 4, 10000, 2, 5, 6},
    {"65536 bytes", {kDLInt, 64, 1}, 16, 4096, 1, 5, 6},
    {"4 MiB together", {kDLInt, 32, 1}, 16, 512, 1, 40, 515},
    {"pieces", {kDLInt, 32, 1}, 1, 200001, 2, 3, 4},
    {"4 MiB in pieces", {kDLUInt, 64, 1}, 16, 6250, 1, 3, 43},
};

struct scene {
    struct fence operand, indices, result, expected;
    int64_t dims[3], index_dims[3], result_dims[3];
    DLTensor tensors[KVMILL_GATHER_TENSORS];
    kvmill_gather op;
};

static void open_tensor(struct dice *dice, struct fence *fence, DLTensor *tensor, DLDataType type,
                        int64_t *dims) {
    int64_t bytes = (type.bits + 7) / 8 * dims[0] * dims[1] * dims[2];
    int misalignment = dice_once_in(dice, 3) ? (int)dice_range(dice, FENCE_FLUSH, 63) : 0;
    fence_open(fence, (size_t)bytes, misalignment, dice_once_in(dice, 2), dice);
    *tensor = (DLTensor){
        .data = fence->data, .device = {kDLCPU, 0}, .ndim = 3, .dtype = type, .shape = dims};
}

/* Mostly inside; else anywhere, also where only 64 bits reach. */
static void fill_indices(struct dice *dice, const struct problem *problem, struct scene *scene) {
    size_t bytes = problem->index.bits / 8u;
    for (size_t i = 0; i < scene->indices.size / bytes; i++) {
        int64_t dim = i % 2 ? scene->dims[2] - problem->elements : scene->dims[1];
        uint64_t index = (uint64_t)dice_range(dice, 0, dim);
        if (dice_once_in(dice, 6))
            index = dice_bits(dice);
        memcpy(scene->indices.data + i * bytes, &index, bytes);
    }
}

static void set_op(struct scene *scene, const struct problem *problem, const char *mode) {
    static const int64_t offset_dims[] = {2}, collapsed[] = {1}, batching[] = {0}, map[] = {1, 2};
    static int64_t slices[] = {1, 1, 0};
    slices[2] = problem->elements;
    scene->op = (kvmill_gather){
        .struct_size = sizeof scene->op,
        .offset_dims = {offset_dims, 1},
        .collapsed_slice_dims = {collapsed, 1},
        .operand_batching_dims = {batching, 1},
        .start_indices_batching_dims = {batching, 1},
        .start_index_map = {map, 2},
        .slice_sizes = {slices, 3},
        .index_vector_dim = 2,
        .mode = mode,
        .fill_value = "what is outside",
        .operand = &scene->tensors[KVMILL_GATHER_OPERAND],
        .start_indices = &scene->tensors[KVMILL_GATHER_START_INDICES],
        .result = &scene->tensors[KVMILL_GATHER_RESULT],
    };
}

static void open_scene(struct dice *dice, const struct problem *problem, const char *mode,
                       struct scene *scene) {
    const DLDataType type = {kDLUInt, (uint8_t)(problem->element_bytes * 8), 1};
    const int64_t dims[] = {problem->batch, problem->rows, problem->elements + 3};
    memcpy(scene->dims, dims, sizeof dims);
    memcpy(scene->index_dims, (int64_t[]){problem->batch, problem->count, 2}, sizeof dims);
    memcpy(scene->result_dims, (int64_t[]){problem->batch, problem->count, problem->elements},
           sizeof dims);
    const DLDataType element =
        problem->element_bytes == 16 ? (DLDataType){kDLComplex, 128, 1} : type;
    open_tensor(dice, &scene->operand, &scene->tensors[KVMILL_GATHER_OPERAND], element,
                scene->dims);
    open_tensor(dice, &scene->indices, &scene->tensors[KVMILL_GATHER_START_INDICES], problem->index,
                scene->index_dims);
    open_tensor(dice, &scene->result, &scene->tensors[KVMILL_GATHER_RESULT], element,
                scene->result_dims);
    fence_open(&scene->expected, scene->result.size, 0, FENCE_ABOVE, dice);
    for (size_t i = 0; i < scene->operand.size; i++)
        scene->operand.data[i] = (unsigned char)dice_bits(dice);
    fill_indices(dice, problem, scene);
    set_op(scene, problem, mode);
}

static void close_scene(struct scene *scene) {
    fence_close(&scene->operand);
    fence_close(&scene->indices);
    fence_close(&scene->result);
    fence_close(&scene->expected);
}

static void run_shuffled(struct dice *dice, const kvmill_plan *plan,
                         const DLTensor *const *tensors) {
    kvmill_call call;
    if (kvmill_begin(&call, plan, tensors, NULL, NULL) != KVMILL_OK)
        return;
    crew_run_phase(&call, 1, dice);
}

static bool is_as_expected(const struct scene *scene) {
    int64_t where;
    return memcmp(scene->result.data, scene->expected.data, scene->result.size) == 0 &&
           fence_is_intact(&scene->result, &where);
}

static bool runs_right(struct dice *dice, struct scene *scene, const kvmill_plan *plan) {
    const DLTensor *tensors[] = {&scene->tensors[0], &scene->tensors[1], &scene->tensors[2]};
    bool right = true;
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        oracle_gather((enum oracle_form)form, &scene->op, scene->operand.data, scene->indices.data,
                      scene->expected.data);
        memset(scene->result.data, 0x55, scene->result.size);
        if (form == ORACLE_DEFINITION)
            right = kvmill_run(plan, tensors, NULL, NULL) == KVMILL_OK;
        else
            run_shuffled(dice, plan, tensors);
        right = right && is_as_expected(scene);
    }
    return right;
}

static void test(const struct problem *problem, const char *mode, uint64_t seed) {
    struct scene scene;
    struct dice dice = dice_for(seed, problem->name);
    kvmill_plan *plan = NULL;
    kvmill_error error;
    open_scene(&dice, problem, mode, &scene);
    windows_tell_gather(&scene.op);
    bool right = kvmill_plan_gather(&scene.op, windows_options(), &plan, &error) == KVMILL_OK;
    if (!right)
        diag("%s", error.message);
    windows_count(plan);
    fence_explain_traps(problem->name);
    ok(right && runs_right(&dice, &scene, plan), "%s, %s", problem->name, mode);
    kvmill_plan_destroy(plan);
    close_scene(&scene);
}

int main(void) {
    const int count = sizeof problems / sizeof *problems;
    uint64_t seed = dice_seed();
    for (int i = 0; i < count; i++) {
        if (!is_slowest_run() || i % 2 == 0)
            test(&problems[i], "clip", seed);
        if (!is_slowest_run() || i % 2 != 0)
            test(&problems[i], "fill", seed);
    }
    if (windows_options() != NULL)
        ok(windows_counted() == 2 * count, "kernels were made for all of them");
    return done_testing();
}
