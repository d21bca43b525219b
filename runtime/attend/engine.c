/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <math.h>

#include "../core/numbers.h"
#include "../core/slots.h"
#include "results.h"
#include "work.h"

/* The positions of a head's turn.  The next head then finds pages whose addresses the processor
   still knows.  No kernel takes more of them at a time. */
enum { TURN = 64 };

static struct thread_slots slots_of(const struct attend_view *view) {
    return (struct thread_slots){view->workspace, view->plan->layout.size, view->plan->threads};
}

static bool is_masked(const struct attend_view *view) {
    return view->converts || view->mask.as_it_is;
}

kvmill_status kvmill_attend_check_masks(const kvmill_plan *plan, const struct attend_view *view,
                                        kvmill_error *error) {
    return is_masked(view) ? kvmill_check_some_runs(plan, error) : KVMILL_OK;
}

void kvmill_attend_prepare(struct attend_view *view) {
    const struct thread_slots slots = slots_of(view);
    kvmill_cut(view, &view->plan->tiles[is_masked(view)]);
    kvmill_clear_slots(&slots);
}

/* ---- Query rows ---- */

/* Load a query row, converted if the kernel wants another type. */
static const unsigned char *query_of(const struct attend_work *work, int64_t i) {
    const struct attend_plan *plan = work->view->plan;
    const unsigned char *query = row_of_tile(work->view, &work->view->query, work->tile, i);
    if (plan->query == plan->activation)
        return query;
    int64_t bytes = plan->key_dim * kvmill_activation_bytes(plan->activation);
    unsigned char *to = work->own + work->layout->queries + i * bytes;
    for (int64_t d = 0; d < plan->key_dim; d++)
        kvmill_store_float(plan->activation, to, d, kvmill_load_float(plan->query, query, d));
    return to;
}

/* The sink is counted only in the first piece. */
static void set_row(const struct attend_work *work, int64_t i, bool first) {
    const struct attend_view *view = work->view;
    struct kvmill_query_row *row = &work->rows[i];
    int64_t head = head_of_row(work->tile, i), token = token_of_row(work->tile, i);
    row->query = query_of(work, i);
    row->output = row_of_tile(view, &view->output, work->tile, i);
    row->mask = view->mask.as_it_is ? mask_at(work, i, 0) : NULL;
    row->origin = position_of(&work->tile->sequence, token);
    row->slope = has_slopes(work) ? head_number(&view->slopes, head, 0) : 0;
    row->sink = first ? head_number(&view->sinks, head, -INFINITY) : -INFINITY;
    set_range(work, i, row);
}

/* ---- A kernel's problem ---- */

static const unsigned char *plus(const unsigned char *data, int64_t offset) {
    return data != NULL ? data + offset : NULL;
}

/* The address of row 0 of a kv head. */
struct head_rows {
    const unsigned char *key, *value, *key_scale, *value_scale;
};

/* The rows of a tile's head in one piece of memory. */
static struct head_rows rows_in(const struct attend_view *view, const struct tile *tile,
                                int piece) {
    const struct cache_side *key = &view->side[piece][0], *value = key + 1;
    int64_t b = tile->b, head = tile->kv_head;
    return (struct head_rows){
        key->rows.data + b * key->batch + head * key->rows.head_stride,
        value->rows.data + b * value->batch + head * value->rows.head_stride,
        plus(key->rows.scale, b * key->scale_batch + head * key->rows.scale_head_stride),
        plus(value->rows.scale, b * value->scale_batch + head * value->rows.scale_head_stride),
    };
}

static void set_addresses(struct attend_work *work, int piece) {
    const struct head_rows rows = rows_in(work->view, work->tile, piece);
    struct kvmill_attend *problem = &work->problem;
    problem->key = rows.key, problem->value = rows.value;
    problem->key_scale = rows.key_scale, problem->value_scale = rows.value_scale;
    set_row_strides(work->view->side[piece], problem);
}

static void set_after(struct kvmill_attend *problem, struct head_rows rows) {
    problem->after_key = rows.key, problem->after_value = rows.value;
    problem->after_key_scale = rows.key_scale, problem->after_value_scale = rows.value_scale;
}

