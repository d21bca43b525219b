/* The results of a bench, one per line.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RESULTS_H
#define KVMILL_BENCH_RESULTS_H

#include <stdbool.h>

#include <kvmill.h>

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
    double spread; /* of what it is compared with: quartiles of its times, one over the other; 0:
                      not known */
    double rows;   /* of a kv head that a call attends to, one token of a sequence each; 0: no
                      attention */
    double hertz;  /* of the clock meanwhile */
    double one;    /* its bytes by the best reading of one core, seconds; 0: not known */
    double bar;    /* least ratio that was asked for; 0: none */
};

enum { MOST_RESULTS = 4096 };

struct bench_results {
    struct bench_result items[MOST_RESULTS]; /* the last is written over when there are more */
    int count;
};

/* A new result, all zero. */
struct bench_result *bench_results_add(struct bench_results *results);

/* What it is compared with; bar 0: none was asked for. */
void bench_compare(struct bench_result *result, const char *limit, double seconds, double bar);

/* The threads' cycles for a token of a kv head; the share of what one core reads; 0: not known. */
double bench_cycles(const struct bench_result *result);
double bench_share_of_core(const struct bench_result *result);

/* How many of the limits varied by more than a tenth, half of the time, and how many there were. */
int bench_unsteady(const struct bench_results *results, int *of);

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
