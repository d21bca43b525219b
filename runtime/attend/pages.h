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

/* The array from number i on. */
static inline struct number_array numbers_from(const struct number_array *numbers, int64_t i) {
    struct number_array rest = *numbers;
    if (rest.data != NULL)
        rest.data = (const unsigned char *)rest.data + i * rest.stride * (rest.bits / 8);
    return rest;
}

/* Pages of `size` positions, whose rows are adjacent.  Page number n begins at row n / unit * rows.
   A number may stand for `parts` pages that follow each other, also in memory.  A slot is a page of
   one row.  Without numbers there is one page, which begins at row `start`; in a ring, it wraps
   around to itself, as lists of numbers do. */
struct attend_pages {
    int64_t size; /* INT64_MAX: one page has all positions */
    struct number_array numbers;
    int64_t ring;        /* numbers after which the list wraps around; 0: it does not */
    const int32_t *list; /* the pages that are attended to, as indices of numbers; NULL: all */
    int64_t unit, rows, parts; /* parts 0: 1 */
    int64_t start;
};

static inline struct attend_pages one_page(int64_t start) {
    return (struct attend_pages){.size = INT64_MAX, .start = start};
}

/* The number of positions that a list leaves out before a position; and where the run of
   neighbouring pages that contains it ends, or `last` if that is before. */
int64_t kvmill_left_out(const struct attend_pages *pages, int64_t position);
int64_t kvmill_end_of_run(const struct attend_pages *pages, int64_t position, int64_t last);

/* The rows from `position` on: at most `count`, and not beyond the page. */
struct kvmill_extent kvmill_extent_at(const struct attend_pages *pages, int64_t position,
                                      int64_t count);

/* Append the rows of positions [first, first + count).  Returns the end of the list. */
struct kvmill_extent *kvmill_append_extents(const struct attend_pages *pages, int64_t first,
                                            int64_t count, struct kvmill_extent *to);

/* The rows of positions [first, first + count), one by one. */
void kvmill_fill_slots(const struct attend_pages *pages, int64_t first, int64_t count,
                       int64_t *slots);

/* The same rows as a list of at most `count` extents, followed by an extent without rows. */
void kvmill_join_slots(const int64_t *slots, int64_t count, struct kvmill_extent *to);

#endif
