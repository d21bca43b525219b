/* The results of a bench, one per line.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_RESULTS_H
#define KVMILL_BENCH_BENCH_RESULTS_H

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
    const char *limit;   /* what the result is compared with; NULL: nothing */
    double limit_seconds;
    double disturbed; /* the largest share of disturbed samples of a contender */
    double spread;    /* of the limit's times: upper quartile / lower quartile; 0: not known */
    double rows;      /* rows of a kv head that a call attends to, one token per sequence; 0: no
                         attention */
    double hertz;     /* the CPU's clock during the race */
    double one; /* seconds in which one core reads these bytes, by the fastest way; 0: not known */
    double bar; /* least ratio that is required; 0: no bar */
};

enum { MOST_RESULTS = 4096 };

struct bench_results {
    struct bench_result items[MOST_RESULTS]; /* the last is overwritten if there are more */
    int count;
    double disturbed; /* of the last race */
};

/* Times contenders with timer_race; results that are added next belong to this race. */
void bench_time(struct bench_results *results, struct contender *contenders, int count,
                double seconds);

/* Returns a new result: zero, except for what is known of the race. */
struct bench_result *bench_results_add(struct bench_results *results);

/* Sets the limit of a result; bar 0: no bar. */
void bench_compare(struct bench_result *result, const char *limit, double seconds, double bar);

/* The cycles of all threads for a token of a kv head; the share of the speed at which one core
   reads. 0: not known. */
double bench_cycles(const struct bench_result *result);
double bench_share_of_core(const struct bench_result *result);

/* Whether few samples were disturbed by other programs, and the quartiles of the limit's times
   differ by a tenth at most. */
bool bench_is_trusted(const struct bench_result *result);

/* Returns how many results are not trusted. */
int bench_doubted(const struct bench_results *results);

double bench_ratio(const struct bench_result *result);

/* Returns "ok" or "below", or "" if there is no bar. */
const char *bench_verdict(const struct bench_result *result);

/* Where a plan's description names the kernel: after these words, as one of a list.  That is the
   last one, or the first one for at least so many query rows; 0: for any. */
struct kernel_words {
    const char *words;
    bool last;
};
void bench_kernel_in_plan(const kvmill_plan *plan, const struct kernel_words *words, int64_t rows,
                          char kernel[SYMBOL_SIZE]);

/* If several kernels attend, decoding runs the smallest that has room, and a prompt the largest. */
extern const struct kernel_words decode_words, prefill_words, write_words, cells_words, read_words,
    score_words, select_words, summarise_words, store_words, keep_words, gather_words, apply_words;

#endif