static struct kvmill_attend problem_of(const struct attend_work *work) {
    const struct attend_plan *plan = work->view->plan;
    return (struct kvmill_attend){
        .shape = tile_shape(work->tiles, work->kernel),
        .row = work->rows,
        .rows = work->tile->rows,
        .extent = extents_of(work),
        .scale = plan->scale,
        .softcap = plan->softcap,
        .empty = plan->empty,
        .workspace = work->own + work->layout->kernel,
        .into_l2 = plan->into_l2,
    };
}

/* ---- The rows that a kernel reads ---- */

/* The positions of a tile that one call of the kernel attends; none if first is last. */
struct span {
    const struct tile *tile;
    int64_t first, last;
};

/* The piece of memory that contains a span. */
static int piece_of(const struct span *span) {
    return span->first >= span->tile->sequence.joint;
}

/* Append the first `count` rows of a span. */
static struct kvmill_extent *list_rows(const struct span *span, int64_t count,
                                       struct kvmill_extent *to) {
    const struct attend_sequence *sequence = &span->tile->sequence;
    int piece = piece_of(span);
    return kvmill_append_extents(&sequence->pages[piece],
                                 span->first - (piece ? sequence->joint : 0), count, to);
}

/* ---- One piece of a unit ---- */

/* ALiBi counts positions in the request.  If a list leaves out pages, each call therefore has one
   run of neighbouring pages. */
static bool counts_left_out(const struct attend_work *work) {
    return work->view->slopes.data != NULL && work->tile->sequence.pages[0].list != NULL;
}

/* The positions of queries, counted in the same way as those of the call's keys. */
static void set_origins(struct attend_work *work, int64_t position) {
    const struct attend_sequence *sequence = &work->tile->sequence;
    int64_t after = sequence->left_out - kvmill_left_out(&sequence->pages[0], position);
    for (int64_t i = 0; i < work->tile->rows; i++)
        work->rows[i].origin = position_of(sequence, token_of_row(work->tile, i)) + after;
}

/* The part of [at, last) that one call of the kernel takes: positions in one piece of memory. */
static struct span span_from(const struct attend_work *work, int64_t heads, int64_t at,
                             int64_t last) {
    const struct tile *tile = work->tile;
    int64_t joint = tile->sequence.joint;
    int64_t room = work->converts ? KVMILL_MASK_POSITIONS : heads > 1 ? TURN : MOST_POSITIONS;
    int64_t end = at < joint ? kvmill_min(joint, last) : last;
    if (at < last && counts_left_out(work))
        end = kvmill_end_of_run(&tile->sequence.pages[0], at, end);
    return (struct span){tile, at, at + kvmill_min(room, end - at)};
}

/* The same span for another head. */
static struct span span_of_head(const struct span *span, const struct attend_work *work) {
    return (struct span){work->tile, span->first, span->last};
}

/* Run the kernel for a span.  The call after it is for `next`. */
static void call_kernel(struct attend_work *work, const struct span *span, const struct span *next,
                        int64_t last) {
    struct kvmill_attend *problem = &work->problem;
    int piece = piece_of(span);
    if (piece == 1)
        set_addresses(work, 1);
    problem->first = span->first;
    problem->count = span->last - span->first;
    problem->end = span->last == last;
    struct kvmill_extent *end = list_rows(span, problem->count, extents_of(work));
    if (next->first < next->last && piece_of(next) == piece) {
        end = list_rows(next, kvmill_min(AHEAD, next->last - next->first), end);
        set_after(problem, rows_in(work->view, next->tile, piece));
    } else {
        set_after(problem, (struct head_rows){0});
    }
    *end = (struct kvmill_extent){0};
    if (work->converts)
        kvmill_set_masks(work);
    if (counts_left_out(work))
        set_origins(work, span->first);
    work->kernel->run(problem, 0, 1);
    problem->begin = 0;
}

/* Run all calls for [first, last) of the tiles of some heads, which take turns.  Returns false if
   there is nothing to attend.  `after` is what this thread attends next. */
