/* What cache attention computes.  A tile is some query rows that share a kv head: all query heads
   of one token after the other.  A unit is a tile of one sequence; where there are few of them,
   each is cut into pieces of its positions, whose partial results are merged in a phase of its own.
   Cuts depend on shapes alone, never on threads.

   SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <math.h>

#include "numbers.h"
#include "onnx_attention.h"
#include "partial.h"
#include "slots.h"

/* When units are cut: if there are fewer than `units`, into pieces of `positions` or more. */
struct cutting {
    int64_t units, positions;
};

/* Where a page holds the rows of all heads, pieces are as short as the pages that the processor can
   translate at once, so that the heads after the first find them there. */
static const struct cutting heads_apart = {64, 2048}, heads_together = {512, 512};

/* Bytes of all partial results. */
enum { PARTIAL_ROOM = 4 << 20 };

/* Positions: what the borders of pieces are multiples of; most of a kernel's call; and how many it
   is told ahead. */
enum { BORDER = 64, MOST_POSITIONS = 2048, AHEAD = 128 };

/* Places that positions are read from in turn, and least positions of each. */
enum { STREAMS = 4, LEAST_STREAM = 64 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- The workspace ---- */

static int64_t partial_floats(const struct cache_plan *plan) {
    return KVMILL_PARTIAL_HEAD + plan->geometry.value.dim;
}

/* Workspace of the hungriest kernel for tiles of one size. */
static int64_t kernel_room(const struct tiles *tiles, int i) {
    const struct by_size *by_size = &tiles->selection.tiles[i];
    int64_t room = tile_shape(tiles, by_size->kernel)->workspace;
    for (uint32_t n = 0; n < by_size->count; n++)
        room = most(room, tile_shape(tiles, by_size->measured[n].kernel)->workspace);
    return room;
}

/* Of rows that an attn_mask is converted for. */
static int64_t mask_room(const struct cache_plan *plan, int64_t rows) {
    bool converted = plan->onnx != NULL && plan->onnx->has[KVMILL_ATTENTION_MASK];
    int64_t bytes = kvmill_activation_bytes(plan->geometry.activation);
    return converted ? whole_lines(rows * KVMILL_MASK_POSITIONS * bytes) : 0;
}

/* All sizes follow from the largest tile and the hungriest kernel. */
void kvmill_attend_lay_out(struct cache_plan *plan, size_t more) {
    struct workspace_layout *layout = &plan->workspace;
    int64_t rows = 0, kernel = 0;
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < plan->tiles[m].selection.count; i++) {
            rows = most(rows, plan->tiles[m].rows[i]);
            kernel = most(kernel, kernel_room(&plan->tiles[m], i));
        }
    int64_t partial = whole_lines(rows * partial_floats(plan) * (int64_t)sizeof(float));
    layout->kernel = SLOT_HEAD;
    layout->rows = layout->kernel + whole_lines(kernel);
    layout->slots = layout->rows + whole_lines(rows * (int64_t)sizeof(struct kvmill_query_row));
    layout->partial =
        layout->slots + whole_lines((MOST_POSITIONS + AHEAD) * (int64_t)sizeof(int64_t));
    layout->masks = layout->partial + partial;
    layout->size = layout->masks + mask_room(plan, rows);
    layout->shared = layout->size * plan->threads;
    layout->more = layout->shared + PARTIAL_ROOM;
    plan->base.workspace_size = (size_t)layout->more + more;
}

static struct thread_slots slots_of(const struct cache_call *call) {
    const struct cache_plan *plan = cache_plan_of(call);
    return (struct thread_slots){call->base.workspace, plan->workspace.size, plan->threads};
}

/* ---- Tiles ---- */

/* Query rows [0, rows) of a kv head of sequence b: `heads` query heads from first_head on, at each
   of the tokens from `token` on. */
struct tile {
    int64_t b, kv_head, token, first_head, heads, rows;
    const struct kvmill_kernel *kernel;
    int64_t first, last; /* what its rows see together */
    int64_t pieces;
};

static int64_t tiles_of(const struct cache_call *call, int64_t b) {
    int64_t tokens = tokens_of(call, b);
    return (tokens + call->tile_tokens - 1) / call->tile_tokens * call->tile_cuts;
}

