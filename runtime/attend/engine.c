/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <math.h>

#include "../core/cpu.h"
#include "../core/numbers.h"
#include "../core/slots.h"
#include "results.h"
#include "tiles.h"

/* Least positions of each of the places that are read from in turn. */
enum { LEAST_STREAM = 64 };

static struct thread_slots slots_of(const struct attend_view *view) {
    return (struct thread_slots){view->workspace, view->plan->layout.size, view->plan->threads};
}

void kvmill_attend_prepare(struct attend_view *view) {
    const struct thread_slots slots = slots_of(view);
    kvmill_cut(view, &view->plan->tiles[view->converts || view->mask.as_it_is]);
    kvmill_clear_slots(&slots);
}

/* What a part works with: a tile, its rows, and a thread's place in the workspace. */
struct work {
    const struct attend_view *view;
    const struct tile *tile;
    const struct tiles *tiles; /* whose kernel is used */
    const struct kvmill_kernel *kernel;
    bool converts; /* masks */
    bool compacts; /* positions that no row sees are left out, one by one */
    unsigned char *slot;
    struct kvmill_query_row *rows;
    struct kvmill_attend problem;
};

/* ---- Query rows ---- */

static const unsigned char *mask_at(const struct work *work, int64_t i, int64_t position) {
    const struct tile *tile = work->tile;
    return kvmill_mask_at(work->view, &tile->sequence, tile->b, head_of_row(tile, i),
                          token_of_row(tile, i), position);
}

static float head_number(const struct head_numbers *numbers, int64_t head, float otherwise) {
    if (numbers->data == NULL)
        return otherwise;
    return kvmill_load_float(numbers->element, numbers->data + head * numbers->stride, 0);
}

static void see(const struct work *work, int64_t i, struct kvmill_query_row *row) {
    const struct tile *tile = work->tile;
    kvmill_see_through(work->view, &tile->sequence, tile->b, head_of_row(tile, i),
                       token_of_row(tile, i), &row->first, &row->last);
}

/* As it is, or as the kernel wants it. */
static const unsigned char *query_of(const struct work *work, int64_t i) {
    const struct attend_plan *plan = work->view->plan;
    const unsigned char *query = row_of_tile(work->view, &work->view->query, work->tile, i);
    if (plan->query == plan->activation)
        return query;
    int64_t bytes = plan->key_dim * kvmill_activation_bytes(plan->activation);
    unsigned char *to = work->slot + plan->layout.queries + i * bytes;
    for (int64_t d = 0; d < plan->key_dim; d++)
        kvmill_store_float(plan->activation, to, d, kvmill_load_float(plan->query, query, d));
    return to;
}

/* Slopes are part of the mask where that goes by the positions of cells, or is multiplied by them.
 */
static bool has_slopes(const struct work *work) {
    return !work->view->mask.by_slopes && !work->compacts;
}

/* The sink is counted in the first piece. */
static void set_row(const struct work *work, int64_t i, bool first) {
    const struct attend_view *view = work->view;
    struct kvmill_query_row *row = &work->rows[i];
    int64_t head = head_of_row(work->tile, i), token = token_of_row(work->tile, i);
    row->query = query_of(work, i);
    row->output = row_of_tile(view, &view->output, work->tile, i);
    row->mask = view->mask.as_it_is ? mask_at(work, i, 0) : NULL;
    row->origin = position_of(&work->tile->sequence, token);
    row->slope = has_slopes(work) ? head_number(&view->slopes, head, 0) : 0;
    row->sink = first ? head_number(&view->sinks, head, -INFINITY) : -INFINITY;
    see(work, i, row);
}

/* ---- A kernel's problem ---- */

static const unsigned char *plus(const unsigned char *data, int64_t offset) {
    return data != NULL ? data + offset : NULL;
}

/* Of one of the pieces of memory. */
static void set_addresses(struct work *work, int piece) {
    const struct cache_side *key = &work->view->side[piece][0], *value = key + 1;
    int64_t b = work->tile->b, head = work->tile->kv_head;
    struct kvmill_attend *problem = &work->problem;
    problem->key = key->rows.data + b * key->batch + head * key->rows.head_stride;
    problem->value = value->rows.data + b * value->batch + head * value->rows.head_stride;
    problem->key_scale =
        plus(key->rows.scale, b * key->scale_batch + head * key->rows.scale_head_stride);
    problem->value_scale =
        plus(value->rows.scale, b * value->scale_batch + head * value->rows.scale_head_stride);
    problem->key_stride = key->rows.row_stride;
    problem->value_stride = value->rows.row_stride;
    problem->key_scale_stride = key->rows.scale_row_stride;
    problem->value_scale_stride = value->rows.scale_row_stride;
}

