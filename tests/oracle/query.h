/* Attention of one query: its result, and a bound of the error of float arithmetic.  All oracles of
   attention call it with their keys.

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
};

struct oracle_query {
    int64_t dim, value_dim, count;
    const double *numbers;
    struct oracle_key *keys; /* [count] */
    bool all_scores;         /* products of hidden keys, too */
    double scale, softcap;   /* softcap 0: none */
    double sink;             /* -INFINITY: none */
    double unit;             /* of the arithmetic: 2^-24, or 2^-53 */
    int64_t group;           /* elements of v that share a scale; 0: no scales */
    double least;            /* the least that the largest magnitude of a group can be */
};

/* Arrays of value_dim numbers.  Without a visible key, output is zeros and lse is -infinity. */
struct oracle_answer {
    double *output, *error, lse, lse_error;
};

/* Computes the answer; returns whether the query has a visible key. */
bool oracle_query_attend(const struct oracle_query *query, struct oracle_answer *answer);

double oracle_alibi_slope(int64_t heads, int64_t head);

#endif
