/* The data of an attention plan: numbers, kernels, and offsets in the workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_ATTEND_PLAN_H
#define KVMILL_RUNTIME_ATTEND_ATTEND_PLAN_H

#include "../../ops/cache_attention.h"
#include "../core/needs.h"
#include "../core/words.h"

/* Kernels of all tile sizes, ascending. */
struct tiles {
    struct attend_selection selection;
    int rows[MOST_TILES];
    struct kvmill_attend_shape wanted; /* the portable kernel has no shape of its own */
};

/* What a kernel's problems have as shape. */
static inline const struct kvmill_attend_shape *tile_shape(const struct tiles *tiles,
                                                           const struct kvmill_kernel *kernel) {
    return tiles->selection.portable ? &tiles->wanted : kernel->shape;
}

/* Where a tile of at most so many query rows has its own things, from where they begin. */
struct tile_layout {
    int64_t most_rows;
    int64_t kernel, rows, partial, queries;
    int64_t size;
};

/* Where things are in the workspace: for every thread a slot, then the partial results that are
   merged.  A slot begins with the flag that says who has it.  It has room for one tile of any
   size, or for small tiles of heads_together kv heads, one after the other. */
struct workspace_layout {
    int64_t extents, masks, slots, tiles; /* in a thread's slot */
    struct tile_layout any_tile, small_tile;
    int64_t size;   /* of a thread's slot */
    int64_t shared; /* partial results */
    int64_t more;   /* after them */
};

/* Bytes of all partial results. */
enum { PARTIAL_ROOM = 4 << 20 };

/* Most positions of a kernel's call, and how many of the next it is told. */
enum { MOST_POSITIONS = 2048, AHEAD = 128, MOST_EXTENTS = MOST_POSITIONS + AHEAD + 1 };

/* Most kv heads that a thread attends in turn, where a token's rows of all heads lie together, and
   most query rows of each: with more of them, arithmetic takes the time, not memory. */
enum { MOST_HEADS_TOGETHER = 4, MOST_SMALL_ROWS = 16 };

struct attend_plan {
    int64_t heads, kv_heads, ratio;
    int64_t key_dim, value_dim;
    int activation;    /* of kernels */
    int query, output; /* elements of tensors */
    int threads;
    int64_t heads_together; /* kv heads that one thread attends in turn, at most */
    int64_t read_streams;   /* where positions may be read in any order */
    float scale, softcap, empty;
    bool converts;         /* masks, or may */
    struct tiles tiles[2]; /* [1]: with a mask */
    struct workspace_layout layout;
};

/* All but kernels and layout. */
struct attend_plan kvmill_attend_plan_of(const struct kvmill_cache_geometry *geometry, int threads);

/* The kernels that attend, without or with a mask.  The shape's rows and workspace are set. */
void kvmill_select_tiles(const struct kernel_search *search,
                         const struct kvmill_attend_shape *wanted, struct tiles *tiles);

/* Such runs attend with those kernels. */
void kvmill_need_tiles(struct needs *needs, const struct kernel_search *search,
                       enum which_runs runs, const struct tiles *tiles);

/* " SYMBOL, SYMBOL (pack NAME)" */
void kvmill_say_tiles(struct words *words, const struct tiles *tiles);

/* Query rows of the smallest of them, or 0: they are not few. */
static inline int64_t small_rows(const struct tiles *tiles) {
    return tiles->rows[0] <= MOST_SMALL_ROWS ? tiles->rows[0] : 0;
}

/* Lay the workspace out, for the largest of the plan's tiles; returns its bytes. */
size_t kvmill_attend_lay_out(struct attend_plan *plan);

/* Floats of a row's partial result. */
static inline int64_t partial_floats(const struct attend_plan *plan) {
    return 2 + plan->value_dim;
}

#endif
