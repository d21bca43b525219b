/* What a sparse flow means: programs run op by op on all pages at once, and selection sorts.

   Arithmetic is double throughout; only values stored in a field are rounded.  Shares nothing with
   the library except its public types; its only aim is to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_FLOW_H
#define KVMILL_TESTS_ORACLE_ORACLE_FLOW_H

#include <stdbool.h>

#include <kvmill.h>

/* ---- Values ---- */

/* A matrix for each of `pages` pages, or one for all (pages 1). */
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
    bool rounds; /* results under a new name are rounded to bfloat16 */
};

/* Adds a value with a copy of `data`; NULL: zeros. */
struct oracle_matrix *oracle_add_value(struct oracle_values *values, const char *name,
                                       int64_t pages, int64_t rows, int64_t columns,
                                       const double *data);

/* Returns the latest value of that name, or NULL if it does not exist or `name` is NULL. */
struct oracle_matrix *oracle_find_value(struct oracle_values *values, const char *name);

void oracle_free_values(struct oracle_values *values);

/* Runs ops on values: q, k, v, fields and constants by name (a constant's taps are its pages).
   Adds each output as a new value, even if a field has its name.  `saved` gets Save's values by the
   names of their fields, the scores of topK and Union as "topK", and the second scores of Union as
   "second". */
void oracle_run_ops(const kvmill_flow_op *ops, size_t count, int64_t pages,
                    struct oracle_values *values, struct oracle_values *saved);

/* ---- Flows ---- */

/* Returns the number of a field's type for a result: the nearest, except that a Max is rounded up
   and a Min down. */
double oracle_round_field(DLDataType type, const char *op, double x);

/* Computes the summaries of a page with `rows` rows: k [rows, head_dim], v [rows, value_head_dim].
   fields[i] gets rows * columns numbers of field i; if its rows come with tokens, it already has
   the first `rows` rows.  `keep` gets rows of K or V (0, 1) that the program writes, and changes
   them to what a later read returns. */
struct oracle_keeper {
    void (*keep)(const struct oracle_keeper *keeper, int v, double *numbers);
};
void oracle_summarise(const kvmill_flow *flow, int64_t rows, const double *k, const double *v,
                      double *const *fields, const struct oracle_keeper *keeper);

/* Whether results of ops are rounded to bfloat16; and a result, rounded if `rounds`. */
bool oracle_rounds(const kvmill_flow *flow);
double oracle_result(bool rounds, double x);

/* Whether append stores a row of the field with each token; and the field with the scales of
   `field`, or -1. */
bool oracle_grows(const kvmill_flow *flow, size_t field);
int oracle_scales_field(const kvmill_flow *flow, size_t field);

/* Converts numbers that share a scale to codes, and returns the scale.  Codes of float types are
   still to be rounded. */
double oracle_quantise(DLDataType type, bool powers, const double *x, int64_t count, double *codes);

/* Computes the scores of `pages` pages, or blocks: q [group, head_dim], k [pages, their rows,
   head_dim], v with its own dim, fields[i] [pages, rows, columns].  scores[pages ...] get Union's
   second scores. saved[i] gets the new values of a saved field; other elements of saved may be
   NULL. */
void oracle_score(const kvmill_flow *flow, int64_t group, int64_t pages, const double *q,
                  const double *k, const double *v, double *const *fields, double *scores,
                  double *const *saved);

/* ---- Selection ---- */

/* Returns how many of a row's pages are selected. */
int64_t oracle_selected(const kvmill_flow_select *select, int64_t pages);

/* Selects pages and returns how many.  score[p] is page p's, and is read only for candidates.  Of
   the pages between the first and the last ones, `second` are selected by `second_score`, after the
   others. */
int64_t oracle_unite(const kvmill_flow_select *select, int64_t second, int64_t pages,
                     const float *score, const float *second_score, int32_t *list);

/* Returns how many pages Union selects by its second input, or 0 without Union. */
int64_t oracle_second(const kvmill_flow *flow);

#endif