static struct kvmill_extent *extents_of(const struct work *work) {
    return (struct kvmill_extent *)(void *)(work->slot + work->view->plan->layout.extents);
}

/* Where masks say which rows are read: theirs, one by one. */
static int64_t *slots_in(const struct work *work) {
    return (int64_t *)(void *)(work->slot + work->view->plan->layout.slots);
}

static struct kvmill_attend problem_of(const struct work *work) {
    const struct attend_plan *plan = work->view->plan;
    return (struct kvmill_attend){
        .shape = tile_shape(work->tiles, work->kernel),
        .row = work->rows,
        .rows = work->tile->rows,
        .extent = extents_of(work),
        .scale = plan->scale,
        .softcap = plan->softcap,
        .empty = plan->empty,
        .workspace = work->slot + plan->layout.kernel,
    };
}

/* ---- The rows that a kernel reads ---- */

/* Positions of a kernel's call. */
struct span {
    int64_t first, last;
};

static bool sees_all(const struct kvmill_attend *problem, int64_t first, int64_t last) {
    for (int64_t i = 0; i < problem->rows; i++)
        if (problem->row[i].first > first || problem->row[i].last < last)
            return false;
    return true;
}

/* Positions whose order does not matter are read from several places in turn: memory delivers
   more than from one. */
static int64_t streams_of(const struct kvmill_attend *problem, int64_t first, int64_t count) {
    int64_t streams = kvmill_memory_streams();
    bool any_order =
        (problem->shape->terms & KVMILL_TERM_BIAS) == 0 && sees_all(problem, first, first + count);
    return any_order && count >= streams * LEAST_STREAM ? streams : 1;
}

/* Appends the first `wanted` rows of a kernel's call for a span, in the order they are read. */
static struct kvmill_extent *list_rows(const struct work *work, const struct span *span,
                                       int64_t wanted, struct kvmill_extent *to) {
    int64_t joint = work->tile->sequence.joint, count = span->last - span->first;
    bool second = span->first >= joint;
    return kvmill_append_in_turn(&work->tile->sequence.pages[second],
                                 span->first - (second ? joint : 0), count,
                                 streams_of(&work->problem, span->first, count), wanted, to);
}

/* ---- Masks ---- */

/* Its mask is that of the row before: another query head, and masks are the same for all. */
static bool shares_mask(const struct work *work, int64_t i) {
    bool by_head =
        work->view->mask.rows.head != 0 || (work->view->slopes.data != NULL && !has_slopes(work));
    return i % work->tile->heads > 0 && !by_head;
}

/* The rows of a tile for the positions of one call, which are counted from 0, with their masks. */
static void set_masks(struct work *work) {
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
        see(work, i, row);
        row->first = kvmill_min(kvmill_max(row->first - at, 0), count);
        row->last = kvmill_max(kvmill_min(row->last - at, count), row->first);
        kvmill_mask_row(&work->view->mask, mask_at(work, i, at), count, plan->activation,
                        masks + i * bytes, row);
    }
    work->problem.first = 0;
}

/* ---- Masks that say which rows are read ---- */

/* Positions that are looked at together. */
enum { BLOCK = 64 };

static struct mask_terms terms_of(const struct work *work, int64_t i, int64_t first,
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

/* No row of the tile sees any of them, as its mask says. */
static bool is_hidden(const struct work *work, int64_t first, int64_t count) {
    const struct mask_view *mask = &work->view->mask;
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i) &&
            (mask->rows.data == NULL ||
             kvmill_hidden_before(mask, mask_at(work, i, first), count) < count))
            return false;
    return true;
}

static unsigned char *mask_of_row(const struct work *work, int64_t i) {
    const struct attend_plan *plan = work->view->plan;
    int64_t bytes = KVMILL_MASK_POSITIONS * kvmill_activation_bytes(plan->activation);
    return work->slot + plan->layout.masks + i * bytes;
}

/* The masks of `count` positions from `at` on, after the first `before` of a call. */
static void set_block(struct work *work, int64_t at, int64_t count, int64_t before) {
    int activation = work->view->plan->activation;
    const int64_t *slots = slots_in(work) + before;
    for (int64_t i = 0; i < work->tile->rows; i++) {
        const struct mask_terms terms = terms_of(work, i, at, slots);
        struct kvmill_query_row row;
        if (shares_mask(work, i))
            continue;
        see(work, i, &row);
        row.first = kvmill_min(kvmill_max(row.first - at, 0), count);
        row.last = kvmill_max(kvmill_min(row.last - at, count), row.first);
        kvmill_mask_block(&work->view->mask, &terms, mask_at(work, i, at), row.first, row.last,
                          count, activation,
                          mask_of_row(work, i) + before * kvmill_activation_bytes(activation));
    }
}

