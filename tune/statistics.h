/* Statistics of samples from a noisy machine: medians with confidence intervals, and the choice of
   a winner among several candidates.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_STATISTICS_H
#define KVMILL_TUNE_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

/* Smaller differences are not worth a choice. */
#define TIE_BAND 0.02

/* The interval is between two order statistics, which assumes nothing about the distribution of
   samples, except that they are independent.  Of n samples, the median is between the k-th least
   and the k-th greatest with the probability that n fair coins show k to n - k heads (H. A. David
   and H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1).  k is the greatest that gives 95 %.
   Fewer than 6 samples cannot give that; `coverage` tells how much their range gives.

   The best of many candidates, compared with one default, may just be the luckiest.  So `floor` and
   `ceiling` are an interval with so high a coverage that all of the compared intervals together
   have 95 % (Bonferroni).  They are 0 and infinity if there are too few samples: it takes 6 for one
   candidate, 12 for 100, 16 for 1000. */
struct summary {
    int count;
    double minimum, median;
    double low, high; /* the interval of the median */
    double coverage;  /* probability that the median is in it, 0 to 1 */
    double floor, ceiling;
};

/* Summarises one or more samples, in any order, as one of `compared` summaries.  Returns false if
   out of memory. */
bool summarise(const double *samples, int count, int compared, struct summary *summary);

/* Summarises the ratios baseline[i] / samples[i], which are above 1 where samples are faster.  A
   disturbance in a round slows down both, and so does not change their ratio. */
bool summarise_ratio(const double *baseline, const double *samples, int count, int compared,
                     struct summary *summary);

/* Returns the summary for samples that were not taken in turn: the quotient of the medians, and an
   interval from the quotients of the intervals' ends. */
struct summary summary_quotient(const struct summary *baseline, const struct summary *samples);

/* Whether more samples would hardly change the result: the interval is within half a TIE_BAND
   around its median. */
bool summary_is_tight(const struct summary *summary);

/* The least samples before a measurement may end because it is tight. */
enum { EARLIEST_END = 9 };

/* ---- The winner ---- */

struct contender_result {
    const char *name;    /* a candidate's text */
    int64_t code_bytes;  /* less is preferred among ties */
    struct summary gain; /* speed relative to the default */
};

enum { NO_CONTENDER = -1 };

struct choice {
    int winner;  /* NO_CONTENDER: the default stays */
    int fastest; /* of those measurably faster than the default, or NO_CONTENDER */
    int ties;    /* how many of them tie with the fastest, itself included */
    double band; /* ties are at most so much slower: 0.02 is 2 % */
};

/* Whether a gain is measurably above 1: by more than TIE_BAND, and with a floor above 1. */
bool gain_is_faster(const struct summary *gain);

/* Whether a gain is measurably above 1, and ties with the gain of the fastest. */
bool gains_tie(const struct summary *fastest, const struct summary *gain);

/* Chooses a winner among the contenders that are measurably faster than the default: by more than
   TIE_BAND, and with a floor above 1.  The fastest of them ties with all that are within TIE_BAND
   of it, or within the half-width of its own interval if that is more.  Among ties, less code wins,
   then the name that sorts first: the same results give the same winner in any order. */
struct choice choose(const struct contender_result *contenders, int count);

#endif