/* Units of the sequences before b, counted so that any b is found at once: where tiles have several
   tokens, sequence b may begin with one unit a head too many. */
static int64_t units_before(const struct cache_call *call, int64_t b) {
    int64_t tokens = tokens_before(call, b);
    int64_t tiles = tokens / call->tile_tokens * call->tile_cuts + (call->tile_tokens > 1 ? b : 0);
    return tiles * cache_plan_of(call)->geometry.kv_heads;
}

/* A query row: a query head at a token of sequence b. */
struct asker {
    int64_t b, head, token;
};

/* Position of its token; negative where MultiHeadAttention has more tokens than positions. */
static int64_t position_of(const struct cache_call *call, const struct asker *asker) {
    return kvmill_positions_along(call, asker->b, asker->head) - tokens_of(call, asker->b) +
           asker->token;
}

static bool is_causal(const struct cache_call *call, int64_t b) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    return geometry->alibi || (geometry->causal && b >= call->decoding && tokens_of(call, b) > 1);
}

static int64_t first_seen(const struct cache_call *call, const struct asker *asker,
                          int64_t position) {
    int64_t window = cache_plan_of(call)->geometry.window;
    if (window > 0 && call->lists.starts != NULL)
        return kvmill_first_in_window(call, asker->b, asker->head, window);
    return window > 0 && window <= position ? position - window + 1 : 0;
}

/* Positions that it sees. */
static void see(const struct cache_call *call, const struct asker *asker, int64_t *first,
                int64_t *last) {
    int64_t position = position_of(call, asker);
    if (call->onnx != NULL) {
        kvmill_onnx_see(call->onnx, asker->b, asker->token, first, last);
        return;
    }
    *last = is_causal(call, asker->b) ? most(0, position + 1)
                                      : kvmill_positions_along(call, asker->b, asker->head);
    *first = least(first_seen(call, asker, position), *last);
}

/* The i-th row of a tile. */
static struct asker asker_of(const struct tile *tile, int64_t i) {
    return (struct asker){tile->b, tile->first_head + i % tile->heads,
                          tile->token + i / tile->heads};
}

static void see_together(const struct cache_call *call, struct tile *tile) {
    const struct asker first = asker_of(tile, 0), last = asker_of(tile, tile->rows - 1);
    int64_t unused;
    see(call, &first, &tile->first, &unused);
    see(call, &last, &unused, &tile->last);
}

static const struct cutting *cutting_of(const struct cache_call *call) {
    const struct kvmill_cache_rows *rows = &call->side[0].rows;
    return rows->head_stride < rows->row_stride ? &heads_together : &heads_apart;
}

static int64_t pieces_of(const struct cache_call *call, const struct tile *tile) {
    int64_t positions = tile->last - tile->first;
    return most(1, least(call->splits, positions / cutting_of(call)->positions));
}

/* The smallest that holds the rows. */
static const struct kvmill_kernel *kernel_for(const struct cache_call *call, int64_t rows) {
    const struct attend_selection *selection = &call->tiles->selection;
    int i = 0;
    while (i + 1 < selection->count && call->tiles->rows[i] < rows)
        i++;
    return kvmill_kernel_of_call(&selection->tiles[i], call);
}

/* Tile number `number` of a kv head of a sequence; false if there is none. */
static bool set_tile(const struct cache_call *call, int64_t b, int64_t kv_head, int64_t number,
                     struct tile *tile) {
    int64_t ratio = cache_plan_of(call)->geometry.ratio, cuts = call->tile_cuts;
    int64_t cut = number % cuts, from = ratio * cut / cuts;
    if (number < 0)
        return false;
    tile->b = b;
    tile->kv_head = kv_head;
    tile->token = number / cuts * call->tile_tokens;
    tile->first_head = kv_head * ratio + from;
    tile->heads = ratio * (cut + 1) / cuts - from;
    tile->rows = tile->heads * least(call->tile_tokens, tokens_of(call, b) - tile->token);
    tile->kernel = kernel_for(call, tile->rows);
    see_together(call, tile);
    tile->pieces = pieces_of(call, tile);
    return true;
}

