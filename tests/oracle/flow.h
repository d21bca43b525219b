/* What a sparse flow means: programs op after op on all pages at once, selection by sorting.

   Double precision throughout; only what is stored in a field is rounded.  Shares nothing with the
   library but its public types, and has no concern but to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_FLOW_H
#define KVMILL_TESTS_ORACLE_FLOW_H

#include <stdbool.h>

#include <kvmill.h>

/* ---- Values ---- */

/* A matrix for each of `pages` pages, or one (pages 1). */
struct oracle_matrix {
    int64_t pages, rows, columns;
    double *data;
};

struct oracle_value {
    const char *name;
    struct oracle_matrix matrix;
};

enum { ORACLE_MOST_VALUES = 256 };

struct oracle_values {
    struct oracle_value items[ORACLE_MOST_VALUES];
    int count;
    bool rounds; /* what an op gives a new name: to bfloat16 */
};

/* A copy of data; NULL: zeros. */
struct oracle_matrix *oracle_add_value(struct oracle_values *values, const char *name,
                                       int64_t pages, int64_t rows, int64_t columns,
                                       const double *data);

/* The latest of that name; NULL when there is none, or no name. */
struct oracle_matrix *oracle_find_value(struct oracle_values *values, const char *name);

void oracle_free_values(struct oracle_values *values);

/* Run ops on values: q, k, v, fields and constants by name (a constant's taps are its pages).
   Outputs are added, also where a field has the name; what Save writes is added to `saved` by the
   field's name, what topK and Union select by as "topK", and what Union takes then as "second". */
void oracle_run_ops(const kvmill_flow_op *ops, size_t count, int64_t pages,
                    struct oracle_values *values, struct oracle_values *saved);

/* ---- Flows ---- */

/* The number of a field's type that a result becomes: the nearest, but none below what a Max gives
   and none above what a Min gives. */
double oracle_round_field(DLDataType type, const char *op, double x);

/* Summaries of a page of which `rows` rows are there: k [rows, head_dim], v [rows, value_head_dim];
   fields[i] gets rows * columns numbers of field i, or has the first `rows` rows, where its rows
   come with tokens.  Rows of K or V (0, 1) that the program writes are given to `keep`, which makes
   of them what is read again. */
struct oracle_keeper {
    void (*keep)(const struct oracle_keeper *keeper, int v, double *numbers);
};
void oracle_summarise(const kvmill_flow *flow, int64_t rows, const double *k, const double *v,
                      double *const *fields, const struct oracle_keeper *keeper);

/* Whether results of ops are rounded to bfloat16; one of them, if so. */
bool oracle_rounds(const kvmill_flow *flow);
double oracle_result(bool rounds, double x);

/* Whether append puts a row of a field with each token; the field that gets a field's scales, or
   -1. */
bool oracle_grows(const kvmill_flow *flow, size_t field);
int oracle_scales_field(const kvmill_flow *flow, size_t field);

/* Numbers that share a scale become codes of a type, which are to be rounded yet where they are
   floats.  Returns the scale. */
double oracle_quantise(DLDataType type, bool powers, const double *x, int64_t count, double *codes);

/* Scores of `pages` pages, or blocks: q [group, head_dim], k [pages, their rows, head_dim], v
   likewise, fields[i] [pages, rows, columns].  Those that Union takes then are scores[pages ...].
   saved[i], where a field is saved, gets its new values; other elements of saved may be NULL. */
void oracle_score(const kvmill_flow *flow, int64_t group, int64_t pages, const double *q,
                  const double *k, const double *v, double *const *fields, double *scores,
                  double *const *saved);

/* ---- Selection ---- */

/* How many of a row's pages are selected. */
int64_t oracle_selected(const kvmill_flow_select *select, int64_t pages);

/* Which; score[p] is page p's, looked at where it is a candidate; `second` of the pages between the
   first and the last ones are taken by scores of their own, after the others.  Returns how many. */
int64_t oracle_unite(const kvmill_flow_select *select, int64_t second, int64_t pages,
                     const float *score, const float *second_score, int32_t *list);

/* How many pages Union takes by its second input; 0: there is no Union. */
int64_t oracle_second(const kvmill_flow *flow);

#endif
