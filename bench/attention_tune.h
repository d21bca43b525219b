/* Candidates of one kernel, against each other on the same work: cache attention whose other
   kernels stay as they are.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_TUNE_H
#define KVMILL_BENCH_ATTENTION_TUNE_H

#include "../tune/sweep.h"
#include "../tune/timer.h"
#include "attention_scene.h"

struct tune_work {
    struct attention_scene scene;
    struct attention_size size;
    struct pool *pool;
    struct attention_plan preset; /* what the scene was opened with */
};

/* One more than a race may have candidates: the preset, and what the machine can do. */
enum { MOST_CANDIDATES = MOST_CONTENDERS - 2, MOST_SAMPLES = 512 };

/* `packs` have the kernels that nothing is tuned of, and the preset.  Close it in any case. */
bool tune_work_open(struct tune_work *work, const kvmill_cache_attention *op,
                    const struct attention_size *size, const kvmill_pack *pack, int threads,
                    struct error *error);
void tune_work_close(struct tune_work *work);

/* Bytes that a run has to read where reading is the limit (one new token), else operations. */
enum limit_kind tune_work_limit(const struct tune_work *work);
double tune_work_bytes(const struct tune_work *work);
double tune_work_flops(const struct tune_work *work);

/* Whether a plan's results are those of the portable kernels.  In a process of its own: a wrong
   kernel may do anything. */
bool tune_work_check(struct tune_work *work, const struct attention_plan *plan,
                     struct error *error);

/* What a race found: seconds of single runs, taken in turn. */
struct tune_times {
    double preset[MOST_SAMPLES], limit[MOST_SAMPLES];
    double candidate[MOST_CANDIDATES][MOST_SAMPLES];
    double limit_rate; /* bytes or operations a second, median */
};

void tune_work_race(struct tune_work *work, const struct attention_plan *plans, int count,
                    int samples, struct tune_times *times);

#endif
