/* The data of a part of an attend call: a tile, its rows, and the thread's place in the workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_WORK_H
#define KVMILL_RUNTIME_ATTEND_WORK_H

#include "../core/numbers.h"
#include "tiles.h"

struct attend_work {
    const struct attend_view *view;
    const struct tile *tile;
    const struct tiles *tiles; /* the kernels to choose from */
    const struct kvmill_kernel *kernel;
    bool converts;       /* masks are converted */
    bool compacts;       /* positions that no row sees are left out, one by one */
    unsigned char *slot; /* of the thread */
    unsigned char *own;  /* the tile's part of the slot */
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

/* Whether slopes are added by the kernel; otherwise they are part of the mask. */
static inline bool has_slopes(const struct attend_work *work) {
    return !work->view->mask.by_slopes && !work->compacts;
}

static inline struct kvmill_extent *extents_of(const struct attend_work *work) {
    return (struct kvmill_extent *)(void *)(work->slot + work->view->plan->layout.extents);
}

/* The extents of the visible rows, one by one, if masks say which rows are read. */
static inline int64_t *slots_in(const struct attend_work *work) {
    return (int64_t *)(void *)(work->slot + work->view->plan->layout.slots);
}

/* Whether a row's mask is that of the row before: another query head, and heads share masks. */
static inline bool shares_mask(const struct attend_work *work, int64_t i) {
    bool by_head =
        work->view->mask.rows.head != 0 || (work->view->slopes.data != NULL && !has_slopes(work));
    return i % work->tile->heads > 0 && !by_head;
}

/* ---- Masks of a call: masked.c ---- */

/* The rows of a tile for the positions of one call, which count from 0, with their masks. */
void kvmill_set_masks(struct attend_work *work);

/* Run the calls for the visible positions of [first, last), block by block; false if there are
 * none. */
bool kvmill_call_for_seen(struct attend_work *work, int64_t first, int64_t last);

/* Whether a kernel without a mask is enough: masks only hide positions before and after visible
 * ones. */
bool kvmill_masks_say_nothing(const struct attend_work *work, int64_t first, int64_t last);

#endif
