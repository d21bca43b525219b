/* Masks, which are added to scores: of any type and strides, converted for the rows that a kernel
   needs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_MASK_H
#define KVMILL_RUNTIME_ATTEND_MASK_H

#include <stdbool.h>

#include <kvmill_kernel.h>

#include "../core/doubles.h"
#include "pages.h"

/* Rows by sequence, token and head: bytes between neighbours.  Where sequences have tokens of their
   own number, tokens are counted through all sequences. */
struct token_rows {
    unsigned char *data;
    int64_t batch, token, head;
};

/* Rows of the mask, by position; bytes between neighbours, 0 where one serves all. */
struct mask_view {
    struct token_rows rows; /* data NULL: there is none */
    int64_t key;
    DLDataType type;
    kvmill_reader read;
    int64_t columns; /* positions from there on are hidden */
    bool as_it_is;   /* kernels take it so; else it is converted for each call of a kernel */
    bool skips;      /* what it hides is looked for, and left out: bool and floats alone */
    bool by_slopes;  /* multiplied by the slopes of query heads */
};

/* The view of a tensor of rank 1 to 4; NULL: none.  Dims that are not there, and those of 1, serve
 * all. */
struct mask_view kvmill_mask_view_of(const DLTensor *mask);

/* What a row of a mask says beside its numbers. */
struct mask_terms {
    double factor;                 /* of numbers that hide nothing */
    double slope;                  /* slope * (the key's position - position) is added */
    int64_t position, left, right; /* what is not in [position - left, position + right] is hidden
                                      (-1: no end), where keys have positions of their own */
    struct number_array cells;     /* those; data NULL: the first one has position `first` */
    const int64_t *slots;          /* the keys' cells */
    int64_t first;
};

/* Positions that a kernel's call converts masks for at a time. */
enum { KVMILL_MASK_POSITIONS = 512 };

/* The mask of `count` positions, `from` the first one's, of which row->first to row->last are seen,
   as `activation`s in `to`; row->mask is set, and what is hidden at either end of those seen is
   taken off: a row of which nothing is left sees nothing, whatever its scores are. */
void kvmill_mask_row(const struct mask_view *mask, const unsigned char *from, int64_t count,
                     int activation, unsigned char *to, struct kvmill_query_row *row);

/* The same with terms; what is not in [first, last) is hidden. */
void kvmill_mask_block(const struct mask_view *mask, const struct mask_terms *terms,
                       const unsigned char *from, int64_t first, int64_t last, int64_t count,
                       int activation, unsigned char *to);

/* An element of what these made. */
bool kvmill_is_hidden(int activation, const unsigned char *row, int64_t i);

/* How many of the `count` elements from there on are hidden before the first that is not, and after
   the last; whether all are 0 (or seen). */
int64_t kvmill_hidden_before(const struct mask_view *mask, const unsigned char *from,
                             int64_t count);
int64_t kvmill_hidden_after(const struct mask_view *mask, const unsigned char *from, int64_t count);
bool kvmill_mask_is_zero(const struct mask_view *mask, const unsigned char *from, int64_t count);

#endif
