/* The cache of cache attention: stores new rows, and reads all rows back.

   SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention_plan.h"

#include "../core/numbers.h"
#include "../core/write_tokens.h"

/* A part moves about that many bytes. */
static const int64_t part_bytes = KVMILL_CACHED_BYTES;

/* Rows of one call of a kernel. */
enum { MOST_SLOTS = 512 };

/* ---- One way ---- */

/* Rows between the cache and activations, whose tokens are the new ones or all positions. */
struct way {
    bool writes;
    int64_t (*before)(const void *call, int64_t b); /* tokens of earlier sequences */
    const struct token_rows *activations;
    int64_t heads, repeat, total;
};

static int64_t new_before(const void *call, int64_t b) {
    return count_before(&((const struct cache_call *)call)->base.view.tokens, b);
}

static int64_t kept_before(const void *call, int64_t b) {
    return kvmill_kept_before(call, b);
}

static struct way way_of_store(const struct cache_call *call) {
    return (struct way){true, new_before,  call->current, cache_plan_of(call)->geometry.kv_heads,
                        1,    call->tokens};
}

static struct way way_of_load(const struct cache_call *call) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    return (struct way){false,
                        kept_before,
                        call->loaded,
                        geometry->kv_heads,
                        geometry->repeat,
                        kvmill_kept_before(call, call->base.view.batch)};
}

/* The bytes that are written for a token. */
static int64_t token_bytes(const struct cache_call *call, const struct way *way) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    const struct kvmill_format formats[] = {geometry->key, geometry->value};
    int64_t bytes = 0;
    for (int v = 0; v < kvmill_stored_sides(geometry); v++) {
        const struct kvmill_format plain = {geometry->activation, formats[v].dim, 0, 0};
        bytes += kvmill_format_row_bytes(way->writes ? &formats[v] : &plain);
    }
    return way->heads * way->repeat * bytes;
}

/* Whether kernels combine rows of several tokens: those of a tile, or rows of blocks that fill
 * whole lines. */
static bool put_together(int element) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(element);
    return parts->tile > 0 || parts->block > 0;
}

static int64_t part_tokens(const struct cache_call *call, const struct way *way) {
    const struct kvmill_cache_geometry *geometry = &cache_plan_of(call)->geometry;
    int64_t tokens = kvmill_max(1, part_bytes / token_bytes(call, way));
    bool together = put_together(geometry->key.element) || put_together(geometry->value.element);
    int64_t step = way->writes && together ? KVMILL_KEY_TILE : 1;
    return (tokens + step - 1) / step * step;
}

static int64_t count_parts(const struct cache_call *call, const struct way *way) {
    int64_t tokens = part_tokens(call, way);
    return (way->total + tokens - 1) / tokens;
}

/* The activations of token 0 of a sequence. */
static unsigned char *activation_at(const struct cache_call *call, const struct way *way,
                                    const struct token_rows *rows, int64_t b) {
    int64_t before = cache_plan_of(call)->geometry.dynamic ? way->before(call, b) : 0;
    return rows->data + b * rows->batch + before * rows->token;
}

/* The address of a side in sequence b. */
static struct kvmill_cache_rows rows_of(const struct cache_side *side, int64_t b) {
    struct kvmill_cache_rows rows = side->rows;
    rows.data += b * side->batch;
    if (rows.scale != NULL)
        rows.scale += b * side->scale_batch;
    return rows;
}

/* K and V (v = 0, 1) of tokens [first, first + count) of a sequence, whose rows are listed in
 * `slots`. */
static void move_rows(const struct cache_call *call, const struct way *way, int v, int64_t b,
                      int64_t first, int64_t count, const int64_t *slots) {
    const struct cache_plan *plan = cache_plan_of(call);
    const struct token_rows *rows = &way->activations[v];
    const struct by_size *kernels = way->writes ? plan->writers : plan->readers;
    const struct kvmill_convert problem = {
        .shape = &plan->shapes[v],
        .activation = activation_at(call, way, rows, b) + first * rows->token,
        .token_stride = rows->token,
        .head_stride = rows->head,
        .cache = rows_of(&call->base.view.side[0][v], b),
        .slot = slots,
        .heads = way->heads,
        .repeat = way->repeat,
        .stream = way->total * token_bytes(call, way) > KVMILL_CACHED_BYTES,
        .saturate = plan->geometry.saturates,
    };
    kvmill_kernel_of_problem(&kernels[v], &call->base.view.size, &problem)->run(&problem, 0, count);
}

