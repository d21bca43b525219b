/* Threads that run the parts of one call, and one plan in many threads: also the program that
   helgrind and the thread sanitizer watch.

   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <kvmill.h>

#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { MOST_THREADS = 8, MOST_RANK = 4 };

/* ---- A parallel loop of this test's own: part i goes to thread i % threads ---- */

struct loop {
    int64_t first, parts, step;
    void (*part)(void *context, int64_t index);
    void *context;
};

static void *run_share(void *argument) {
    const struct loop *loop = argument;
    for (int64_t i = loop->first; i < loop->parts; i += loop->step)
        loop->part(loop->context, i);
    return NULL;
}

static void parallel_for(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                         void *context) {
    int threads = *(int *)data;
    struct loop loops[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    for (int t = 0; t < threads; t++) {
        loops[t] = (struct loop){t, parts, threads, part, context};
        if (pthread_create(&ids[t], NULL, run_share, &loops[t]) != 0)
            bail_out("cannot create a thread");
    }
    for (int t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
}

/* ---- A problem with memory of its own ---- */

struct problem {
    DLDataType dtype;
    const char *mode;
    int64_t cache[MOST_RANK], update[MOST_RANK], starts[MOST_RANK];
    bool in_place;
};

static const struct problem problems[] = {
    {{kDLFloat, 16, 1}, "linear", {2, 8, 300, 128}, {2, 8, 1, 128}, {0, 299}, false},
    {{kDLFloat, 16, 1}, "circular", {3, 8, 257, 128}, {3, 8, 200, 128}, {0, 100, 250}, false},
    {{kDLFloat, 16, 1}, "circular", {3, 8, 257, 128}, {3, 8, 200, 128}, {0, 100, 250}, true},
    {{kDLInt, 4, 1}, "circular", {4, 3, 65, 127}, {4, 3, 40, 127}, {64, 1, 30, 0}, true},
    {{kDLInt, 4, 1}, "circular", {4, 3, 65, 127}, {4, 3, 40, 127}, {64, 1, 30, 0}, false},
    {{kDLInt, 4, 1}, "linear", {4, 8, 9, 255}, {4, 8, 1, 255}, {0, 8, 3, 4}, true},
};

static size_t bytes_of(DLDataType dtype, const int64_t *shape) {
    return ((size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * dtype.bits + 7) / 8;
}

static unsigned char *filled(size_t bytes, unsigned seed) {
    unsigned char *data = malloc(bytes);
    for (size_t i = 0; data && i < bytes; i++)
        data[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
    return data;
}

static DLTensor tensor_of(const struct problem *problem, void *data, const int64_t *shape) {
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = MOST_RANK,
                      .dtype = problem->dtype,
                      .shape = (int64_t *)shape};
}

/* Run on `threads` threads (0: kvmill_run); returns the present cache, to be freed. */
static unsigned char *result_of(const struct problem *problem, const kvmill_plan *plan,
                                int threads) {
    size_t cache_bytes = bytes_of(problem->dtype, problem->cache);
    unsigned char *past = filled(cache_bytes, 1), *present = filled(cache_bytes, 2);
    unsigned char *update = filled(bytes_of(problem->dtype, problem->update), 3);
    DLTensor past_tensor = tensor_of(problem, past, problem->cache);
    DLTensor update_tensor = tensor_of(problem, update, problem->update);
    DLTensor present_tensor =
        tensor_of(problem, problem->in_place ? past : present, problem->cache);
    DLTensor starts = {.data = (void *)problem->starts,
                       .device = {kDLCPU, 0},
                       .ndim = 1,
                       .dtype = {kDLInt, 64, 1},
                       .shape = (int64_t *)problem->cache};
    const DLTensor *tensors[] = {&past_tensor, &update_tensor, &starts, &present_tensor};
    kvmill_status status =
        threads == 0 ? kvmill_run(plan, tensors, NULL, NULL)
                     : kvmill_run_parallel(plan, tensors, NULL, parallel_for, &threads, NULL);
    if (status != KVMILL_OK)
        bail_out("%s", kvmill_status_name(status));
    free(update);
    free(problem->in_place ? present : past);
    return problem->in_place ? past : present;
}

static kvmill_plan *plan_of(const struct problem *problem, bool portable) {
    const kvmill_pack *packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 2, .portable = portable};
    DLTensor past = tensor_of(problem, NULL, problem->cache);
    DLTensor update = tensor_of(problem, NULL, problem->update);
    DLTensor starts = {.ndim = 1, .dtype = {kDLInt, 64, 1}, .shape = (int64_t *)problem->cache};
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

static void test_counts(const struct problem *problem, int number, bool portable) {
    static const int counts[] = {1, 2, 3, 8};
    kvmill_plan *plan = plan_of(problem, portable);
    size_t bytes = bytes_of(problem->dtype, problem->cache);
    unsigned char *expected = result_of(problem, plan, 0);
    bool equal = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        unsigned char *got = result_of(problem, plan, counts[i]);
        equal = equal && memcmp(got, expected, bytes) == 0;
        free(got);
    }
    ok(equal, "problem %d, %s: 1, 2, 3 and 8 threads give the same bits", number,
       portable ? "portable" : "generated");
    free(expected);
    kvmill_plan_destroy(plan);
}

struct user {
    const kvmill_plan *plan;
    const struct problem *problem;
    unsigned char *result;
};

static void *use_plan(void *argument) {
    struct user *user = argument;
    user->result = result_of(user->problem, user->plan, 0);
    return NULL;
}

static void test_sharing(const struct problem *problem, int number) {
    kvmill_plan *plan = plan_of(problem, false);
    struct user users[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    bool equal = true;
    for (int t = 0; t < MOST_THREADS; t++) {
        users[t] = (struct user){plan, problem, NULL};
        if (pthread_create(&ids[t], NULL, use_plan, &users[t]) != 0)
            bail_out("cannot create a thread");
    }
    for (int t = 0; t < MOST_THREADS; t++) {
        pthread_join(ids[t], NULL);
        equal = equal && memcmp(users[t].result, users[0].result,
                                bytes_of(problem->dtype, problem->cache)) == 0;
    }
    for (int t = 0; t < MOST_THREADS; t++)
        free(users[t].result);
    ok(equal, "problem %d: one plan in %d threads at a time", number, MOST_THREADS);
    kvmill_plan_destroy(plan);
}

int main(void) {
    for (int i = 0; i < (int)(sizeof problems / sizeof *problems); i++) {
        test_counts(&problems[i], i, false);
        test_counts(&problems[i], i, true);
        test_sharing(&problems[i], i);
    }
    return done_testing();
}
