/* Attention of one query: what it sums up to, and what float arithmetic may err in that.  All
   oracles of attention ask it; they say which keys there are.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_QUERY_H
#define KVMILL_TESTS_ORACLE_QUERY_H

#include <stdbool.h>
#include <stdint.h>

struct oracle_key {
    const double *k, *v; /* rows; k NULL: no product */
    bool hidden;
    double bias, size;                                   /* added; the magnitude of its terms */
    double raw, capped, score, weight, raw_error, error; /* what comes out */
};

struct oracle_query {
    int64_t dim, value_dim, count;
    const double *numbers;
    struct oracle_key *keys; /* [count] */
    bool all_scores;         /* products of hidden keys, too */
    double scale, softcap;   /* softcap 0: none */
    double sink;             /* -INFINITY: none */
    double unit;             /* of the arithmetic: 2^-24, or 2^-53 */
    int64_t group;           /* elements of v that share a scale; 0: there are no scales */
    double least;            /* the smallest largest magnitude of such a group */
};

/* value_dim numbers each; without a visible key zeros, and -infinity. */
struct oracle_answer {
    double *output, *error, lse, lse_error;
};

/* Whether it saw anything. */
bool oracle_query_attend(const struct oracle_query *query, struct oracle_answer *answer);

double oracle_alibi_slope(int64_t heads, int64_t head);

#endif
