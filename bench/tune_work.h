/* Work that candidates of a kernel are measured with: all run it on the same memory, in turn.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_TUNE_WORK_H
#define KVMILL_BENCH_TUNE_WORK_H

#include "../gen/spec.h"
#include "../tune/sweep.h"
#include "../tune/timer.h"
#include "owned_plan.h"

struct tune_work;

struct tune_work_kind {
    void (*close)(struct tune_work *work);
    /* Plan the work by kernels of those packs. */
    bool (*plan)(struct tune_work *work, const kvmill_plan_options *options,
                 struct owned_plan *plan, struct error *error);
    /* Whether a plan's results are those of the portable kernels. */
    bool (*check)(struct tune_work *work, const struct owned_plan *plan, struct error *error);
    /* Once, on memory that was not touched lately. */
    void (*run)(struct tune_work *work, const struct owned_plan *plan);
    /* What the machine can do, once: bytes or operations that were done. */
    double (*run_limit)(struct tune_work *work);
};

struct tune_work {
    const struct tune_work_kind *kind;
    struct pool *pool;
    struct owned_plan preset;
    enum limit_kind limit; /* what bounds its speed */
    double bytes, flops;   /* of one run: moved at least, and those that count */
};

/* What there may be to do: a size, as the words say it, and how to open it. */
struct tune_problem {
    const char *words; /* "decode 1 on 4096" */
    int64_t batch, tokens, positions;
    /* Whether a spec has such work. */
    bool (*serves)(const struct spec *spec);
    /* The kernel of the pack that would do it; "" or one of the library where it has none. */
    bool (*find_kernel)(const struct spec *spec, const kvmill_pack *pack, char symbol[SYMBOL_SIZE],
                        struct error *error);
    /* By the pack's kernels, the preset.  NULL after an error. */
    struct tune_work *(*open)(const struct tune_problem *problem, const struct spec *spec,
                              const kvmill_pack *pack, int threads, struct error *error);
};

/* All of them; the last has no words. */
extern const struct tune_problem attention_problems[], rows_problems[], windows_problems[],
    flow_problems[], onnx_problems[];

/* The pool and the preset that all kinds have; close the work after a failure. */
bool tune_work_begin(struct tune_work *work, const kvmill_pack *pack, int threads,
                     struct error *error);
void tune_work_close(struct tune_work *work); /* NULL is allowed */

/* For checks: a plan by the portable kernels, and whether another writes the same bytes as it to a
   result that held nothing but ones and zeros in turn. */
extern const kvmill_plan_options tune_portable;

struct tune_comparison {
    void *scene;
    struct pool *pool;
    const DLTensor *result;
    int64_t bytes;
    kvmill_status (*run)(const struct tune_comparison *comparison, const kvmill_plan *plan,
                         kvmill_error *reason);
};
bool tune_runs_alike(const struct tune_comparison *comparison, const kvmill_plan *plan,
                     const kvmill_plan *portable, struct error *error);

/* One more than a race may have candidates: the preset, and what the machine can do. */
enum { MOST_CANDIDATES = MOST_CONTENDERS - 2, MOST_SAMPLES = 512 };

/* What a race found: seconds of single runs, taken in turn. */
struct tune_times {
    int samples; /* of each */
    double preset[MOST_SAMPLES], limit[MOST_SAMPLES];
    double candidate[MOST_CANDIDATES][MOST_SAMPLES];
    double limit_rate; /* bytes or operations a second, median */
};

/* `least` to `most` samples, until the ratios of all candidates to the preset are tight.  false:
   out of memory. */
bool tune_work_race(struct tune_work *work, const struct owned_plan *plans, int count, int least,
                    int most, struct tune_times *times);

#endif
