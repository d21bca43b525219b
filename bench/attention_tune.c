/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_tune.h"

#include <stdlib.h>
#include <string.h>

#include "limits.h"

/* ---- Opening ---- */

bool tune_work_open(struct tune_work *work, const kvmill_cache_attention *op,
                    const struct attention_size *size, const kvmill_pack *pack, int threads,
                    struct error *error) {
    const struct attention_setting setting = {
        .pack = pack, .threads = threads, .rotation = ATTENTION_ROTATION};
    *work = (struct tune_work){.size = *size};
    if (!attention_open(&work->scene, op, &setting, NULL, error) ||
        !attention_set_shape(&work->scene, size->batch, size->positions, size->tokens, error))
        return false;
    work->preset = (struct attention_plan){work->scene.plan, work->scene.workspace};
    work->pool = pool_open(threads);
    return work->pool != NULL || out_of_memory(error);
}

void tune_work_close(struct tune_work *work) {
    attention_close(&work->scene);
    pool_close(work->pool);
}

/* ---- What there is to do ---- */

enum limit_kind tune_work_limit(const struct tune_work *work) {
    return work->size.tokens == 1 ? LIMIT_BYTES : LIMIT_FLOPS;
}

double tune_work_bytes(const struct tune_work *work) {
    return attention_read_bytes(&work->scene.geometry, &work->size);
}

double tune_work_flops(const struct tune_work *work) {
    return attention_flops(&work->scene.geometry, &work->size);
}

/* ---- Running by another plan ---- */

/* All calls share the scene's memory, and walk on through it together. */
struct planned {
    struct tune_work *work;
    struct attention_plan plan;
    struct attention_call call;
};

static void use_plan(struct tune_work *work, const struct attention_plan *plan) {
    work->scene.plan = plan->plan;
    work->scene.workspace = plan->workspace;
}

static void run_planned(void *context, int64_t k) {
    struct planned *planned = context;
    (void)k;
    use_plan(planned->work, &planned->plan);
    attention_call_move(&planned->call);
    attention_call_run(&planned->call, NULL);
}

bool tune_work_check(struct tune_work *work, const struct attention_plan *plan,
                     struct error *error) {
    struct attention_call call;
    attention_call_open(&call, &work->scene, &work->size, work->pool);
    use_plan(work, plan);
    bool done = attention_check_run(&call, error);
    use_plan(work, &work->preset);
    return done;
}

/* ---- What the machine can do ---- */

struct machine_limit {
    struct tune_work *work;
    double done; /* bytes or operations of the last run */
};

static void run_read(void *context, int64_t k) {
    struct machine_limit *limit = context;
    int64_t bytes = 32 << 20;
    (void)k;
    const unsigned char *from = attention_next_bytes(&limit->work->scene, &bytes);
    limit_read(&(struct reading){(const char *)from, (size_t)bytes,
                                 kinds_of_reading[READINGS - 1].streams, limit->work->pool});
    limit->done = (double)bytes;
}

static void run_multiply_add(void *context, int64_t k) {
    struct machine_limit *limit = context;
    (void)k;
    limit->done = 2 * limit_multiply_add(peak_of(NULL), limit->work->pool);
}

/* ---- Races ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *samples, int count) {
    double sorted[MOST_SAMPLES];
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    return sorted[count / 2];
}

void tune_work_race(struct tune_work *work, const struct attention_plan *plans, int count,
                    int samples, struct tune_times *times) {
    static struct planned planned[MOST_CONTENDERS];
    struct contender contenders[MOST_CONTENDERS];
    double *where[MOST_CONTENDERS];
    struct machine_limit limit = {.work = work};
    for (int i = 0; i <= count; i++) {
        planned[i].work = work;
        planned[i].plan = i == 0 ? work->preset : plans[i - 1];
        attention_call_open(&planned[i].call, &work->scene, &work->size, work->pool);
        contenders[i] =
            (struct contender){.run = run_planned, .context = &planned[i], .pool = work->pool};
        where[i] = i == 0 ? times->preset : times->candidate[i - 1];
    }
    contenders[count + 1] = (struct contender){
        .run = tune_work_limit(work) == LIMIT_BYTES ? run_read : run_multiply_add,
        .context = &limit,
        .pool = work->pool};
    where[count + 1] = times->limit;
    timer_rounds(contenders, count + 2, samples, where);
    times->limit_rate = limit.done / median_of(times->limit, samples);
    use_plan(work, &work->preset);
}
