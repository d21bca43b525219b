/* Masks, which are added to scores.  They may have any type and strides, and are converted for the
   rows that a kernel needs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_MASK_H
#define KVMILL_RUNTIME_ATTEND_MASK_H

#include <stdbool.h>

#include <kvmill_kernel.h>

#include "../core/doubles.h"
#include "pages.h"

/* Rows by sequence, token and head, with the bytes between neighbours.  If sequences have different
   numbers of tokens, tokens are counted over all sequences. */
struct token_rows {
    unsigned char *data;
    int64_t batch, token, head;
};

/* The mask: rows by position.  A stride of 0 means that one row serves all. */
struct mask_view {
    struct token_rows rows; /* data NULL: there is no mask */
    int64_t key;
    DLDataType type;
    kvmill_reader read;
    int64_t columns; /* later positions are hidden */
    bool as_it_is;   /* kernels can read it; otherwise it is converted for each call of a kernel */
    bool skips;      /* hidden positions are found and left out: only for bool and floats */
    bool by_slopes;  /* it is multiplied by the slopes of query heads */
};

/* The view of a tensor of rank 1 to 4, or of NULL if there is none.  Missing dims, and dims of 1,
   serve all. */
struct mask_view kvmill_mask_view_of(const DLTensor *mask);

/* The terms of a row in addition to the numbers of its mask. */
struct mask_terms {
    double factor; /* of the mask's numbers, if they do not hide */
    double slope;  /* slope * (the key's position - position) is added */
    int64_t position, left,
        right;                 /* positions outside [position - left, position + right] are hidden
                                  (-1: no limit), if keys have positions of their own */
    struct number_array cells; /* positions of keys; data NULL: the first key has `first` */
    const int64_t *slots;      /* the cells of the keys */
    int64_t first;
};

/* The positions for which a kernel's call converts masks at a time. */
enum { KVMILL_MASK_POSITIONS = 512 };

/* Convert the mask of `count` positions, from `from` on, to `activation`s in `to`.  Of these,
   row->first to row->last are visible.  Sets row->mask, and removes hidden positions at either end
   from the visible range.  If nothing remains, the row sees nothing, whatever its scores are. */
void kvmill_mask_row(const struct mask_view *mask, const unsigned char *from, int64_t count,
                     int activation, unsigned char *to, struct kvmill_query_row *row);

/* The same with further terms; positions outside [first, last) are hidden. */
void kvmill_mask_block(const struct mask_view *mask, const struct mask_terms *terms,
                       const unsigned char *from, int64_t first, int64_t last, int64_t count,
                       int activation, unsigned char *to);

/* An element that these functions wrote. */
bool kvmill_is_hidden(int activation, const unsigned char *row, int64_t i);

/* How many of `count` elements are hidden before the first visible one, and after the last; whether
   all visible elements are 0. */
int64_t kvmill_hidden_before(const struct mask_view *mask, const unsigned char *from,
                             int64_t count);
int64_t kvmill_hidden_after(const struct mask_view *mask, const unsigned char *from, int64_t count);
bool kvmill_mask_is_zero(const struct mask_view *mask, const unsigned char *from, int64_t count);

#endif