static bool call_kernels(struct attend_work *work, int64_t heads, int64_t first, int64_t last,
                         const struct span *after) {
    struct span span = span_from(work, heads, first, last);
    for (int64_t h = 0; h < heads; h++)
        work[h].problem.begin = 1;
    if (span.first >= last)
        return false;
    while (span.first < last) {
        struct span next = span_from(work, heads, span.last, last);
        for (int64_t h = 0; h < heads; h++) {
            const struct span here = span_of_head(&span, &work[h]);
            const struct span turn = h + 1 < heads ? span_of_head(&span, &work[h + 1]) : next;
            call_kernel(&work[h], &here, turn.first < last ? &turn : after, last);
        }
        span = next;
    }
    return true;
}

/* The kernel: the one without a mask, if masks hide nothing and it holds the tile. */
static void choose_kernel(struct attend_work *work, int64_t first, int64_t last) {
    const struct attend_view *view = work->view;
    const struct tiles *plain = &view->plan->tiles[0];
    int count = plain->selection.count;
    bool may_do = work->compacts && work->tile->sequence.cells.data == NULL && count > 0 &&
                  plain->rows[count - 1] >= work->tile->rows;
    if (!may_do || !kvmill_masks_say_nothing(work, first, last))
        return;
    work->tiles = plain;
    work->kernel = kvmill_kernel_for(view, plain, work->tile);
    work->converts = work->compacts = false;
}

/* Prepare the calls for a span.  partial: where the piece's partial result goes, or NULL if it is
   the only piece. */
static void begin_piece(struct attend_work *work, int64_t piece, const struct span *span,
                        float *partial) {
    const struct attend_plan *plan = work->view->plan;
    const struct tile *tile = work->tile;
    for (int64_t i = 0; i < tile->rows; i++)
        set_range(work, i, &work->rows[i]);
    choose_kernel(work, span->first, span->last);
    for (int64_t i = 0; i < tile->rows; i++)
        set_row(work, i, piece == 0);
    bool whole = work->view->lse.data != NULL || plan->output != plan->activation;
    work->problem = problem_of(work);
    set_addresses(work, 0);
    work->problem.partial = partial;
    if (partial == NULL && (span->first >= span->last || whole || work->compacts))
        work->problem.partial = (float *)(void *)(work->own + work->layout->partial);
}

static void end_piece(const struct attend_work *work, bool called, const float *partial) {
    if (!called)
        kvmill_put_nothing(&work->problem, partial_floats(work->view->plan));
    if (partial == NULL && work->problem.partial != NULL)
        kvmill_finish_tile(work->view, work->tile, work->problem.partial, 0);
}

static bool call_for_masked(struct attend_work *work, int64_t first, int64_t last) {
    const struct span none = {0};
    return work->compacts ? kvmill_call_for_seen(work, first, last)
                          : call_kernels(work, 1, first, last, &none);
}

/* Attend one piece of the tiles of some heads, which take turns unless there are masks.  partial:
   the partial result of the first head, or NULL if this is the only piece. */
static void attend_piece(struct attend_work *work, int64_t heads, int64_t piece,
                         const struct span *span, const struct span *after, float *partial) {
    for (int64_t h = 0; h < heads; h++)
        begin_piece(&work[h], piece, span,
                    partial == NULL ? NULL : partial + h * kvmill_tile_floats(work->view));
    bool masked = work->converts || work->compacts;
    bool called = !masked && call_kernels(work, heads, span->first, span->last, after);
    for (int64_t h = 0; h < heads; h++) {
        called = masked ? call_for_masked(&work[h], span->first, span->last) : called;
        end_piece(&work[h], called, partial);
    }
}

/* ---- Phases ---- */

int64_t kvmill_attend_parts(const struct attend_view *view) {
    return kvmill_unit_numbers(view) * view->cuts.splits;
}

