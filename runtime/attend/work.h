/* The data of a part of an attend call: a tile, its rows, and the thread's place in the workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_WORK_H
#define KVMILL_RUNTIME_ATTEND_WORK_H

#include "../core/numbers.h"
#include "tiles.h"

struct attend_work {
    const struct attend_view *view;
    const struct tile *tile;
    const struct tiles *tiles; /* whose kernel is used */
    const struct kvmill_kernel *kernel;
    bool converts;       /* masks */
    bool compacts;       /* positions that no row sees are left out, one by one */
    unsigned char *slot; /* the thread's */
    unsigned char *own;  /* the tile's part of it */
    const struct tile_layout *layout;
    struct kvmill_query_row *rows;
    struct kvmill_attend problem;
};

static inline const unsigned char *mask_at(const struct attend_work *work, int64_t i,
                                           int64_t position) {
    const struct tile *tile = work->tile;
    return kvmill_mask_at(work->view, &tile->sequence, tile->b, head_of_row(tile, i),
                          token_of_row(tile, i), position);
}

/* The positions that row i sees. */
static inline void set_range(const struct attend_work *work, int64_t i,
                             struct kvmill_query_row *row) {
    const struct tile *tile = work->tile;
    kvmill_see_through(work->view, &tile->sequence, tile->b, head_of_row(tile, i),
                       token_of_row(tile, i), &row->first, &row->last);
}

static inline float head_number(const struct head_numbers *numbers, int64_t head, float otherwise) {
    if (numbers->data == NULL)
        return otherwise;
    return kvmill_load_float(numbers->element, numbers->data + head * numbers->stride, 0);
}

/* Else slopes are part of the mask. */
static inline bool has_slopes(const struct attend_work *work) {
    return !work->view->mask.by_slopes && !work->compacts;
}

static inline struct kvmill_extent *extents_of(const struct attend_work *work) {
    return (struct kvmill_extent *)(void *)(work->slot + work->view->plan->layout.extents);
}

/* Where masks say which rows are read: theirs, one by one. */
static inline int64_t *slots_in(const struct attend_work *work) {
    return (int64_t *)(void *)(work->slot + work->view->plan->layout.slots);
}

/* Its mask is that of the row before: another query head, and masks are the same for all. */
static inline bool shares_mask(const struct attend_work *work, int64_t i) {
    bool by_head =
        work->view->mask.rows.head != 0 || (work->view->slopes.data != NULL && !has_slopes(work));
    return i % work->tile->heads > 0 && !by_head;
}

/* ---- Masks of a call: masked.c ---- */

/* The rows of a tile for the positions of one call, which are counted from 0, with their masks. */
void kvmill_set_masks(struct attend_work *work);

/* Calls for what rows see of [first, last), block by block; false if there is none. */
bool kvmill_call_for_seen(struct attend_work *work, int64_t first, int64_t last);

/* The kernel without a mask would do: masks hide only what is before and after what rows see. */
bool kvmill_masks_say_nothing(const struct attend_work *work, int64_t first, int64_t last);

#endif
