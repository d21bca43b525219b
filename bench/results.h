/* The results of a bench, one per line.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RESULTS_H
#define KVMILL_BENCH_RESULTS_H

#include <stdbool.h>

#include <kvmill.h>

#include "../base/timer.h"
#include "../gen/kernel.h"

/* Higher is better: limit_seconds / seconds is compared with the bar. */
struct bench_result {
    char what[128];
    char kernel[SYMBOL_SIZE];
    int threads;
    double seconds;      /* median of one call */
    double bytes, flops; /* of one call; 0: not counted */
    const char *limit;   /* what it is compared with; NULL: nothing */
    double limit_seconds;
    double disturbed; /* the largest share of a contender's samples that were disturbed */
    double spread;    /* of what it is compared with: quartiles of its times, one over the other; 0:
                         not known */
    double rows;      /* of a kv head that a call attends to, one token of a sequence each; 0: no
                         attention */
    double hertz;     /* of the clock meanwhile */
    double one;       /* its bytes by the best reading of one core, seconds; 0: not known */
    double bar;       /* least ratio that was asked for; 0: none */
};

enum { MOST_RESULTS = 4096 };

struct bench_results {
    struct bench_result items[MOST_RESULTS]; /* the last is written over when there are more */
    int count;
    double disturbed; /* of the last race */
};

/* Time contenders as timer_race does; results that are added from here on are of this race. */
void bench_time(struct bench_results *results, struct contender *contenders, int count,
                double seconds);

/* A new result, all zero except for what is known of the race. */
struct bench_result *bench_results_add(struct bench_results *results);

/* What it is compared with; bar 0: none was asked for. */
void bench_compare(struct bench_result *result, const char *limit, double seconds, double bar);

/* The threads' cycles for a token of a kv head; the share of what one core reads; 0: not known. */
double bench_cycles(const struct bench_result *result);
double bench_share_of_core(const struct bench_result *result);

/* Whether nothing else ran beside most samples, and what it is compared with varied by a tenth at
   most, half of the time. */
bool bench_is_trusted(const struct bench_result *result);

/* How many are not. */
int bench_doubted(const struct bench_results *results);

double bench_ratio(const struct bench_result *result);

/* "ok", "below", or "" where there is no bar. */
const char *bench_verdict(const struct bench_result *result);

/* Where a plan's description has the kernel: after these words, the first of a list or the last. */
struct kernel_words {
    const char *words;
    bool last;
};
void bench_kernel_in_plan(const kvmill_plan *plan, const struct kernel_words *words,
                          char kernel[SYMBOL_SIZE]);

/* Where several kernels attend, decoding runs the smallest and a prompt the largest. */
extern const struct kernel_words decode_words, prefill_words, write_words, cells_words, read_words,
    score_words, select_words, summarise_words, store_words, keep_words, gather_words, apply_words;

#endif