/* The place for a tile in the thread's slot, after `number` others. */
static struct attend_work work_in(const struct attend_view *view, unsigned char *slot,
                                  const struct tile *tile, int64_t before) {
    const struct workspace_layout *layout = &view->plan->layout;
    bool small = view->cuts.heads > 1;
    struct attend_work work = {
        .view = view,
        .tile = tile,
        .tiles = view->cuts.tiles,
        .kernel = tile->kernel,
        .converts = view->converts,
        .compacts = view->compacts,
        .slot = slot,
        .layout = small ? &layout->small_tile : &layout->any_tile,
    };
    work.own = slot + layout->tiles + before * work.layout->size;
    work.rows = (struct kvmill_query_row *)(void *)(work.own + work.layout->rows);
    return work;
}

/* The first tile of a part, and its positions; false if there is none. */
static bool find_part(const struct attend_view *view, int64_t part, struct tile *tile,
                      struct span *span) {
    int64_t units = kvmill_unit_numbers(view), piece = part / units;
    if (!kvmill_find_unit(view, part % units, tile) || piece >= tile->pieces)
        return false;
    *span =
        (struct span){tile, kvmill_piece_border(tile, piece), kvmill_piece_border(tile, piece + 1)};
    return true;
}

/* What this thread attends next, if known.  It is unknown which part another thread takes next. */
static struct span part_after(const struct attend_view *view, int64_t part, struct tile *tile) {
    struct span span = {0};
    if (view->plan->threads == 1 && part + 1 < kvmill_attend_parts(view))
        find_part(view, part + 1, tile, &span);
    return span;
}

void kvmill_attend_part(const struct attend_view *view, int64_t part) {
    int64_t units = kvmill_unit_numbers(view), unit = part % units, piece = part / units;
    const struct thread_slots slots = slots_of(view);
    struct tile tiles[MOST_HEADS_TOGETHER], next;
    struct attend_work work[MOST_HEADS_TOGETHER];
    struct span span;
    if (!find_part(view, part, &tiles[0], &span))
        return;
    const struct span after = part_after(view, part, &next);
    int64_t heads = view->cuts.heads;
    unsigned char *slot = kvmill_acquire_slot(&slots);
    for (int64_t h = 0; h < heads; h++) {
        if (h > 0)
            kvmill_next_head(view, &tiles[h - 1], &tiles[h]);
        work[h] = work_in(view, slot, &tiles[h], h);
    }
    attend_piece(work, heads, piece, &span, &after,
                 tiles[0].pieces > 1
                     ? kvmill_shared_partials(view, unit) + piece * kvmill_piece_floats(view)
                     : NULL);
    kvmill_release_slot(slot);
}

double kvmill_attend_work(const struct attend_view *view) {
    const struct attend_plan *plan = view->plan;
    double row = (double)(plan->key_dim + plan->value_dim) * sizeof(float);
    return (double)count_before(&view->tokens, view->batch) * (double)kvmill_longest(view) *
           (double)plan->kv_heads * row;
}

int64_t kvmill_merge_parts(const struct attend_view *view) {
    return view->cuts.splits > 1 ? view->cuts.units : 0;
}

void kvmill_merge_part(const struct attend_view *view, int64_t unit) {
    struct tile tile;
    if (!kvmill_find_unit(view, unit, &tile) || tile.pieces == 1)
        return;
    int64_t heads = view->cuts.heads;
    const float *partial = kvmill_shared_partials(view, unit);
    for (int64_t h = 0; h < heads; h++, partial += kvmill_tile_floats(view)) {
        kvmill_finish_tile(view, &tile, partial, kvmill_piece_floats(view));
        if (h + 1 < heads)
            kvmill_next_head(view, &tile, &tile);
    }
}

double kvmill_merge_work(const struct attend_view *view) {
    return (double)(view->cuts.units * view->cuts.splits) * (double)kvmill_piece_floats(view) *
           sizeof(float);
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

static double attend_work(const struct call *call) {
    return kvmill_attend_work(view_of(call));
}

static int64_t merge_parts(const struct call *call) {
    return kvmill_merge_parts(view_of(call));
}

static void merge_part(const struct call *call, int64_t part) {
    kvmill_merge_part(view_of(call), part);
}

static double merge_work(const struct call *call) {
    return kvmill_merge_work(view_of(call));
}

const struct phase kvmill_attend_phase = {attend_parts, attend_part, attend_work};
const struct phase kvmill_merge_phase = {merge_parts, merge_part, merge_work};
