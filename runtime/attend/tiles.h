/* How a run is divided.  A tile is a number of query rows that share a kv head: all query heads of
   a token, then those of the next token.  A unit is a tile of one sequence, or the tiles of several
   kv heads.  If there are few units, each is divided into pieces of its positions, whose partial
   results are merged in a separate phase.  Pieces, and thus results, depend only on shapes and
   lengths; the number of kv heads of a unit also depends on the number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_TILES_H
#define KVMILL_RUNTIME_ATTEND_TILES_H

#include "attend_plan.h"
#include "view.h"

/* Query rows [0, rows) of a kv head of sequence b: `heads` query heads from first_head on, at each
   of the tokens from `token` on; the tile of that number, counted for each kv head. */
struct tile {
    int64_t b, kv_head, number, token, first_head, heads, rows;
    const struct kvmill_kernel *kernel;
    struct attend_sequence sequence;
    int64_t first, last; /* what its rows see together */
    int64_t pieces;
};

/* Query head and token of the i-th row of a tile. */
static inline int64_t head_of_row(const struct tile *tile, int64_t i) {
    return tile->first_head + i % tile->heads;
}

static inline int64_t token_of_row(const struct tile *tile, int64_t i) {
    return tile->token + i / tile->heads;
}

/* The i-th row of a tile in a tensor. */
static inline unsigned char *row_of_tile(const struct attend_view *view,
                                         const struct token_rows *rows, const struct tile *tile,
                                         int64_t i) {
    return row_at(view, rows, tile->b, head_of_row(tile, i), token_of_row(tile, i));
}

/* Cut a view into tiles, units and pieces; sets view->cuts. */
void kvmill_cut(struct attend_view *view, const struct tiles *tiles);

/* Units are few, so that they may have pieces. */
bool kvmill_units_are_few(const struct attend_view *view);

/* The kernel with the smallest tile that holds the tile's rows, else the largest. */
const struct kvmill_kernel *kvmill_kernel_for(const struct attend_view *view,
                                              const struct tiles *tiles, const struct tile *tile);

/* Numbers to find units by; where units are many, some of them find none. */
int64_t kvmill_unit_numbers(const struct attend_view *view);
bool kvmill_find_unit(const struct attend_view *view, int64_t number, struct tile *tile);

/* The tile of the next kv head of a unit. */
void kvmill_next_head(const struct attend_view *view, const struct tile *tile, struct tile *next);

/* At least as many positions as any tile sees. */
int64_t kvmill_longest(const struct attend_view *view);

/* The first position of a piece; that of piece number `pieces` is the tile's last. */
int64_t kvmill_piece_border(const struct tile *tile, int64_t piece);

/* Floats of one piece's partial results, of one kv head and of a unit. */
int64_t kvmill_tile_floats(const struct attend_view *view);
int64_t kvmill_piece_floats(const struct attend_view *view);

#endif