/* The last tiles of a causal sequence are the longest, so they go first.  `room` tiles are counted
   for each head. */
static bool set_unit(const struct cache_call *call, int64_t b, int64_t unit, int64_t room,
                     struct tile *tile) {
    return set_tile(call, b, unit / room, tiles_of(call, b) - 1 - unit % room, tile);
}

static bool find_among_many(const struct cache_call *call, int64_t unit, struct tile *tile) {
    int64_t b = kvmill_find_sequence(call, units_before, unit);
    int64_t before = units_before(call, b), after = units_before(call, b + 1);
    return set_unit(call, b, unit - before,
                    (after - before) / cache_plan_of(call)->geometry.kv_heads, tile);
}

/* Exactly the units there are. */
static bool find_among_few(const struct cache_call *call, int64_t unit, struct tile *tile) {
    int64_t heads = cache_plan_of(call)->geometry.kv_heads;
    int64_t b = 0;
    for (; unit >= tiles_of(call, b) * heads; b++)
        unit -= tiles_of(call, b) * heads;
    return set_unit(call, b, unit, tiles_of(call, b), tile);
}

static bool are_few(const struct cache_call *call) {
    return call->units < cutting_of(call)->units;
}

/* ---- Preparation ---- */

/* In a static batch all sequences are alike. */
static bool are_alike(const struct cache_call *call) {
    return call->seqstarts.data == NULL && call->lists.ids == NULL;
}

static int64_t kinds_of(const struct cache_call *call) {
    return are_alike(call) ? least(call->batch, 1) : call->batch;
}

static int64_t count_units(const struct cache_call *call) {
    int64_t tiles = 0, kinds = kinds_of(call);
    for (int64_t b = 0; b < kinds; b++)
        tiles += tiles_of(call, b);
    return tiles * (are_alike(call) ? call->batch : 1) * cache_plan_of(call)->geometry.kv_heads;
}

/* At least as much as any tile sees. */
static int64_t longest(const struct cache_call *call) {
    int64_t window = cache_plan_of(call)->geometry.window, length = 0, kinds = kinds_of(call);
    int64_t lists = call->lists.starts ? call->lists.rows : 1;
    int64_t heads = cache_plan_of(call)->geometry.heads;
    for (int64_t n = 0; n < kinds * lists; n++)
        length = most(length, kvmill_positions_along(call, n / lists, n % lists * heads / lists));
    return window > 0 && window < length ? least(length, window + call->tile_tokens) : length;
}

static int64_t most_tokens(const struct cache_call *call) {
    int64_t tokens = 0, kinds = kinds_of(call);
    for (int64_t b = 0; b < kinds; b++)
        tokens = most(tokens, tokens_of(call, b));
    return tokens;
}

static void set_tiles(struct cache_call *call, const struct tiles *tiles) {
    int64_t ratio = cache_plan_of(call)->geometry.ratio;
    int64_t rows = tiles->rows[tiles->selection.count - 1];
    call->tiles = tiles;
    call->tile_tokens = most(1, least(rows / ratio, most_tokens(call)));
    call->tile_cuts = call->lists.heads_apart ? ratio : (ratio + rows - 1) / rows;
    call->tile_rows = least(rows, call->tile_tokens * ratio);
}

/* Floats of one piece's partial results. */
static int64_t piece_floats(const struct cache_call *call) {
    return call->tile_rows * partial_floats(cache_plan_of(call));
}

static int64_t count_splits(const struct cache_call *call) {
    int64_t bytes = call->units * piece_floats(call) * (int64_t)sizeof(float);
    if (call->units == 0 || !are_few(call))
        return 1;
    return most(1, least(least(KVMILL_MOST_PARTIALS, PARTIAL_ROOM / bytes),
                         longest(call) / cutting_of(call)->positions));
}

void kvmill_attend_prepare(struct cache_call *call, bool masked) {
    set_tiles(call, &cache_plan_of(call)->tiles[masked]);
    call->units = count_units(call);
    call->splits = count_splits(call);
    const struct thread_slots slots = slots_of(call);
    kvmill_clear_slots(&slots);
}

/* ---- Query rows ---- */

