/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_work.h"

#include <string.h>

#include "../tune/statistics.h"
#include "memory.h"

bool tune_work_begin(struct tune_work *work, const kvmill_pack *pack, int threads,
                     struct error *error) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = threads};
    work->pool = pool_open(threads);
    return (work->pool != NULL || out_of_memory(error)) &&
           work->kind->plan(work, &options, &work->preset, error);
}

void tune_work_close(struct tune_work *work) {
    if (work == NULL)
        return;
    owned_plan_close(&work->preset);
    pool_close(work->pool);
    work->kind->close(work);
}

/* ---- Checks ---- */

const kvmill_plan_options tune_portable = {.struct_size = sizeof tune_portable, .portable = 1};

static bool run_anew(const struct tune_comparison *it, const kvmill_plan *plan,
                     struct error *error) {
    kvmill_error reason;
    memset(it->result->data, 0x55, (size_t)it->bytes);
    return it->run(it, plan, &reason) == KVMILL_OK || fail(error, EXIT_BUG, "%s", reason.message);
}

bool tune_runs_alike(const struct tune_comparison *it, const kvmill_plan *plan,
                     const kvmill_plan *portable, struct error *error) {
    void *want = bench_memory_get(it->bytes);
    bool done = (want != NULL || out_of_memory(error)) && run_anew(it, portable, error) &&
                memcpy(want, it->result->data, (size_t)it->bytes) && run_anew(it, plan, error) &&
                (memcmp(want, it->result->data, (size_t)it->bytes) == 0 ||
                 fail(error, EXIT_BUG, "its result is not that of the portable kernel"));
    bench_memory_release(want, it->bytes);
    return done;
}

/* ---- Races ---- */

struct planned {
    struct tune_work *work;
    const struct owned_plan *plan;
};

static void run_planned(void *context, int64_t k) {
    struct planned *planned = context;
    (void)k;
    planned->work->kind->run(planned->work, planned->plan);
}

struct bound {
    struct tune_work *work;
    double done; /* by the last run */
};

static void run_bound(void *context, int64_t k) {
    struct bound *bound = context;
    (void)k;
    bound->done = bound->work->kind->run_limit(bound->work);
}

/* Times of a race under way. */
struct standings {
    const struct tune_times *times;
    int count;
    bool no_memory;
};

static bool all_are_tight(void *context, int rounds) {
    struct standings *standings = context;
    const struct tune_times *times = standings->times;
    for (int i = 0; i < standings->count; i++) {
        struct summary gain;
        standings->no_memory |=
            !summarise_ratio(times->preset, times->candidate[i], rounds, 1, &gain);
        if (!standings->no_memory && !summary_is_tight(&gain))
            return false;
    }
    return true;
}

bool tune_work_race(struct tune_work *work, const struct owned_plan *plans, int count, int least,
                    int most, struct tune_times *times) {
    struct planned planned[MOST_CONTENDERS];
    struct contender contenders[MOST_CONTENDERS];
    double *where[MOST_CONTENDERS];
    struct bound bound = {.work = work};
    struct summary limit;
    for (int i = 0; i <= count; i++) {
        planned[i] = (struct planned){work, i == 0 ? &work->preset : &plans[i - 1]};
        contenders[i] =
            (struct contender){.run = run_planned, .context = &planned[i], .pool = work->pool};
        where[i] = i == 0 ? times->preset : times->candidate[i - 1];
    }
    contenders[count + 1] =
        (struct contender){.run = run_bound, .context = &bound, .pool = work->pool};
    where[count + 1] = times->limit;
    struct standings standings = {.times = times, .count = count};
    const struct timer_rounds rounds = {least, most, all_are_tight, &standings};
    times->samples = timer_take_rounds(contenders, count + 2, &rounds, where);
    bool done = !standings.no_memory && summarise(times->limit, times->samples, 1, &limit);
    times->limit_rate = done ? bound.done / limit.median : 0;
    return done;
}
