/* Finds the cache rows of a sequence's positions.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_PAGES_H
#define KVMILL_RUNTIME_ATTEND_PAGES_H

#include <stdint.h>

#include <kvmill_kernel.h>

/* Integers of 32 or 64 bits at any address. */
struct number_array {
    const void *data; /* NULL: there are none */
    int bits;
    int64_t stride; /* in integers */
};

static inline int64_t number_at(const struct number_array *numbers, int64_t i) {
    if (numbers->bits == 32)
        return (int32_t)((const kvmill_word4 *)numbers->data)[i * numbers->stride];
    return ((const kvmill_index *)numbers->data)[i * numbers->stride];
}

/* Those from number i on. */
static inline struct number_array numbers_from(const struct number_array *numbers, int64_t i) {
    struct number_array rest = *numbers;
    if (rest.data != NULL)
        rest.data = (const unsigned char *)rest.data + i * rest.stride * (rest.bits / 8);
    return rest;
}

/* Pages of `size` positions, whose rows lie side by side.  A page has a number, and begins at row
   number / unit * rows.  A number may stand for `parts` pages one after the other, which follow each
   other in memory, too.  A slot is a page of one row.  Without numbers all
   positions are in one page, which begins at row `start`; in a ring it follows itself, as numbers
   do. */
struct attend_pages {
    int64_t size; /* INT64_MAX: one page has all positions */
    struct number_array numbers;
    int64_t ring;        /* so many numbers are a ring; 0: they are none */
    const int32_t *list; /* the pages that are attended to, as indices of numbers; NULL: all */
    int64_t unit, rows, parts; /* parts 0: 1 */
    int64_t start;
};

static inline struct attend_pages one_page(int64_t start) {
    return (struct attend_pages){.size = INT64_MAX, .start = start};
}

/* How many positions a list leaves out before that one; where the run of neighbouring pages ends
   that it is in, or `last` if that is before. */
int64_t kvmill_left_out(const struct attend_pages *pages, int64_t position);
int64_t kvmill_end_of_run(const struct attend_pages *pages, int64_t position, int64_t last);

/* The rows of positions from `position` on: at most `count`, and not beyond the page. */
struct kvmill_extent kvmill_extent_at(const struct attend_pages *pages, int64_t position,
                                      int64_t count);

/* Appends the rows of positions [first, first + count); returns the end of the list. */
struct kvmill_extent *kvmill_append_extents(const struct attend_pages *pages, int64_t first,
                                            int64_t count, struct kvmill_extent *to);

/* The same by `streams` places from which rows are read in turn, some at a time; the first `wanted`
   rows of that order. */
struct kvmill_extent *kvmill_append_in_turn(const struct attend_pages *pages, int64_t first,
                                            int64_t count, int64_t streams, int64_t wanted,
                                            struct kvmill_extent *to);

/* The rows of positions [first, first + count), one by one. */
void kvmill_fill_slots(const struct attend_pages *pages, int64_t first, int64_t count,
                       int64_t *slots);

/* The same rows as a list that ends with an extent without rows; at most `count` and that one. */
void kvmill_join_slots(const int64_t *slots, int64_t count, struct kvmill_extent *to);

#endif
