/* Threads that run the parts of one call, and one plan in many threads: also the program that
   helgrind and the thread sanitizer watch.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "crew.h"
#include "oracle/tensor_scatter.h"
#include "packs.h"

enum { MOST_THREADS = 8 };

static struct dice dice;

static const struct problem {
    DLDataType dtype;
    const char *mode;
    int64_t cache[4], update[4], starts[4];
    bool in_place;
} problems[] = {
    {{kDLFloat, 16, 1}, "linear", {2, 8, 300, 128}, {2, 8, 1, 128}, {0, 299}, false},
    {{kDLFloat, 16, 1}, "circular", {3, 8, 257, 128}, {3, 8, 200, 128}, {0, 100, 250}, false},
    {{kDLFloat, 16, 1}, "circular", {3, 8, 257, 128}, {3, 8, 200, 128}, {0, 100, 250}, true},
    {{kDLInt, 4, 1}, "circular", {4, 3, 65, 127}, {4, 3, 40, 127}, {64, 1, 30, 0}, true},
    {{kDLInt, 4, 1}, "circular", {4, 3, 65, 127}, {4, 3, 40, 127}, {64, 1, 30, 0}, false},
    {{kDLInt, 4, 1}, "linear", {4, 8, 9, 255}, {4, 8, 1, 255}, {0, 8, 3, 4}, true},
};

/* ---- A problem, and memory for those who solve it ---- */

static struct fenced_tensor past, update, starts, present, expected;

static void open_problem(const struct problem *problem) {
    tensor_open(&past, problem->dtype, 4, problem->cache, NULL, &dice);
    tensor_open(&update, problem->dtype, 4, problem->update, NULL, &dice);
    tensor_open(&starts, i64, 1, problem->cache, NULL, &dice);
    memcpy(starts.fence.data, problem->starts, starts.fence.size);
    tensor_open(&present, problem->dtype, 4, problem->cache, NULL, &dice);
    tensor_open_copy(&expected, problem->in_place ? &past : &present, &dice);
    oracle_tensor_scatter(2, strcmp(problem->mode, "circular") == 0,
                          problem->in_place ? &expected.dl : &past.dl, &update.dl, &starts.dl,
                          &expected.dl);
}

static void close_problem(void) {
    struct fenced_tensor *const tensors[] = {&past, &update, &starts, &present, &expected};
    for (size_t i = 0; i < COUNT(tensors); i++)
        tensor_close(tensors[i]);
}

struct memory {
    struct fenced_tensor result;
    const DLTensor *tensors[KVMILL_TENSOR_SCATTER_TENSORS];
};

static void memory_open(struct memory *memory, const struct problem *problem) {
    tensor_open_copy(&memory->result, problem->in_place ? &past : &present, &dice);
    const DLTensor *tensors[] = {problem->in_place ? &memory->result.dl : &past.dl, &update.dl,
                                 &starts.dl, &memory->result.dl};
    memcpy(memory->tensors, tensors, sizeof tensors);
}

static bool memory_close(struct memory *memory) {
    int64_t where;
    bool good = tensor_is_equal(&memory->result, &expected, &where) &&
                fence_is_intact(&memory->result.fence, &where);
    tensor_close(&memory->result);
    return good;
}

static kvmill_plan *plan_of(const struct problem *problem, bool portable) {
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS, .portable = portable};
    DLTensor past = {.ndim = 4, .dtype = problem->dtype, .shape = (int64_t *)problem->cache};
    DLTensor update = {.ndim = 4, .dtype = problem->dtype, .shape = (int64_t *)problem->update};
    DLTensor starts = {.ndim = 1, .dtype = i64, .shape = (int64_t *)problem->cache};
    kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                .axis = 2,
                                .mode = problem->mode,
                                .past_cache = &past,
                                .update = &update,
                                .write_indices = &starts};
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_tensor_scatter(&op, &options, &plan, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    return plan;
}

/* ---- Tests ---- */

static void on_crew(void *threads, int64_t parts, void (*part)(void *context, int64_t index),
                    void *context) {
    crew_share(*(int *)threads, parts, part, context);
}

static void test_counts(const struct problem *problem, int number, bool portable) {
    kvmill_plan *plan = plan_of(problem, portable);
    bool right = true;
    for (int threads = 1; threads <= MOST_THREADS;
         threads += threads < 3 || !is_slow_run() ? 1 : 5) {
        struct memory memory;
        memory_open(&memory, problem);
        kvmill_status status =
            kvmill_run_parallel(plan, memory.tensors, NULL, on_crew, &threads, NULL);
        right = memory_close(&memory) && status == KVMILL_OK && right;
    }
    ok(right, "problem %d, %s: the same bits on 1 to %d threads", number,
       portable ? "portable" : "generated", MOST_THREADS);
    kvmill_plan_destroy(plan);
}

struct user {
    const kvmill_plan *plan;
    struct memory memory;
    bool good;
};

/* Again and again: the same rows, so the same bytes. */
static void use_plan(void *context, int64_t index) {
    struct user *user = (struct user *)context + index;
    for (int i = 0; i < (is_slow_run() ? 2 : 20); i++)
        user->good =
            kvmill_run(user->plan, user->memory.tensors, NULL, NULL) == KVMILL_OK && user->good;
}

static void test_sharing(const struct problem *problem, int number) {
    kvmill_plan *plan = plan_of(problem, false);
    struct user users[MOST_THREADS];
    bool right = true;
    for (int t = 0; t < MOST_THREADS; t++) {
        users[t] = (struct user){.plan = plan, .good = true};
        memory_open(&users[t].memory, problem);
    }
    crew_share(MOST_THREADS, MOST_THREADS, use_plan, users);
    for (int t = 0; t < MOST_THREADS; t++)
        right = memory_close(&users[t].memory) && users[t].good && right;
    ok(right, "problem %d: one plan in %d threads at a time", number, MOST_THREADS);
    kvmill_plan_destroy(plan);
}

int main(void) {
    dice = dice_for(dice_seed(), "threads");
    fence_explain_traps("threads");
    for (int i = 0; i < (int)COUNT(problems); i++) {
        open_problem(&problems[i]);
        test_counts(&problems[i], i, false);
        test_counts(&problems[i], i, true);
        test_sharing(&problems[i], i);
        close_problem();
    }
    return done_testing();
}
