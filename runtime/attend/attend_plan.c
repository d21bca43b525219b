/* SPDX-License-Identifier: Apache-2.0 */
#include "attend_plan.h"

#include "../../defs/arithmetic.h"
#include "../../ops/fail.h"
#include "../core/calibration.h"
#include "../core/numbers.h"
#include "../core/slots.h"
#include "../portable/portable.h"
#include "mask.h"

struct attend_plan kvmill_attend_plan_of(const struct kvmill_cache_geometry *geometry,
                                         int threads) {
    return (struct attend_plan){
        .heads = geometry->heads,
        .kv_heads = geometry->kv_heads,
        .ratio = geometry->ratio,
        .key_dim = geometry->key.dim,
        .value_dim = geometry->value.dim,
        .activation = geometry->activation,
        .query = geometry->activation,
        .output = geometry->activation,
        .threads = threads,
        .into_l2 = kvmill_calibration()->fetch_level == 2,
        .scale = (float)geometry->scale,
        .softcap = (float)geometry->softcap,
    };
}

/* ---- Kernels ---- */

static void set_rows(struct tiles *tiles) {
    tiles->wanted.rows = KVMILL_PORTABLE_ATTEND_ROWS;
    tiles->wanted.workspace = kvmill_portable_attend_workspace(&tiles->wanted);
    for (int i = 0; i < tiles->selection.count; i++)
        tiles->rows[i] = tile_shape(tiles, tiles->selection.tiles[i].kernel)->rows;
}

void kvmill_select_tiles(const struct kernel_search *search,
                         const struct kvmill_attend_shape *wanted, struct tiles *tiles) {
    tiles->wanted = *wanted;
    tiles->selection = kvmill_select_attend(search, &tiles->wanted);
    set_rows(tiles);
}

void kvmill_need_tiles(struct needs *needs, const struct kernel_search *search,
                       enum which_runs runs, const struct tiles *tiles) {
    const char *what = runs == EVERY_RUN ? "attend" : "attend with a mask";
    kvmill_need(needs, search, runs, what, tiles->selection.tiles[0].kernel);
}

static bool is_approximate(const struct tiles *tiles) {
    for (int i = 0; !tiles->selection.portable && i < tiles->selection.count; i++)
        if (tile_shape(tiles, tiles->selection.tiles[i].kernel)->math != KVMILL_MATH_F32)
            return true;
    return false;
}

void kvmill_describe_tiles(struct words *words, const struct tiles *tiles) {
    const struct attend_selection *selection = &tiles->selection;
    for (int i = 0; i < selection->count; i++)
        kvmill_words_add(words, "%s %s", i ? "," : "", selection->tiles[i].kernel->symbol);
    kvmill_words_add(words, " (%s%s)", selection->portable ? "" : "pack ", selection->origin);
    if (tiles->wanted.math != KVMILL_MATH_F32 && !is_approximate(tiles))
        kvmill_words_add(words, ", no kernel of math %s", kvmill_math_names[tiles->wanted.math]);
    for (int i = 0; i < selection->count; i++)
        kvmill_said(words, kvmill_by_size_words(&selection->tiles[i], words->at, words->left));
}

/* ---- The workspace ---- */

/* The largest workspace that kernels for tiles of one size need. */
static int64_t kernel_room(const struct tiles *tiles, int i) {
    const struct by_size *by_size = &tiles->selection.tiles[i];
    int64_t room = tile_shape(tiles, by_size->kernel)->workspace;
    for (uint32_t n = 0; n < by_size->count; n++)
        room = kvmill_max(room, tile_shape(tiles, by_size->measured[n].kernel)->workspace);
    for (uint32_t n = 0; n < by_size->special_count; n++)
        room = kvmill_max(room, tile_shape(tiles, by_size->special[n])->workspace);
    return room;
}

static int64_t mask_room(const struct attend_plan *plan, int64_t rows) {
    int64_t bytes = kvmill_activation_bytes(plan->activation);
    return plan->converts ? whole_lines(rows * KVMILL_MASK_POSITIONS * bytes) : 0;
}

/* A plan whose masks say which rows are read. */
static int64_t slot_room(const struct attend_plan *plan) {
    return plan->converts ? whole_lines(KVMILL_MASK_POSITIONS * (int64_t)sizeof(int64_t)) : 0;
}

static int64_t query_room(const struct attend_plan *plan, int64_t rows) {
    int64_t bytes = plan->key_dim * kvmill_activation_bytes(plan->activation);
    return plan->query != plan->activation ? whole_lines(rows * bytes) : 0;
}

static struct tile_layout lay_tile_out(const struct attend_plan *plan, int64_t rows,
                                       int64_t kernel) {
    struct tile_layout layout = {.most_rows = rows, .kernel = 0, .rows = whole_lines(kernel)};
    layout.partial = layout.rows + whole_lines(rows * (int64_t)sizeof(struct kvmill_query_row));
    layout.queries =
        layout.partial + whole_lines(rows * partial_floats(plan) * (int64_t)sizeof(float));
    layout.size = layout.queries + query_room(plan, rows);
    return layout;
}

/* The parts of the workspace for tiles of at most `rows` query rows. */
static struct tile_layout lay_tiles_out(const struct attend_plan *plan, int64_t most) {
    int64_t rows = 0, kernel = 0;
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < plan->tiles[m].selection.count && plan->tiles[m].rows[i] <= most; i++) {
            rows = kvmill_max(rows, plan->tiles[m].rows[i]);
            kernel = kvmill_max(kernel, kernel_room(&plan->tiles[m], i));
        }
    return lay_tile_out(plan, rows, kernel);
}

/* The largest number of kv heads up to a limit that divides kv_heads. */
static int64_t heads_together(const struct attend_plan *plan) {
    int64_t heads = MOST_HEADS_TOGETHER;
    while (plan->kv_heads % heads != 0)
        heads--;
    return heads;
}

size_t kvmill_attend_lay_out(struct attend_plan *plan) {
    struct workspace_layout *layout = &plan->layout;
    plan->heads_together = small_rows(&plan->tiles[0]) > 0 ? heads_together(plan) : 1;
    layout->any_tile = lay_tiles_out(plan, INT64_MAX);
    layout->small_tile = lay_tiles_out(plan, MOST_SMALL_ROWS);
    layout->extents = SLOT_HEAD;
    layout->masks =
        layout->extents + whole_lines(MOST_EXTENTS * (int64_t)sizeof(struct kvmill_extent));
    layout->slots = layout->masks + mask_room(plan, layout->any_tile.most_rows);
    layout->tiles = layout->slots + slot_room(plan);
    layout->size = layout->tiles + kvmill_max(layout->any_tile.size,
                                              layout->small_tile.size * plan->heads_together);
    layout->shared = layout->size * plan->threads;
    layout->more = layout->shared + PARTIAL_ROOM;
    return (size_t)layout->more;
}
