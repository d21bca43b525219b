/* Attention of one query: its result, and a bound of its error.  All oracles of attention call it
   with their keys.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_QUERY_H
#define KVMILL_TESTS_ORACLE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

struct oracle_key {
    const double *k, *v; /* rows; k NULL: no product */
    bool hidden;
    double bias, size;                                   /* added; the size of its terms */
    double raw, capped, score, weight, raw_error, error; /* results */
    double moved, most; /* errors of scores move the weight by this, and make it at most this */
};

/* What an arithmetic rounds in addition to float32; kvmill(3), "Errors of attention", has the same
   numbers.  All 0: nothing. */
struct oracle_rounding {
    double query;  /* a: of an element of the query, as a share of its reach */
    double weight; /* b: of a weight, as a share of the largest of its 64 positions */
    double sum;    /* c: of sums, as a share of the sum of magnitudes */
    double least;  /* d: of numbers too small for float16, where the largest weight is 1 */
    bool worst;    /* roundings add up as badly as they can: inputs were searched for */
};

struct oracle_query {
    int64_t dim, value_dim, count;
    const double *numbers;
    struct oracle_key *keys; /* [count] */
    bool all_scores;         /* products of hidden keys, too */
    double scale, softcap;   /* softcap 0: none */
    double sink;             /* -INFINITY: none */
    double unit;             /* of the arithmetic: 2^-24, or 2^-53 */
    struct oracle_rounding rounding;
    int64_t group; /* elements of v that share a scale; 0: no scales */
    double least;  /* the least that the largest magnitude of a group can be */
};

/* Arrays of value_dim numbers.  Without a visible key, output is zeros and lse is -infinity. */
struct oracle_answer {
    double *output, *error, lse, lse_error;
};

/* The roundings of a kind of arithmetic, enum kvmill_math, for keys and values that are codes or
   not. */
struct oracle_rounding oracle_rounding_of(int math, bool key_codes, bool value_codes);

/* The error of a kind of arithmetic for usual data: normally distributed, with scores of a few
   units; a share of the largest output. */
double oracle_usual_error(int math);

/* The reach of a query, which limits the steps of its digits: the smaller one of its largest
   magnitude and 64 times the magnitude that three quarters of its elements, apart from zeros,
   reach. */
double oracle_reach(const double *numbers, int64_t dim);

/* Computes the answer; returns whether the query has a visible key. */
bool oracle_query_attend(const struct oracle_query *query, struct oracle_answer *answer);

double oracle_alibi_slope(int64_t heads, int64_t head);

#endif