static unsigned char *row_at(const struct cache_call *call, const struct token_rows *rows,
                             const struct asker *asker) {
    return token_at(call, rows, asker->b, asker->token) + asker->head * rows->head;
}

/* In dynamic batches the columns, too, are counted through all sequences. */
static const unsigned char *mask_at(const struct cache_call *call, const struct asker *asker) {
    if (call->mask.data == NULL)
        return NULL;
    int64_t columns = call->kvstarts.data ? index_at(call->kvstarts, asker->b) : 0;
    int64_t bytes = kvmill_activation_bytes(cache_plan_of(call)->geometry.activation);
    return row_at(call, &call->mask, asker) + columns * bytes;
}

static float sink_of(const struct cache_call *call, int64_t head) {
    if (call->sinks == NULL)
        return -INFINITY;
    return kvmill_load_float(call->sink_element, call->sinks + head * call->sink_stride, 0);
}

/* The sink is counted in the first piece. */
static void set_row(const struct cache_call *call, const struct asker *asker, bool first,
                    struct kvmill_query_row *row) {
    const struct cache_plan *plan = cache_plan_of(call);
    row->query = row_at(call, &call->query, asker);
    row->output = row_at(call, &call->output, asker);
    row->mask = mask_at(call, asker);
    row->origin = position_of(call, asker);
    row->slope = plan->geometry.alibi ? plan->slopes[asker->head] : 0;
    row->sink = first ? sink_of(call, asker->head) : -INFINITY;
    see(call, asker, &row->first, &row->last);
}

/* ---- One piece of a unit ---- */

/* Positions of piece number `piece`. */
static int64_t border(const struct tile *tile, int64_t piece) {
    int64_t count = tile->last - tile->first;
    if (piece == tile->pieces)
        return tile->last;
    return tile->first + count / BORDER * piece / tile->pieces * BORDER;
}

static void set_addresses(const struct cache_call *call, const struct tile *tile,
                          struct kvmill_attend *problem) {
    const struct cache_side *key = &call->side[0], *value = &call->side[1];
    problem->key = key->rows.data + tile->b * key->batch + tile->kv_head * key->rows.head_stride;
    problem->value =
        value->rows.data + tile->b * value->batch + tile->kv_head * value->rows.head_stride;
    if (key->rows.scale != NULL)
        problem->key_scale = key->rows.scale + tile->b * key->scale_batch +
                             tile->kv_head * key->rows.scale_head_stride;
    if (value->rows.scale != NULL)
        problem->value_scale = value->rows.scale + tile->b * value->scale_batch +
                               tile->kv_head * value->rows.scale_head_stride;
    problem->key_stride = key->rows.row_stride;
    problem->value_stride = value->rows.row_stride;
    problem->key_scale_stride = key->rows.scale_row_stride;
    problem->value_scale_stride = value->rows.scale_row_stride;
}

static struct kvmill_attend problem_of(const struct cache_call *call, const struct tile *tile,
                                       const struct kvmill_query_row *rows, void *workspace) {
    const struct cache_plan *plan = cache_plan_of(call);
    struct kvmill_attend problem = {
        .shape = tile_shape(call->tiles, tile->kernel),
        .row = rows,
        .rows = tile->rows,
        .scale = (float)plan->geometry.scale,
        .softcap = (float)plan->geometry.softcap,
        .empty = plan->empty,
        .workspace = workspace,
    };
    set_addresses(call, tile, &problem);
    return problem;
}

/* The first position of a second piece of memory. */
static int64_t joint_of(const struct cache_call *call, const struct tile *tile) {
    return call->onnx != NULL ? kvmill_onnx_joint(call->onnx, tile->b) : INT64_MAX;
}

/* Of the second piece. */
static void set_new_addresses(const struct cache_call *call, const struct tile *tile,
                              struct kvmill_attend *problem) {
    const struct token_rows *key = &call->current[0], *value = &call->current[1];
    problem->key = key->data + tile->b * key->batch + tile->kv_head * key->head;
    problem->value = value->data + tile->b * value->batch + tile->kv_head * value->head;
    problem->key_stride = key->token;
    problem->value_stride = value->token;
}

