/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles.h"

#include "../core/numbers.h"
#include "partial.h"

/* If there are fewer than FEW_TILES tiles, they are cut into pieces of LEAST_PIECE positions or
   more. This does not depend on whether heads take turns, so results have the same bits. */
enum { FEW_TILES = 64, LEAST_PIECE = 2048 };

/* Pieces begin at multiples of this. */
enum { BORDER = 64 };

static int64_t groups_of(const struct attend_view *view) {
    return view->plan->kv_heads / view->cuts.heads;
}

/* ---- Tiles ---- */

static int64_t tiles_of_tokens(const struct attend_view *view, int64_t tokens) {
    return (tokens + view->cuts.tokens - 1) / view->cuts.tokens * view->cuts.parts;
}

static int64_t count_in_turn(const struct attend_view *view, int64_t b) {
    const struct token_span span = tokens_in_turn(view, b);
    return span.last - span.first;
}

static int64_t tiles_of(const struct attend_view *view, int64_t b) {
    return tiles_of_tokens(view, count_in_turn(view, b));
}

/* The units of sequences before b, counted so that any b is found at once.  If tiles have several
   tokens, a sequence may be counted with one unit too many per head.  In a turn of a ring, all
   sequences have the same number. */
static int64_t units_before(const void *context, int64_t b) {
    const struct attend_view *view = context;
    const struct attend_cuts *cuts = &view->cuts;
    int64_t tokens = count_before(&view->tokens, b);
    int64_t tiles = tokens / cuts->tokens * cuts->parts + (cuts->tokens > 1 ? b : 0);
    if (view->turn != NULL)
        tiles = b * cuts->room;
    return tiles * groups_of(view);
}

/* Query heads differ if masks do.  Tokens that see nothing do not count. */
static void see_together(const struct attend_view *view, struct tile *tile) {
    int64_t step = view->mask.skips && view->mask.rows.head != 0 ? 1 : tile->heads;
    tile->first = INT64_MAX, tile->last = 0;
    for (int64_t i = 0; i < tile->rows; i += step) {
        int64_t first, last;
        kvmill_see_through(view, &tile->sequence, tile->b, head_of_row(tile, i),
                           token_of_row(tile, i), &first, &last);
        if (first < last) {
            tile->first = kvmill_min(tile->first, first);
            tile->last = kvmill_max(tile->last, last);
        }
    }
    tile->first = kvmill_min(tile->first, tile->last);
}

static int64_t pieces_of(const struct attend_view *view, const struct tile *tile) {
    int64_t positions = tile->last - tile->first;
    return kvmill_max(1, kvmill_min(view->cuts.splits, positions / LEAST_PIECE));
}

/* The numbers that a kernel may have as constants.  All calls of a tile use one kernel; rows in two
   pieces of memory may have two strides, and so none. */
static struct kvmill_attend numbers_of(const struct attend_view *view, const struct tile *tile) {
    struct kvmill_attend numbers = {0};
    if (tile->sequence.joint != INT64_MAX)
        return numbers;
    numbers.rows = tile->rows;
    set_row_strides(view->side[0], &numbers);
    return numbers;
}

const struct kvmill_kernel *kvmill_kernel_for(const struct attend_view *view,
                                              const struct tiles *tiles, const struct tile *tile) {
    const struct kvmill_attend numbers = numbers_of(view, tile);
    int i = 0;
    while (i + 1 < tiles->selection.count && tiles->rows[i] < tile->rows)
        i++;
    return kvmill_kernel_of_problem(&tiles->selection.tiles[i], &view->size, &numbers);
}

/* Tile number `number` of a kv head of a sequence; false if there is none. */
static bool set_tile(const struct attend_view *view, int64_t b, int64_t kv_head, int64_t number,
                     struct tile *tile) {
    int64_t ratio = view->plan->ratio, parts = view->cuts.parts;
    int64_t part = number % parts, from = ratio * part / parts;
    const struct token_span span = tokens_in_turn(view, b);
    if (number < 0)
        return false;
    tile->b = b;
    tile->kv_head = kv_head;
    tile->number = number;
    tile->token = span.first + number / parts * view->cuts.tokens;
    tile->first_head = kv_head * ratio + from;
    tile->heads = ratio * (part + 1) / parts - from;
    tile->rows = tile->heads * kvmill_min(view->cuts.tokens, span.last - tile->token);
    view->look(view, b, tile->first_head, &tile->sequence);
    tile->kernel = kvmill_kernel_for(view, view->cuts.tiles, tile);
    see_together(view, tile);
    tile->pieces = pieces_of(view, tile);
    return true;
}

void kvmill_next_head(const struct attend_view *view, const struct tile *tile, struct tile *next) {
    set_tile(view, tile->b, tile->kv_head + 1, tile->number, next);
}

int64_t kvmill_piece_border(const struct tile *tile, int64_t piece) {
    int64_t count = tile->last - tile->first;
    if (piece == tile->pieces)
        return tile->last;
    return tile->first + count / BORDER * piece / tile->pieces * BORDER;
}

/* ---- Units ---- */

/* The last tiles of a causal sequence are the longest, so they go first.  `room` tiles are reserved
   for each group of heads. */
static bool set_unit(const struct attend_view *view, int64_t b, int64_t unit, int64_t room,
                     struct tile *tile) {
    return set_tile(view, b, unit / room * view->cuts.heads, tiles_of(view, b) - 1 - unit % room,
                    tile);
}

