/* Masks of an attend call: converted for kernels, and used to find the cache rows that some query
   sees.

   SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

void kvmill_set_masks(struct attend_work *work) {
    const struct attend_plan *plan = work->view->plan;
    int64_t at = work->problem.first, count = work->problem.count;
    int64_t bytes = KVMILL_MASK_POSITIONS * kvmill_activation_bytes(plan->activation);
    unsigned char *masks = work->slot + plan->layout.masks;
    for (int64_t i = 0; i < work->tile->rows; i++) {
        struct kvmill_query_row *row = &work->rows[i];
        if (shares_mask(work, i)) {
            row->first = row[-1].first, row->last = row[-1].last, row->mask = row[-1].mask;
            continue;
        }
        set_range(work, i, row);
        row->first = kvmill_min(kvmill_max(row->first - at, 0), count);
        row->last = kvmill_max(kvmill_min(row->last - at, count), row->first);
        kvmill_mask_row(&work->view->mask, mask_at(work, i, at), count, plan->activation,
                        masks + i * bytes, row);
    }
    work->problem.first = 0;
}

/* ---- Masks that say which rows are read ---- */

/* Positions that are examined together. */
enum { BLOCK = 64 };

static struct mask_terms terms_of(const struct attend_work *work, int64_t i, int64_t first,
                                  const int64_t *slots) {
    const struct attend_sequence *sequence = &work->tile->sequence;
    float slope = head_number(&work->view->slopes, head_of_row(work->tile, i), 0);
    bool by_slopes = work->view->mask.by_slopes;
    return (struct mask_terms){
        .factor = by_slopes ? slope : 1,
        .slope = by_slopes ? 0 : slope,
        .position = position_of(sequence, token_of_row(work->tile, i)),
        .left = sequence->left,
        .right = sequence->right,
        .cells = sequence->cells,
        .slots = slots,
        .first = first,
    };
}

/* Whether the masks hide a position from all rows of the tile. */
static bool is_hidden(const struct attend_work *work, int64_t first, int64_t count) {
    const struct mask_view *mask = &work->view->mask;
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i) &&
            (mask->rows.data == NULL ||
             kvmill_hidden_before(mask, mask_at(work, i, first), count) < count))
            return false;
    return true;
}

static unsigned char *mask_of_row(const struct attend_work *work, int64_t i) {
    const struct attend_plan *plan = work->view->plan;
    int64_t bytes = KVMILL_MASK_POSITIONS * kvmill_activation_bytes(plan->activation);
    return work->slot + plan->layout.masks + i * bytes;
}

/* The masks of `count` positions from `at` on, of which `before` positions are already in the call.
 */
static void set_block(struct attend_work *work, int64_t at, int64_t count, int64_t before) {
    int activation = work->view->plan->activation;
    const int64_t *slots = slots_in(work) + before;
    for (int64_t i = 0; i < work->tile->rows; i++) {
        const struct mask_terms terms = terms_of(work, i, at, slots);
        struct kvmill_query_row row;
        if (shares_mask(work, i))
            continue;
        set_range(work, i, &row);
        row.first = kvmill_min(kvmill_max(row.first - at, 0), count);
        row.last = kvmill_max(kvmill_min(row.last - at, count), row.first);
        kvmill_mask_block(&work->view->mask, &terms, mask_at(work, i, at), row.first, row.last,
                          count, activation,
                          mask_of_row(work, i) + before * kvmill_activation_bytes(activation));
    }
}

static bool is_seen(const struct attend_work *work, int64_t column) {
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i) &&
            !kvmill_is_hidden(work->view->plan->activation, mask_of_row(work, i), column))
            return true;
    return false;
}

static void move_column(const struct attend_work *work, int64_t to, int64_t from) {
    int64_t bytes = kvmill_activation_bytes(work->view->plan->activation);
    int64_t *slots = slots_in(work);
    slots[to] = slots[from];
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i))
            memcpy(mask_of_row(work, i) + to * bytes, mask_of_row(work, i) + from * bytes,
                   (size_t)bytes);
}

/* Append the positions of a block that some row sees, after the first `before` of a call.  Returns
   how many. */
static int64_t keep_seen(struct attend_work *work, int64_t at, int64_t count, int64_t before) {
    int64_t seen = before;
    if (is_hidden(work, at, count))
        return 0;
    kvmill_fill_slots(&work->tile->sequence.pages[0], at, count, slots_in(work) + before);
    set_block(work, at, count, before);
    for (int64_t column = before; column < before + count; column++)
        if (is_seen(work, column))
            move_column(work, seen++, column);
    return seen - before;
}

/* The range that rows see of the first `count` columns. */
static void set_columns(struct attend_work *work, int64_t count) {
    int activation = work->view->plan->activation;
    for (int64_t i = 0; i < work->tile->rows; i++) {
        struct kvmill_query_row *row = &work->rows[i];
        if (shares_mask(work, i)) {
            row->first = row[-1].first, row->last = row[-1].last, row->mask = row[-1].mask;
            continue;
        }
        row->mask = mask_of_row(work, i);
        row->first = 0, row->last = count;
        while (row->first < row->last && kvmill_is_hidden(activation, row->mask, row->first))
            row->first++;
        while (row->first < row->last && kvmill_is_hidden(activation, row->mask, row->last - 1))
            row->last--;
    }
}

/* Run the kernel for the first `count` columns. */
static void call_for_columns(struct attend_work *work, int64_t count) {
    work->problem.count = count;
    set_columns(work, count);
    kvmill_join_slots(slots_in(work), count, extents_of(work));
    work->kernel->run(&work->problem, 0, 1);
    work->problem.begin = 0;
}

bool kvmill_call_for_seen(struct attend_work *work, int64_t first, int64_t last) {
    struct kvmill_attend *problem = &work->problem;
    int64_t before = 0;
    problem->begin = 1;
    for (int64_t at = first; at < last; at += BLOCK) {
        int64_t seen = keep_seen(work, at, kvmill_min(BLOCK, last - at), before);
        if (seen > 0 && before + seen > KVMILL_MASK_POSITIONS - BLOCK) {
            call_for_columns(work, before);
            before = 0;
            seen = keep_seen(work, at, kvmill_min(BLOCK, last - at), before);
        }
        before += seen;
    }
    problem->end = 1;
    if (before > 0)
        call_for_columns(work, before);
    return before > 0;
}

/* Whether some row sees every position from `first` to the last one that any row sees. */
static bool leaves_no_gap(const struct attend_work *work, int64_t first, int64_t last) {
    for (int64_t seen = first; seen < last;) {
        int64_t end = seen;
        for (int64_t i = 0; i < work->tile->rows; i++)
            if (work->rows[i].first <= seen)
                end = kvmill_max(end, work->rows[i].last);
        if (end == seen)
            return false;
        seen = end;
    }
    return true;
}

/* Whether the masks of the tile's rows only hide positions before and after the visible ones. */
static bool says_nothing(const struct attend_work *work, int64_t first, int64_t last) {
    for (int64_t i = 0; i < work->tile->rows; i++) {
        int64_t from = kvmill_max(work->rows[i].first, first);
        int64_t end = kvmill_min(work->rows[i].last, last);
        if (!shares_mask(work, i) && from < end && work->view->mask.rows.data != NULL &&
            !kvmill_mask_is_zero(&work->view->mask, mask_at(work, i, from), end - from))
            return false;
    }
    return true;
}

bool kvmill_masks_say_nothing(const struct attend_work *work, int64_t first, int64_t last) {
    return leaves_no_gap(work, first, last) && says_nothing(work, first, last);
}