static bool sees_all(const struct kvmill_attend *problem, int64_t first, int64_t last) {
    for (int64_t i = 0; i < problem->rows; i++)
        if (problem->row[i].first > first || problem->row[i].last < last)
            return false;
    return true;
}

/* Positions whose order does not matter are read from several places in turn: memory delivers
   more than from one. */
static int64_t streams_of(const struct kvmill_attend *problem, int64_t first, int64_t count) {
    bool any_order =
        (problem->shape->terms & KVMILL_TERM_BIAS) == 0 && sees_all(problem, first, first + count);
    return any_order && count >= STREAMS * LEAST_STREAM && count % STREAMS == 0 ? STREAMS : 1;
}

/* The first `wanted` slots of a kernel's call for `count` positions, in the order they are read. */
static void list_slots(const struct cache_call *call, const struct tile *tile,
                       const struct kvmill_attend *problem, int64_t first, int64_t count,
                       int64_t wanted, int64_t *slots) {
    int64_t stream[MOST_POSITIONS], streams = streams_of(problem, first, count);
    int64_t each = wanted / streams;
    for (int64_t s = 0; s < streams; s++) {
        kvmill_fill_slots(call, tile->b, tile->first_head, first + count / streams * s, each,
                          stream);
        for (int64_t i = 0; i < each; i++)
            slots[i * streams + s] = stream[i];
    }
}

static bool has_masks(const struct cache_call *call) {
    return call->onnx != NULL && call->onnx->mask.data != NULL;
}

/* The rows of a tile for the positions of one call, which are counted from 0, with their masks.
   Query heads that share a mask are neighbours. */
static void set_masks(const struct cache_call *call, const struct tile *tile,
                      const struct kvmill_attend *problem, unsigned char *slot) {
    const struct workspace_layout *layout = &cache_plan_of(call)->workspace;
    struct kvmill_query_row *rows = (void *)(slot + layout->rows);
    int element = cache_plan_of(call)->geometry.activation;
    int64_t bytes = KVMILL_MASK_POSITIONS * kvmill_activation_bytes(element);
    for (int64_t i = 0; i < tile->rows; i++) {
        const struct asker asker = asker_of(tile, i);
        struct kvmill_query_row *row = &rows[i];
        if (i % tile->heads > 0 && call->onnx->mask.head == 0) {
            row->first = row[-1].first, row->last = row[-1].last, row->mask = row[-1].mask;
            continue;
        }
        const struct mask_part part = {asker.b, asker.head, asker.token, problem->first,
                                       problem->count};
        see(call, &asker, &row->first, &row->last);
        row->first = least(most(row->first - part.at, 0), part.count);
        row->last = most(least(row->last - part.at, part.count), row->first);
        kvmill_mask_row(&call->onnx->mask, &part, element, slot + layout->masks + i * bytes, row);
    }
}

/* Call the kernel for positions [first, last), a list of slots at a time. */
static void walk(const struct cache_call *call, const struct tile *tile, int64_t first,
                 int64_t last, unsigned char *slot, struct kvmill_attend *problem) {
    int64_t *slots = (void *)(slot + cache_plan_of(call)->workspace.slots);
    int64_t joint = joint_of(call, tile),
            room = has_masks(call) ? KVMILL_MASK_POSITIONS : MOST_POSITIONS;
    problem->slot = slots;
    for (int64_t at = first; at < last; at += problem->count) {
        int64_t end = at < joint ? least(joint, last) : last, next = at + least(room, end - at);
        int64_t next_count = least(room, end - next);
        if (at >= joint)
            set_new_addresses(call, tile, problem);
        problem->first = at;
        problem->count = next - at;
        problem->ahead = least(AHEAD, next_count / STREAMS * STREAMS);
        problem->begin = at == first;
        problem->end = next == last;
        list_slots(call, tile, problem, at, problem->count, problem->count, slots);
        list_slots(call, tile, problem, next, next_count, problem->ahead, slots + problem->count);
        if (has_masks(call)) {
            set_masks(call, tile, problem, slot);
            problem->first = 0;
        }
        tile->kernel->run(problem, 0, 1);
    }
}

