/* The work that candidates of a kernel are measured on: all run it on the same memory, in turn.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_TUNE_WORK_H
#define KVMILL_BENCH_TUNE_WORK_H

#include "../base/timer.h"
#include "../gen/spec.h"
#include "../tune/sweep.h"
#include "results.h"
#include "rivals.h"

/* A kind of work: what is run, and what the machine can do. */
struct tune_kind {
    const struct scene_op *op; /* whose specs have it */
    enum scene_step step;
    bool in_place;
    const struct kernel_words *kernel; /* that does it: its place in the plan */
    rival_maker *rival;
    int which;     /* of the rivals of a kind */
    bool in_flops; /* counted in operations, not in bytes */
    /* What a spec must have besides; or NULL. */
    bool (*serves)(const struct spec *spec, const struct run_size *size);
};

/* What there may be to do, and what that is called in tuning databases: a row each. */
struct tune_problem {
    const char *words; /* "decode 1 on 4096" */
    const struct tune_kind *kind;
    struct run_size size; /* positions 0: what fills the memory that is walked through */
};

/* All of them; the last has no words. */
extern const struct tune_problem tune_problems[];

/* Whether a spec has such work. */
bool tune_problem_serves(const struct tune_problem *problem, const struct spec *spec);

/* The kernel of the pack that would do it; "" or one of the library where it has none. */
bool tune_problem_kernel(const struct tune_problem *problem, const struct spec *spec,
                         const kvmill_pack *pack, char symbol[SYMBOL_SIZE], struct error *error);

struct tune_work {
    const struct tune_problem *problem;
    struct scene scene;
    struct scene_call call;
    struct rival rival;
    kvmill_pool *pool;
    struct owned_plan preset;
    enum limit_kind limit; /* what bounds its speed */
    double bytes, flops;   /* of one run: moved at least, and those that count */
};

/* By the pack's kernels, the preset.  NULL after an error. */
struct tune_work *tune_work_open(const struct tune_problem *problem, const struct spec *spec,
                                 const kvmill_pack *pack, int threads, struct error *error);
void tune_work_close(struct tune_work *work); /* NULL is allowed */

/* Plan the work by kernels of those packs; close the plan in any case. */
bool tune_work_plan(const struct tune_work *work, const kvmill_plan_options *options,
                    struct owned_plan *plan, struct error *error);

/* Whether a plan's results are those of the portable kernels; with work->pool. */
bool tune_work_check(struct tune_work *work, const struct owned_plan *plan, struct error *error);

/* One more than a race may have candidates: the preset, and what the machine can do. */
enum { MOST_CANDIDATES = MOST_CONTENDERS - 2, MOST_SAMPLES = 512 };

/* What a race found: seconds of single runs, taken in turn. */
struct tune_times {
    int samples; /* of each */
    double preset[MOST_SAMPLES], limit[MOST_SAMPLES];
    double candidate[MOST_CANDIDATES][MOST_SAMPLES];
    double limit_rate; /* bytes or operations a second, median */
};

/* `least` to `most` samples, until the ratios of all candidates to the preset are tight, or until
   the time of timer_now() is `end`.  false: out of memory. */
struct tune_length {
    int least, most;
    double end;
};
bool tune_work_race(struct tune_work *work, const struct owned_plan *plans, int count,
                    const struct tune_length *length, struct tune_times *times);

#endif
