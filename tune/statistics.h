/* Statistics of samples from a noisy machine: medians with confidence intervals, and which of
   several candidates wins.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_STATISTICS_H
#define KVMILL_TUNE_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

/* Differences of less than this are not worth a choice. */
#define TIE_BAND 0.02

/* The interval is between two order statistics, so that nothing is assumed of how samples are
   distributed but that they are independent: of n samples, the k-th least and the k-th greatest
   have the median between them with the probability that of n fair coins k to n - k show heads
   (H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1).  k is the greatest that
   gives 95 %; fewer than 6 samples cannot, and `coverage` tells how much their range gives.

   Whoever compares many candidates with one default and takes the best finds the luckiest.  So
   `floor` and `ceiling` are the interval whose coverage is so high that all of the compared ones
   together have 95 % (Bonferroni); 0 and infinity where there are too few samples for that: it
   takes 6 for one, 12 for 100, 16 for 1000. */
struct summary {
    int count;
    double minimum, median;
    double low, high; /* the interval of the median */
    double coverage;  /* probability that the median is in it, 0 to 1 */
    double floor, ceiling;
};

/* The summary of one or more samples, in any order, one of `compared` such summaries.  false: out
 * of memory. */
bool summarise(const double *samples, int count, int compared, struct summary *summary);

/* The summary of the ratios baseline[i] / samples[i], 1 and above where samples are faster: what
   slows down one round slows down both and is gone from their ratio. */
bool summarise_ratio(const double *baseline, const double *samples, int count, int compared,
                     struct summary *summary);

/* The same of samples that were not taken in turn: the quotient of the medians, between those of
   the ends of their intervals. */
struct summary summary_quotient(const struct summary *baseline, const struct summary *samples);

/* Whether more samples would hardly tell more: the interval is within half a TIE_BAND around its
   median. */
bool summary_is_tight(const struct summary *summary);

/* A measurement is not ended for that with fewer samples. */
enum { EARLIEST_END = 9 };

/* ---- The winner ---- */

struct contender_result {
    const char *name;    /* a candidate's text */
    int64_t code_bytes;  /* less is preferred among ties */
    struct summary gain; /* speed over that of the default */
};

enum { NO_CONTENDER = -1 };

struct choice {
    int winner;  /* NO_CONTENDER: the default stays */
    int fastest; /* of those that are measurably faster than the default, or NO_CONTENDER */
    int ties;    /* how many of them cannot be told from the fastest, itself included */
    double band; /* they are at most that much slower: 0.02 is 2 % */
};

/* Whether a gain comes into question, and cannot be told from that of the fastest that does. */
bool gains_tie(const struct summary *fastest, const struct summary *gain);

/* Only contenders that are measurably faster than the default come into question: by more than
   TIE_BAND, and above 1 with their floor.  The fastest of them ties with all that are within
   TIE_BAND of it, or within the half-width of its own interval where that is more.  Among ties less
   code wins, then the name that sorts first: the same results give the same winner in any order. */
struct choice choose(const struct contender_result *contenders, int count);

#endif