/* Tokens [first, last) of a sequence. */
static void move_tokens(const struct cache_call *call, const struct way *way, int64_t b,
                        int64_t first, int64_t last) {
    int64_t slots[MOST_SLOTS];
    int sides = kvmill_stored_sides(&cache_plan_of(call)->geometry);
    int64_t older =
        positions_of(call, b) - (way->writes ? tokens_of(call, b) : kvmill_kept(call, b));
    const struct attend_pages pages = kvmill_cache_pages(call, b, 0);
    for (; first < last; first += MOST_SLOTS) {
        int64_t count = kvmill_min(MOST_SLOTS, last - first);
        kvmill_fill_slots(&pages, older + first, count, slots);
        for (int v = 0; v < sides; v++)
            move_rows(call, way, v, b, first, count, slots);
    }
}

/* Tokens [first, last) of all sequences together. */
static void move_range(const struct cache_call *call, const struct way *way, int64_t first,
                       int64_t last) {
    int64_t b = kvmill_find_sequence(call->base.view.batch, way->before, call, first);
    for (; first < last; b++) {
        int64_t begin = way->before(call, b);
        int64_t end = kvmill_min(last, way->before(call, b + 1));
        move_tokens(call, way, b, first - begin, end - begin);
        first = end;
    }
}

static void move_part(const struct cache_call *call, const struct way *way, int64_t part) {
    int64_t tokens = part_tokens(call, way);
    move_range(call, way, part * tokens, kvmill_min(way->total, (part + 1) * tokens));
}

/* ---- Into a ring ---- */

/* The parts of a sequence; all sequences have the same number. */
static int64_t parts_of_sequence(const struct cache_call *call, const struct way *way) {
    int64_t tokens = part_tokens(call, way);
    return call->stored / tokens + (call->stored % tokens != 0);
}

static void store_in_ring(const struct cache_call *call, const struct way *way, int64_t part) {
    int64_t parts = parts_of_sequence(call, way), tokens = part_tokens(call, way);
    struct token_span span = kvmill_tokens_to_store(call, part / parts);
    span.first += part % parts * tokens;
    move_tokens(call, way, part / parts, span.first, kvmill_min(span.last, span.first + tokens));
}

/* ---- Phases ---- */

static const struct cache_call *call_of(const struct call *base) {
    return (const struct cache_call *)(const void *)base;
}

static int64_t write_parts(const struct call *base) {
    const struct cache_call *call = call_of(base);
    struct way way = way_of_store(call);
    return call->ring > 0 ? call->base.view.batch * parts_of_sequence(call, &way)
                          : count_parts(call, &way);
}

static double write_work(const struct call *base) {
    struct way way = way_of_store(call_of(base));
    return (double)way.total * (double)token_bytes(call_of(base), &way);
}

static void write_part(const struct call *base, int64_t part) {
    const struct cache_call *call = call_of(base);
    struct way way = way_of_store(call);
    (call->ring > 0 ? store_in_ring : move_part)(call, &way, part);
}

static int64_t read_parts(const struct call *base) {
    struct way way = way_of_load(call_of(base));
    return count_parts(call_of(base), &way);
}

static double read_work(const struct call *base) {
    struct way way = way_of_load(call_of(base));
    return (double)way.total * (double)token_bytes(call_of(base), &way);
}

static void read_part(const struct call *base, int64_t part) {
    struct way way = way_of_load(call_of(base));
    move_part(call_of(base), &way, part);
}

const struct phase kvmill_write_phase = {write_parts, write_part, write_work};
const struct phase kvmill_read_phase = {read_parts, read_part, read_work};
