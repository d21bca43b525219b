/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/timer.h"

static const double seconds_per_case = 0.5;
enum { QUERIES = 16 };

/* ---- Kernels ---- */

static const struct kvmill_kernel *kernel_of_isa(const kvmill_pack *pack, const char *isa,
                                                 enum kvmill_family family, const void *shape,
                                                 size_t size) {
    for (uint32_t i = 0; i < pack->count; i++)
        if (pack->kernels[i]->family == (uint32_t)family &&
            strcmp(pack->kernels[i]->isa, isa) == 0 &&
            memcmp(pack->kernels[i]->shape, shape, size) == 0)
            return pack->kernels[i];
    return NULL;
}

/* Returns the pack's best kernel that this CPU can run, or NULL. */
static const struct kvmill_kernel *find_kernel(const kvmill_pack *pack, enum kvmill_family family,
                                               const void *shape, size_t size) {
    const struct kvmill_kernel *best = NULL, *kernel;
    const char *isa;
    for (size_t i = 0; (isa = kvmill_isa_name(i)) != NULL; i++)
        if (kvmill_isa_usable(isa) &&
            (kernel = kernel_of_isa(pack, isa, family, shape, size)) != NULL)
            best = kernel;
    return best;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

struct selecting {
    const struct kvmill_kernel *kernel;
    int64_t count;
    float *score; /* [QUERIES, count] */
    int32_t *list, *keys;
};

static void run_select(void *context, int64_t k) {
    const struct selecting *selecting = context;
    int64_t count = selecting->count;
    const struct kvmill_select_pages problem = {selecting->score + k % QUERIES * count, count,
                                                count / 16, selecting->list, selecting->keys};
    selecting->kernel->run(&problem, 0, 1);
}

/* Sets scores with a realistic distribution: sums of many numbers. */
static void fill_scores(struct selecting *selecting) {
    uint64_t state = 88172645463325252;
    for (int64_t i = 0; i < QUERIES * selecting->count; i++) {
        float sum = 0;
        for (int n = 0; n < 8; n++)
            sum += (float)(next_random(&state) % 4096) - 2048;
        selecting->score[i] = sum;
    }
}

static void race_select(struct selecting *selecting, double wanted, const char *limit,
                        struct bench_results *results) {
    struct contender race = {.name = "kvmill", .run = run_select, .context = selecting};
    fill_scores(selecting);
    bench_time(results, &race, 1, seconds_per_case);
    struct bench_result *result = bench_results_add(results);
    snprintf(result->what, sizeof result->what, "select 1 in 16 of %" PRId64 " pages",
             selecting->count);
    snprintf(result->kernel, sizeof result->kernel, "%s", selecting->kernel->symbol);
    result->threads = 1;
    result->seconds = race.median;
    bench_compare(result, limit, wanted, 1);
}

static bool select_of(const kvmill_pack *pack, int64_t count, double wanted, const char *limit,
                      struct bench_results *results, struct error *error) {
    static const struct kvmill_select_shape shape = {KVMILL_F32};
    struct selecting selecting = {find_kernel(pack, KVMILL_SELECT_PAGES, &shape, sizeof shape),
                                  count, NULL, NULL, NULL};
    if (selecting.kernel == NULL)
        return true;
    selecting.score = calloc((size_t)(QUERIES * count), sizeof(float));
    selecting.list = calloc((size_t)count, sizeof(int32_t));
    selecting.keys = calloc((size_t)(count + KVMILL_SELECT_PADDING), sizeof(int32_t));
    bool done = selecting.score != NULL && selecting.list != NULL && selecting.keys != NULL;
    if (done)
        race_select(&selecting, wanted, limit, results);
    free(selecting.score);
    free(selecting.list);
    free(selecting.keys);
    return done || out_of_memory(error);
}

bool bench_select(const kvmill_pack *pack, struct bench_results *results, struct error *error) {
    return select_of(pack, 2048, 3e-6, "3 us", results, error) &&
           select_of(pack, 8192, 10e-6, "10 us", results, error);
}
