/* Partial results of attention over disjoint positions, and how to merge them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_PARTIAL_H
#define KVMILL_RUNTIME_ATTEND_PARTIAL_H

#include <stdint.h>

/* The partial result of a row, in floats: the largest score, the total of exp (score - largest),
   and the sums of exp (score - largest) * v. */
enum { KVMILL_PARTIAL_HEAD = 2, KVMILL_MOST_PARTIALS = 128 };

/* Partial results of one row, `step` floats apart. */
struct partials {
    const float *first;
    int64_t count, step; /* at most KVMILL_MOST_PARTIALS */
    int64_t dim;
    float empty; /* the output of a row that saw nothing */
};

/* Where a row's output goes: `dim` elements, and, unless lse is NULL, a float32 at any address. */
struct merged_row {
    int element; /* KVMILL_F32, F16 or BF16 */
    unsigned char *output, *lse;
};

/* Merge partial results, in order. */
void kvmill_merge_row(const struct partials *partials, const struct merged_row *row);

#endif