static bool is_seen(const struct work *work, int64_t column) {
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i) &&
            !kvmill_is_hidden(work->view->plan->activation, mask_of_row(work, i), column))
            return true;
    return false;
}

static void move_column(const struct work *work, int64_t to, int64_t from) {
    int64_t bytes = kvmill_activation_bytes(work->view->plan->activation);
    int64_t *slots = slots_in(work);
    slots[to] = slots[from];
    for (int64_t i = 0; i < work->tile->rows; i++)
        if (!shares_mask(work, i))
            memcpy(mask_of_row(work, i) + to * bytes, mask_of_row(work, i) + from * bytes,
                   (size_t)bytes);
}

/* Of the positions of a block, those that some row sees, after the first `before` of a call;
   returns how many. */
static int64_t take_seen(struct work *work, int64_t at, int64_t count, int64_t before) {
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

/* What rows see of the first `count` columns. */
static void set_columns(struct work *work, int64_t count) {
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

/* A call for the first `count` columns. */
static void call_for_columns(struct work *work, int64_t count) {
    work->problem.count = count;
    set_columns(work, count);
    kvmill_join_slots(slots_in(work), count, extents_of(work));
    work->kernel->run(&work->problem, 0, 1);
    work->problem.begin = 0;
}

/* Calls for what rows see of [first, last), block by block; false if there is none. */
static bool call_for_seen(struct work *work, int64_t first, int64_t last) {
    struct kvmill_attend *problem = &work->problem;
    int64_t before = 0;
    problem->begin = 1;
    for (int64_t at = first; at < last; at += BLOCK) {
        int64_t seen = take_seen(work, at, kvmill_min(BLOCK, last - at), before);
        if (seen > 0 && before + seen > KVMILL_MASK_POSITIONS - BLOCK) {
            call_for_columns(work, before);
            before = 0;
            seen = take_seen(work, at, kvmill_min(BLOCK, last - at), before);
        }
        before += seen;
    }
    problem->end = 1;
    if (before > 0)
        call_for_columns(work, before);
    return before > 0;
}

/* Some row sees every position from `first` on up to the last that any sees. */
static bool leaves_no_gap(const struct work *work, int64_t first, int64_t last) {
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

/* No mask of the tile's rows says anything but what is hidden before and after them. */
static bool says_nothing(const struct work *work, int64_t first, int64_t last) {
    for (int64_t i = 0; i < work->tile->rows; i++) {
        int64_t from = kvmill_max(work->rows[i].first, first);
        int64_t end = kvmill_min(work->rows[i].last, last);
        if (!shares_mask(work, i) && from < end && work->view->mask.rows.data != NULL &&
            !kvmill_mask_is_zero(&work->view->mask, mask_at(work, i, from), end - from))
            return false;
    }
    return true;
}

/* ---- One piece of a unit ---- */

/* What a call of the kernel takes of [at, last): positions of one piece of memory. */
static struct span span_from(const struct work *work, int64_t at, int64_t last) {
    int64_t joint = work->tile->sequence.joint;
    int64_t room = work->converts ? KVMILL_MASK_POSITIONS : MOST_POSITIONS;
    int64_t end = at < joint ? kvmill_min(joint, last) : last;
    return (struct span){at, at + kvmill_min(room, end - at)};
}

/* A call for a span; the one after it is `next`. */
static void call_kernel(struct work *work, const struct span *span, const struct span *next,
                        int64_t last) {
    struct kvmill_attend *problem = &work->problem;
    int64_t joint = work->tile->sequence.joint, count = next->last - next->first;
    bool follows = next->first < last && (span->first >= joint || next->first < joint);
    if (span->first >= joint)
        set_addresses(work, 1);
    problem->first = span->first;
    problem->count = span->last - span->first;
    problem->end = next->first == last;
    struct kvmill_extent *end = list_rows(work, span, problem->count, extents_of(work));
    if (follows)
        end = list_rows(work, next, kvmill_min(AHEAD, count), end);
    *end = (struct kvmill_extent){0};
    if (work->converts)
        set_masks(work);
    work->kernel->run(problem, 0, 1);
    problem->begin = 0;
}

/* All calls for [first, last); false if there is none. */
static bool call_kernels(struct work *work, int64_t first, int64_t last) {
    struct span span = span_from(work, first, last);
    work->problem.begin = 1;
    if (span.first >= last)
        return false;
    while (span.first < last) {
        const struct span next = span_from(work, span.last, last);
        call_kernel(work, &span, &next, last);
        span = next;
    }
    return true;
}

/* The kernel without a mask where masks say nothing and it holds the tile. */
static void choose_kernel(struct work *work, int64_t first, int64_t last) {
    const struct attend_view *view = work->view;
    const struct tiles *plain = &view->plan->tiles[0];
    int count = plain->selection.count;
    bool may_do = work->compacts && work->tile->sequence.cells.data == NULL && count > 0 &&
                  plain->rows[count - 1] >= work->tile->rows;
    if (!may_do || !leaves_no_gap(work, first, last) || !says_nothing(work, first, last))
        return;
    work->tiles = plain;
    work->kernel = kvmill_kernel_for(view, plain, work->tile->rows);
    work->converts = work->compacts = false;
}

/* partial: of the piece, or NULL: the only one. */
static void attend_piece(struct work *work, int64_t piece, float *partial) {
    const struct attend_plan *plan = work->view->plan;
    const struct tile *tile = work->tile;
    int64_t first = kvmill_piece_border(tile, piece), last = kvmill_piece_border(tile, piece + 1);
    for (int64_t i = 0; i < tile->rows; i++)
        see(work, i, &work->rows[i]);
    choose_kernel(work, first, last);
    for (int64_t i = 0; i < tile->rows; i++)
        set_row(work, i, piece == 0);
    bool whole = work->view->lse.data != NULL || plan->output != plan->activation;
    work->problem = problem_of(work);
    set_addresses(work, 0);
    work->problem.partial = partial;
    if (partial == NULL && (first >= last || whole || work->compacts))
        work->problem.partial = (float *)(void *)(work->slot + plan->layout.partial);
    if (!(work->compacts ? call_for_seen(work, first, last) : call_kernels(work, first, last)))
        kvmill_put_nothing(&work->problem, partial_floats(plan));
    if (partial == NULL && work->problem.partial != NULL)
        kvmill_finish_tile(work->view, tile, work->problem.partial, 0);
}

/* ---- Phases ---- */

int64_t kvmill_attend_parts(const struct attend_view *view) {
    return kvmill_unit_numbers(view) * view->cuts.splits;
}

void kvmill_attend_part(const struct attend_view *view, int64_t part) {
    int64_t units = kvmill_unit_numbers(view), unit = part % units, piece = part / units;
    struct tile tile;
    if (!kvmill_find_unit(view, unit, &tile) || piece >= tile.pieces)
        return;
    const struct thread_slots slots = slots_of(view);
    struct work work = {
        .view = view,
        .tile = &tile,
        .tiles = view->cuts.tiles,
        .kernel = tile.kernel,
        .converts = view->converts,
        .compacts = view->compacts,
        .slot = kvmill_take_slot(&slots),
    };
    work.rows = (struct kvmill_query_row *)(void *)(work.slot + view->plan->layout.rows);
    attend_piece(&work, piece,
                 tile.pieces > 1
                     ? kvmill_shared_partials(view, unit) + piece * kvmill_piece_floats(view)
                     : NULL);
    kvmill_give_slot(work.slot);
}

int64_t kvmill_merge_parts(const struct attend_view *view) {
    return view->cuts.splits > 1 ? view->cuts.units : 0;
}

void kvmill_merge_part(const struct attend_view *view, int64_t unit) {
    struct tile tile;
    if (kvmill_find_unit(view, unit, &tile) && tile.pieces > 1)
        kvmill_finish_tile(view, &tile, kvmill_shared_partials(view, unit),
                           kvmill_piece_floats(view));
}

static const struct attend_view *view_of(const struct call *call) {
    return &((const struct attend_call *)(const void *)call)->view;
}

static int64_t attend_parts(const struct call *call) {
    return kvmill_attend_parts(view_of(call));
}

static void attend_part(const struct call *call, int64_t part) {
    kvmill_attend_part(view_of(call), part);
}

static int64_t merge_parts(const struct call *call) {
    return kvmill_merge_parts(view_of(call));
}

static void merge_part(const struct call *call, int64_t part) {
    kvmill_merge_part(view_of(call), part);
}

const struct phase kvmill_attend_phase = {attend_parts, attend_part};
const struct phase kvmill_merge_phase = {merge_parts, merge_part};
