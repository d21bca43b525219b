/* The work that candidates of a kernel are measured on: all run it on the same memory, in turn.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_TUNE_WORK_H
#define KVMILL_BENCH_TUNE_WORK_H

#include "../base/timer.h"
#include "../spec/spec.h"
#include "../tune/sweep.h"
#include "bench_results.h"
#include "rivals.h"

/* A kind of work: what runs, and its limit. */
struct tune_kind {
    const struct scene_op *op; /* the op whose specs have this work */
    enum scene_step step;
    bool in_place;
    const struct kernel_words *kernel; /* the kernel's place in the plan */
    rival_maker *rival;
    int which;     /* index of the rival */
    bool in_flops; /* work is counted in operations, not in bytes */
    /* Whether the spec is suitable in other ways; or NULL. */
    bool (*serves)(const struct spec *spec, const struct run_size *size);
};

/* A problem and its name in tuning databases; one row each. */
struct tune_problem {
    const char *words; /* "decode 1 on 4096" */
    const struct tune_kind *kind;
    struct run_size size; /* positions 0: as many as fill the memory that is rotated through */
};

/* All problems; the last has no words. */
extern const struct tune_problem tune_problems[];

/* Whether a spec has this work. */
bool tune_problem_serves(const struct tune_problem *problem, const struct spec *spec);

/* Sets the symbol of the pack's kernel for the work: "" or a portable kernel if the pack has
   none. */
bool tune_problem_kernel(const struct tune_problem *problem, const struct spec *spec,
                         const kvmill_pack *pack, char symbol[SYMBOL_SIZE], struct error *error);

struct tune_work {
    const struct tune_problem *problem;
    struct scene scene;
    struct scene_call call;
    struct rival rival;
    kvmill_pool *pool;
    struct owned_plan preset;
    enum limit_kind limit; /* what bounds the speed */
    double bytes, flops;   /* of one run: least bytes moved, and counted operations */
};

/* Plans the work with the pack's kernels, as the preset.  Returns NULL after an error. */
struct tune_work *tune_work_open(const struct tune_problem *problem, const struct spec *spec,
                                 const kvmill_pack *pack, int threads, struct error *error);
void tune_work_close(struct tune_work *work); /* NULL is allowed */

/* Plans the work with the kernels of `options`.  Close the plan also after a failure. */
bool tune_work_plan(const struct tune_work *work, const kvmill_plan_options *options,
                    struct owned_plan *plan, struct error *error);

/* Whether a plan's results, with work->pool, are those of the portable kernels. */
bool tune_work_check(struct tune_work *work, const struct owned_plan *plan, struct error *error);

/* A race has two more contenders: the preset and the limit. */
enum { MOST_CANDIDATES = MOST_CONTENDERS - 2, MOST_SAMPLES = 512 };

/* The times of a race: seconds of single runs, in turns. */
struct tune_times {
    int samples; /* of each */
    double preset[MOST_SAMPLES], limit[MOST_SAMPLES];
    double candidate[MOST_CANDIDATES][MOST_SAMPLES];
    double limit_rate; /* bytes or operations a second, median */
};

/* Takes `least` to `most` samples, until all ratios of candidates to the preset are tight,
   timer_now() reaches `end`, or a signal is noted.  tune_work_race returns false if out of memory.
 */
struct tune_length {
    int least, most;
    double end;
};
bool tune_work_race(struct tune_work *work, const struct owned_plan *plans, int count,
                    const struct tune_length *length, struct tune_times *times);

#endif
