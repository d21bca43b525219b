/* What a bench found, a line each.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RESULTS_H
#define KVMILL_BENCH_RESULTS_H

#include <kvmill.h>

#include "../gen/kernel.h"

/* Higher is better: limit_seconds / seconds is held against the bar. */
struct bench_result {
    char what[128];
    char kernel[SYMBOL_SIZE];
    int threads;
    double seconds;      /* median of one call */
    double bytes, flops; /* of one call; 0: not counted */
    const char *limit;   /* what it is compared with; NULL: nothing */
    double limit_seconds;
    double bar; /* least ratio that was asked for; 0: none */
};

enum { MOST_RESULTS = 4096 };

struct bench_results {
    struct bench_result items[MOST_RESULTS]; /* the last is written over when there are more */
    int count;
};

/* A new result, all zero. */
struct bench_result *bench_results_add(struct bench_results *results);

/* What it is held against; bar 0: none was asked for. */
void bench_compare(struct bench_result *result, const char *limit, double seconds, double bar);

double bench_ratio(const struct bench_result *result);

/* "ok", "below", or "" where there is no bar. */
const char *bench_verdict(const struct bench_result *result);

/* The name of the kernel behind `word` in the plan's description; of a list the first, or the last.
 */
void bench_kernel_in_plan(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]);
void bench_last_kernel_in_plan(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]);

#endif