/* The partial result of rows that see nothing: the sink at most. */
static void put_nothing(const struct kvmill_attend *problem, int64_t floats) {
    for (int64_t i = 0; i < problem->rows; i++) {
        float *partial = problem->partial + i * floats;
        memset(partial, 0, (size_t)floats * sizeof *partial);
        partial[0] = problem->row[i].sink;
        partial[1] = partial[0] == -INFINITY ? 0 : 1;
    }
}

/* Partial results to where the tile's rows go; pieces are `step` floats apart. */
static void finish(const struct cache_call *call, const struct tile *tile, const float *partial,
                   int64_t step) {
    const struct cache_plan *plan = cache_plan_of(call);
    int64_t floats = partial_floats(plan);
    for (int64_t i = 0; i < tile->rows; i++) {
        const struct partials partials = {partial + i * floats, tile->pieces, step,
                                          plan->geometry.value.dim, plan->empty};
        const struct asker asker = asker_of(tile, i);
        const struct merged_row row = {
            plan->partial ? KVMILL_F32 : plan->geometry.activation,
            row_at(call, &call->output, &asker),
            plan->partial ? row_at(call, &call->lse, &asker) : NULL,
        };
        kvmill_merge_row(&partials, &row);
    }
}

/* Where the partial results of a unit's pieces are: count_splits sees to it that there is room. */
static float *shared_partials(const struct cache_call *call, int64_t unit) {
    unsigned char *shared =
        (unsigned char *)call->base.workspace + cache_plan_of(call)->workspace.shared;
    return (float *)(void *)shared + unit * call->splits * piece_floats(call);
}

static void attend_piece(const struct cache_call *call, const struct tile *tile, int64_t unit,
                         int64_t piece, unsigned char *slot) {
    const struct workspace_layout *layout = &cache_plan_of(call)->workspace;
    struct kvmill_query_row *rows = (void *)(slot + layout->rows);
    struct kvmill_attend problem = problem_of(call, tile, rows, slot + layout->kernel);
    int64_t first = border(tile, piece), last = border(tile, piece + 1);
    bool is_split = tile->pieces > 1, is_nothing = first >= last;
    for (int64_t i = 0; i < tile->rows; i++) {
        const struct asker asker = asker_of(tile, i);
        set_row(call, &asker, piece == 0, &rows[i]);
    }
    if (is_split)
        problem.partial = shared_partials(call, unit) + piece * piece_floats(call);
    else if (is_nothing || cache_plan_of(call)->partial)
        problem.partial = (float *)(void *)(slot + layout->partial);
    walk(call, tile, first, last, slot, &problem);
    if (is_nothing)
        put_nothing(&problem, partial_floats(cache_plan_of(call)));
    if (!is_split && problem.partial != NULL)
        finish(call, tile, problem.partial, 0);
}

/* ---- Phases ---- */

static int64_t attend_parts(const struct cache_call *call) {
    return are_few(call) ? call->units * call->splits : units_before(call, call->batch);
}

/* Where units are many, some of the parts have none, and none has pieces. */
static bool find_unit(const struct cache_call *call, int64_t part, struct tile *tile, int64_t *unit,
                      int64_t *piece) {
    bool few = are_few(call);
    *unit = few ? part % call->units : part;
    *piece = few ? part / call->units : 0;
    return few ? find_among_few(call, *unit, tile) : find_among_many(call, *unit, tile);
}

static void attend_part(const struct cache_call *call, int64_t part) {
    int64_t unit, piece;
    struct tile tile;
    if (!find_unit(call, part, &tile, &unit, &piece) || piece >= tile.pieces)
        return;
    const struct thread_slots slots = slots_of(call);
    unsigned char *slot = kvmill_take_slot(&slots);
    attend_piece(call, &tile, unit, piece, slot);
    kvmill_give_slot(slot);
}

static int64_t merge_parts(const struct cache_call *call) {
    return call->splits > 1 ? call->units : 0;
}

static void merge_part(const struct cache_call *call, int64_t unit) {
    struct tile tile;
    if (find_among_few(call, unit, &tile) && tile.pieces > 1)
        finish(call, &tile, shared_partials(call, unit), piece_floats(call));
}

const struct phase kvmill_attend_phase = {attend_parts, attend_part};
const struct phase kvmill_merge_phase = {merge_parts, merge_part};
