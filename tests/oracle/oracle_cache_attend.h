/* What CacheAttend means, number by number.  Arithmetic is double.  Shares no code with what it
   judges; its only aim is to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_CACHE_ATTEND_H
#define KVMILL_TESTS_ORACLE_ORACLE_CACHE_ATTEND_H

#include "query.h"

enum { MOST_LISTS = 64 };

struct oracle_attend {
    int64_t batch, heads, kv_heads, dim, value_dim, queries;
    int64_t *starts;            /* [batch + 1]: queries of each sequence */
    int64_t *lengths;           /* [batch * kv_heads] */
    int64_t *cells[MOST_LISTS]; /* [batch * kv_heads]: row of each position in k and v */
    int64_t *rings; /* [batch * kv_heads]: how many of the last positions exist; NULL: all */
    int64_t *positions, *key_positions; /* of queries, of rows; NULL: the default ones */
    int64_t *ranges;                    /* [queries, 2], or NULL */
    bool is_causal;
    int64_t window, right_window;
    double *mask;         /* NULL: no mask; -infinity hides */
    int64_t mask_dims[4]; /* batch or 1, heads or 1, queries of a sequence or all together or 1,
                             positions */
    bool together;        /* queries of the mask are counted through all sequences */
    double *slopes;       /* [heads], or NULL */
    bool slopes_of_mask;
    double scale, softcap;
    double *sinks;     /* [heads], or NULL */
    double *q, *k, *v; /* [queries, heads, dim], [rows, kv_heads, dim or value_dim] */
};

/* Whether query n attends to position j of its sequence in head h; then *added is the bias. */
bool oracle_attend_sees(const struct oracle_attend *problem, int64_t n, int64_t h, int64_t j,
                        double *added);

/* Whether any query attends to a cell of a kv head. */
bool oracle_attend_sees_cell(const struct oracle_attend *problem, int64_t cell, int64_t kv_head);

/* Whether a ring has only a part of some query's window, although the window fits the ring. */
bool oracle_attend_cuts_window(const struct oracle_attend *problem, int64_t left);

/* Computes the attention of query n in head h. */
void oracle_attend_row(const struct oracle_attend *problem, int64_t n, int64_t h,
                       struct oracle_answer *answer);

#endif
