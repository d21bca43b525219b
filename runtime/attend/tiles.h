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

/* A tile: query rows [0, rows) of a kv head of sequence b.  They are `heads` query heads from
   first_head on, at each token from `token` on.  Tiles are numbered within a kv head. */
struct tile {
    int64_t b, kv_head, number, token, first_head, heads, rows;
    const struct kvmill_kernel *kernel;
    struct attend_sequence sequence;
    int64_t first, last; /* the positions that its rows see together */
    int64_t pieces;
};

/* Query head and token of the i-th row of a tile. */
static inline int64_t head_of_row(const struct tile *tile, int64_t i) {
    return tile->first_head + i % tile->heads;
}

static inline int64_t token_of_row(const struct tile *tile, int64_t i) {
    return tile->token + i / tile->heads;
}

/* The address of the i-th row of a tile in a tensor. */
static inline unsigned char *row_of_tile(const struct attend_view *view,
                                         const struct token_rows *rows, const struct tile *tile,
                                         int64_t i) {
    return row_at(view, rows, tile->b, head_of_row(tile, i), token_of_row(tile, i));
}

/* Cut a view into tiles, units and pieces; sets view->cuts. */
void kvmill_cut(struct attend_view *view, const struct tiles *tiles);

/* Whether units are so few that they may be cut into pieces. */
bool kvmill_units_are_few(const struct attend_view *view);

/* The kernel with the smallest tile that holds the tile's rows, or the largest kernel. */
const struct kvmill_kernel *kvmill_kernel_for(const struct attend_view *view,
                                              const struct tiles *tiles, const struct tile *tile);

/* The range of numbers for units; if there are many units, some numbers stand for none. */
int64_t kvmill_unit_numbers(const struct attend_view *view);
bool kvmill_find_unit(const struct attend_view *view, int64_t number, struct tile *tile);

/* The tile of the next kv head of a unit. */
void kvmill_next_head(const struct attend_view *view, const struct tile *tile, struct tile *next);

/* An upper bound of the positions that a tile sees. */
int64_t kvmill_longest(const struct attend_view *view);

/* The first position of a piece; for the number of pieces, the tile's last position. */
int64_t kvmill_piece_border(const struct tile *tile, int64_t piece);

/* The floats of one piece's partial results, for one kv head and for a unit. */
int64_t kvmill_tile_floats(const struct attend_view *view);
int64_t kvmill_piece_floats(const struct attend_view *view);

#endif