static bool find_among_many(const struct attend_view *view, int64_t unit, struct tile *tile) {
    int64_t b = kvmill_find_sequence(view->batch, units_before, view, unit);
    int64_t before = units_before(view, b), after = units_before(view, b + 1);
    return set_unit(view, b, unit - before, (after - before) / groups_of(view), tile);
}

/* The exact number of units. */
static bool find_among_few(const struct attend_view *view, int64_t unit, struct tile *tile) {
    int64_t groups = groups_of(view), b = 0;
    for (; unit >= tiles_of(view, b) * groups; b++)
        unit -= tiles_of(view, b) * groups;
    return set_unit(view, b, unit, tiles_of(view, b), tile);
}

bool kvmill_units_are_few(const struct attend_view *view) {
    return view->cuts.units * view->cuts.heads < FEW_TILES;
}

int64_t kvmill_unit_numbers(const struct attend_view *view) {
    return kvmill_units_are_few(view) ? view->cuts.units : units_before(view, view->batch);
}

bool kvmill_find_unit(const struct attend_view *view, int64_t number, struct tile *tile) {
    return kvmill_units_are_few(view) ? find_among_few(view, number, tile)
                                      : find_among_many(view, number, tile);
}

/* ---- Preparation ---- */

static bool are_alike(const struct attend_view *view) {
    return view->tokens.starts.data == NULL;
}

/* If there are at most this many sequences, all of them are examined. */
static int64_t kinds_of(const struct attend_view *view) {
    return are_alike(view) ? kvmill_min(view->batch, 1) : view->batch;
}

static int64_t count_units(const struct attend_view *view) {
    int64_t tiles = 0, kinds = kinds_of(view);
    for (int64_t b = 0; b < kinds; b++)
        tiles += tiles_of(view, b);
    return tiles * (are_alike(view) ? view->batch : 1) * groups_of(view);
}

static int64_t most_tokens(const struct attend_view *view) {
    int64_t tokens = 0, kinds = kinds_of(view);
    for (int64_t b = 0; b < kinds; b++)
        tokens = kvmill_max(tokens, count_in_turn(view, b));
    return tokens;
}

int64_t kvmill_longest(const struct attend_view *view) {
    bool is_cut = view->window > 0 && view->window < view->longest;
    return is_cut ? kvmill_min(view->longest, view->window + view->cuts.tokens) : view->longest;
}

int64_t kvmill_tile_floats(const struct attend_view *view) {
    return view->cuts.rows * partial_floats(view->plan);
}

int64_t kvmill_piece_floats(const struct attend_view *view) {
    return view->cuts.heads * kvmill_tile_floats(view);
}

static int64_t count_splits(const struct attend_view *view) {
    int64_t bytes = view->cuts.units * kvmill_piece_floats(view) * (int64_t)sizeof(float);
    if (view->cuts.units == 0 || !kvmill_units_are_few(view))
        return 1;
    int64_t room = kvmill_min(KVMILL_MOST_PARTIALS, PARTIAL_ROOM / bytes);
    return kvmill_max(1, kvmill_min(room, kvmill_longest(view) / LEAST_PIECE));
}

/* ---- Heads in turn ---- */

/* Parts per thread, so that no thread waits long for the last one. */
enum { LEAST_PARTS = 2 };

/* Whether a token's rows of all heads are adjacent, so that heads in turn read memory in order. */
static bool lie_together(const struct cache_side *side) {
    return side->rows.head_stride < side->rows.row_stride;
}

/* Whether all heads see the same positions; masks may turn out to hide nothing. */
static bool see_the_same(const struct attend_view *view) {
    return view->heads_alike && !view->heads_apart && view->mask.rows.head == 0 &&
           (!view->converts || view->compacts);
}

/* Whether the kernels for the view have small tiles, which hold its rows. */
static bool tiles_are_small(const struct attend_view *view) {
    const struct tiles *tiles = view->plan->tiles;
    return view->cuts.rows <= small_rows(&tiles[0]) &&
           (!view->converts || view->cuts.rows <= small_rows(&tiles[1]));
}

static bool may_take_turns(const struct attend_view *view) {
    return see_the_same(view) && tiles_are_small(view) &&
           lie_together(&view->side[0][0]) && lie_together(&view->side[0][1]);
}

/* kv heads of a unit: as many as leave enough parts for all threads. */
static int64_t heads_in_turn(const struct attend_view *view) {
    int64_t heads = may_take_turns(view) ? view->plan->heads_together : 1;
    int64_t parts = view->cuts.units * view->cuts.splits;
    while (heads > 1 && parts / heads < LEAST_PARTS * view->plan->threads)
        heads /= 2;
    return heads;
}

/* ---- Preparing a view ---- */

void kvmill_cut(struct attend_view *view, const struct tiles *tiles) {
    struct attend_cuts *cuts = &view->cuts;
    int64_t ratio = view->plan->ratio, rows = tiles->rows[tiles->selection.count - 1];
    cuts->tiles = tiles;
    cuts->tokens = kvmill_max(1, kvmill_min(rows / ratio, most_tokens(view)));
    cuts->parts = view->heads_apart ? ratio : (ratio + rows - 1) / rows;
    cuts->rows = kvmill_min(rows, cuts->tokens * ratio);
    cuts->room = tiles_of_tokens(view, most_tokens(view));
    cuts->heads = 1;
    cuts->units = count_units(view);
    cuts->splits = count_splits(view);
    cuts->heads = heads_in_turn(view);
    cuts->units /= cuts->heads;
}
