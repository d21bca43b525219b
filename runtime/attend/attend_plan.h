/* The data of an attention plan: numbers, kernels, and offsets in the workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_ATTEND_PLAN_H
#define KVMILL_RUNTIME_ATTEND_ATTEND_PLAN_H

#include "../../ops/cache_attention.h"
#include "../core/needs.h"
#include "../core/plan_words.h"

/* Kernels of all tile sizes, ascending. */
struct tiles {
    struct attend_selection selection;
    int rows[MOST_TILES];
    struct kvmill_attend_shape
        wanted; /* the shape that kernels must fit; a portable kernel has none */
};

/* The shape of a kernel's problems. */
static inline const struct kvmill_attend_shape *tile_shape(const struct tiles *tiles,
                                                           const struct kvmill_kernel *kernel) {
    return tiles->selection.portable ? &tiles->wanted : kernel->shape;
}

/* The parts of a slot for a tile, as offsets from its beginning. */
struct tile_layout {
    int64_t most_rows;
    int64_t kernel, rows, partial, queries;
    int64_t size;
};

/* Offsets in the workspace: a slot for each thread, then the partial results that are merged.  A
   slot begins with the flag that says whether it is taken.  It has room for one tile of any size,
   or for small tiles of heads_together kv heads, one after the other. */
struct workspace_layout {
    int64_t extents, masks, slots, tiles; /* in a thread's slot */
    struct tile_layout any_tile, small_tile;
    int64_t size;   /* bytes of a slot */
    int64_t shared; /* where partial results begin */
    int64_t more;   /* where the rest begins, after them */
};

/* Bytes of all partial results. */
enum { PARTIAL_ROOM = 4 << 20 };

/* The most positions of a kernel's call, and the most of the next call that the kernel is told. */
enum { MOST_POSITIONS = 2048, AHEAD = 128, MOST_EXTENTS = MOST_POSITIONS + AHEAD + 1 };

/* The most kv heads that a thread attends in turn, if a token's rows of all heads are adjacent, and
   the most query rows of each.  With more rows, time goes to arithmetic and not to memory. */
enum { MOST_HEADS_TOGETHER = 4, MOST_SMALL_ROWS = 16 };

struct attend_plan {
    int64_t heads, kv_heads, ratio;
    int64_t key_dim, value_dim;
    int activation;    /* element type of kernels */
    int query, output; /* element types of tensors */
    int threads;
    int64_t heads_together; /* the most kv heads that one thread attends in turn */
    bool into_l2;           /* rows are prefetched into the second-level cache */
    float scale, softcap, empty;
    bool converts;         /* whether masks are converted, at least in some runs */
    struct tiles tiles[2]; /* [1]: kernels with a mask */
    struct workspace_layout layout;
};

/* Everything except kernels and layout. */
struct attend_plan kvmill_attend_plan_of(const struct kvmill_cache_geometry *geometry, int threads);

/* The kernels that attend, without a mask or with one.  The shape's rows and workspace are set. */
void kvmill_select_tiles(const struct kernel_search *search,
                         const struct kvmill_attend_shape *wanted, struct tiles *tiles);

/* Record that runs attend with these kernels. */
void kvmill_need_tiles(struct needs *needs, const struct kernel_search *search,
                       enum which_runs runs, const struct tiles *tiles);

/* The symbols as text: " SYMBOL, SYMBOL (pack NAME)". */
void kvmill_describe_tiles(struct words *words, const struct tiles *tiles);

/* Query rows of the smallest kernel, or 0 if it is not for few rows. */
static inline int64_t small_rows(const struct tiles *tiles) {
    return tiles->rows[0] <= MOST_SMALL_ROWS ? tiles->rows[0] : 0;
}

/* Lay out the workspace for the largest of the plan's tiles.  Returns its bytes. */
size_t kvmill_attend_lay_out(struct attend_plan *plan);

/* The floats of a row's partial result. */
static inline int64_t partial_floats(const struct attend_plan *plan) {
    return 2 + plan->value_dim;
}

#endif
