/* What CacheAttend means, number by number.  Arithmetic is double.  Shares nothing with what it
   judges, and has no concern but to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_CACHE_ATTEND_H
#define KVMILL_TESTS_ORACLE_CACHE_ATTEND_H

#include "query.h"

enum { MOST_LISTS = 64 };

struct oracle_attend {
    int64_t batch, heads, kv_heads, dim, value_dim, queries;
    int64_t *starts;            /* [batch + 1]: queries of each sequence */
    int64_t *lengths;           /* [batch * kv_heads] */
    int64_t *cells[MOST_LISTS]; /* [batch * kv_heads]: row of each position in k and v */
    int64_t *rings; /* [batch * kv_heads]: so many positions, the last ones, are there; NULL: all */
    int64_t *positions, *key_positions; /* of queries, of rows; NULL: as a rule */
    int64_t *ranges;                    /* [queries, 2], or NULL */
    bool is_causal;
    int64_t window, right_window;
    double *mask;         /* NULL: none; -infinity hides */
    int64_t mask_dims[4]; /* batch or 1, heads or 1, queries of a sequence or all together or 1,
                             positions */
    bool together;        /* queries of the mask are counted through all sequences */
    double *slopes;       /* [heads], or NULL */
    bool slopes_of_mask;
    double scale, softcap;
    double *sinks;     /* [heads], or NULL */
    double *q, *k, *v; /* [queries, heads, dim], [rows, kv_heads, dim or value_dim] */
};

/* Whether query n sees position j of its sequence as head h does, and what is added then. */
bool oracle_attend_sees(const struct oracle_attend *problem, int64_t n, int64_t h, int64_t j,
                        double *added);

/* Whether any query sees a cell as a kv head has it. */
bool oracle_attend_sees_cell(const struct oracle_attend *problem, int64_t cell, int64_t kv_head);

/* A ring has only a part of the window of some query, though the window fits into it. */
bool oracle_attend_cuts_window(const struct oracle_attend *problem, int64_t left);

/* Attention of query n in head h. */
void oracle_attend_row(const struct oracle_attend *problem, int64_t n, int64_t h,
                       struct oracle_answer *answer);

#endif
