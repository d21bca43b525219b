/* The interface between packs of generated kernels and the library.

   This is the only header that a generated file includes.  Every pack contains a copy, so that it can be
   compiled anywhere; KVMILL_KERNEL_ABI tells the runtime whether it can use the pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_KERNEL_H
#define KVMILL_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVMILL_KERNEL_ABI        10
#define KVMILL_OLDEST_KERNEL_ABI 6 /* that the runtime can use.  Packs of kvmill 0.1 have 3 or less. */

/* A field of a shape that the kernel leaves open: the kernel serves every value. */
#define KVMILL_ANY (-1)

/* What a kernel computes.  Kernels of one family with equal shapes are interchangeable. */
enum kvmill_family {
    KVMILL_STORE_ROWS = 1, /* rows of update -> their slots of the cache */
    KVMILL_KEEP_ROWS = 2,  /* rows of past that no update replaces -> present */
    KVMILL_WRITE_ROWS = 3, /* rows of activations -> cache rows, converted or quantised */
    KVMILL_READ_ROWS = 4,  /* cache rows -> rows of activations */
    KVMILL_ATTEND = 5,     /* a tile of query rows over rows of one kv head */
    KVMILL_GATHER = 6,     /* windows of an operand, where indices say -> a result */
    KVMILL_SCATTER = 7,    /* windows of updates -> results, combined in order */
    KVMILL_SCATTER_REGION = 8, /* the same for several results at once, by a region */
    KVMILL_SCORE_PAGES = 9,   /* a query and summaries of pages -> scores */
    KVMILL_SELECT_PAGES = 10, /* scores -> the best, in the order of pages */
    KVMILL_FLOW_PROGRAM = 11  /* pages of a paged cache summarised, or scored for a query */
};

/* Integers at any address. */
typedef uint64_t kvmill_word64 __attribute__((vector_size(64), may_alias, aligned(1)));
typedef uint64_t kvmill_word32 __attribute__((vector_size(32), may_alias, aligned(1)));
typedef uint64_t kvmill_word16 __attribute__((vector_size(16), may_alias, aligned(1)));
typedef uint64_t kvmill_word8 __attribute__((may_alias, aligned(1)));
typedef uint32_t kvmill_word4 __attribute__((may_alias, aligned(1)));
typedef uint16_t kvmill_word2 __attribute__((may_alias, aligned(1)));
typedef int64_t kvmill_index __attribute__((may_alias, aligned(1)));

/* The strides of a folded cache [batch, head, slot, row], in kernel units. */
struct kvmill_row_strides {
    int64_t batch, head, row;
};

/* The problem of STORE_ROWS and KEEP_ROWS: a cache folded to [batch, heads, capacity, row], an
   update folded to [batch, heads, rows, row].  A unit is a byte, or a nibble (low nibble first)
   for kernels with unit_bits 4; the base pointers are those of unit 0.  starts NULL means 0. */
struct kvmill_rows {
    const unsigned char *past;
    const unsigned char *update;
    unsigned char *present;
    const kvmill_index *starts;
    int64_t starts_stride;
    int64_t batch, heads, capacity, rows, row;
    struct kvmill_row_strides past_stride, update_stride, present_stride;
    int64_t chunks; /* pieces of a slab, which is one (batch, head) */
    int64_t stream_store, stream_keep; /* not 0: store around the caches; above 1: interleave several
                                          streams, which this processor reads faster */
};

/* Shape of STORE_ROWS and KEEP_ROWS kernels; any int64 field may be KVMILL_ANY. */
struct kvmill_rows_shape {
    int32_t unit_bits; /* 8 or 4 */
    int32_t circular;
    int64_t heads, capacity, rows, row;
};

/* ---- Rows that are converted or quantised ---- */

/* The element type of a row in memory.  I8 and I4 have separate scales.  A row of Q8_0 or Q4_0 is a
   sequence of llama.cpp's blocks of 32 elements: a float16 scale, then 32 int8, or 16 bytes of codes + 8,
   with element i of the block in the low nibble of byte i and element i + 16 in the high nibble. */
enum kvmill_element {
    KVMILL_F32 = 1,
    KVMILL_F16 = 2,
    KVMILL_BF16 = 3,
    KVMILL_I8 = 4,
    KVMILL_I4 = 5, /* two's complement, element 2i in the low nibble of byte i */
    KVMILL_Q8_0 = 6,
    KVMILL_Q4_0 = 7,
    KVMILL_E4M3 = 8, /* 4 bits of exponent, 3 of mantissa, no infinity: largest 448 */
    KVMILL_E5M2 = 9,
    KVMILL_Q5_1 = 10, /* a block: a float16 scale, a float16 minimum, 32 fifth bits, 16 bytes as Q4_0 */
    KVMILL_I8KT = 11, /* I8 and I4 in tiles of keys and of values: see below */
    KVMILL_I4KT = 12,
    KVMILL_I8VT = 13,
    KVMILL_I4VT = 14,
    KVMILL_Q4_1 = 15,  /* a block: a float16 scale, a float16 minimum, 16 bytes as Q4_0, codes from 0 */
    KVMILL_Q5_0 = 16,  /* a block: a float16 scale, 32 fifth bits, 16 bytes as Q4_0, code + 16 */
    KVMILL_IQ4_NL = 17, /* a block as Q4_0, whose codes are indices of a table of numbers */
    KVMILL_Q6_0 = 18,   /* ik_llama.cpp's block: a float16 scale, 8 bytes of two upper bits, those of
                           element i in byte i % 8 from bit i % 16 / 8 * 4 + i / 16 * 2 on, 16 bytes as
                           Q4_0, code + 32 */
    KVMILL_Q8_KV = 19,  /* ik_llama.cpp's row: a float32 scale, the sum of all codes in 32 bits, the codes
                           as int8 */
    KVMILL_F32T = 20, KVMILL_F16T = 21, KVMILL_BF16T = 22 /* pages of keys, transposed: see below */
};

/* Rows in tiles have the codes of I8 and I4 in another order.  The rows of a tile, which begins at a
   multiple of their number, are interleaved piece by piece: the first piece of all rows, then the second
   piece of all, and so on.  A tile takes the place that its rows would have without it.  A page of
   transposed keys is such a tile, with quant_group rows; its pieces are elements. */
enum {
    KVMILL_KEY_TILE = 16, KVMILL_KEY_PIECE = 4, /* rows, bytes */
    KVMILL_VALUE_TILE = 4, KVMILL_VALUE_PIECE = 1
};

/* A row of one kv head, as it is in a cache. */
struct kvmill_format {
    int32_t element; /* enum kvmill_element */
    int32_t dim;     /* elements of a row */
    int32_t scale;   /* of I8 and I4, in tiles or not: KVMILL_F32, F16 or BF16; else 0 */
    int32_t quant_group; /* of I8 and I4: elements that share a scale; of transposed keys: rows of a page */
};

/* K or V of one sequence in one layer.  Row r of kv head h begins r * row_stride + h * head_stride bytes
   after `data` (in tiles of n rows: (r - r % n) * row_stride + r % n * piece + ..., and row_stride is the
   bytes of a row), its scales (dim / quant_group of them, in one piece) begin in the same way after `scale`. */
struct kvmill_cache_rows {
    unsigned char *data, *scale;
    int64_t row_stride, head_stride;
    int64_t scale_row_stride, scale_head_stride;
};

/* The shape of WRITE_ROWS and READ_ROWS kernels. */
struct kvmill_convert_shape {
    int32_t activation; /* F32, F16, BF16: the type that is written from or read to; I8: copies I8 rows */
    struct kvmill_format format;
};

/* The problem of WRITE_ROWS and READ_ROWS: token t of head h is t * token_stride + h * head_stride bytes
   after `activation`, and in row slot[t] of the cache.  A unit of work is a token with all its heads.
   READ_ROWS repeats: kv head h goes to heads h * repeat ... h * repeat + repeat - 1. */
struct kvmill_convert {
    const struct kvmill_convert_shape *shape;
    unsigned char *activation;
    int64_t token_stride, head_stride;
    struct kvmill_cache_rows cache;
    const int64_t *slot;
    int64_t heads, repeat;
    int64_t stream;   /* not 0: store around the caches where that is possible */
    int64_t saturate; /* not 0: scales that their type cannot hold are its largest number; 0: infinite */
};

/* ---- Attention ---- */

/* Kinds of arithmetic, by their error.  F32: that of float32 sums.  NEAR: integer arithmetic.  FAST:
   float16, too.  kvmill(3), Errors of attention, has the bound of each. */
enum kvmill_math { KVMILL_MATH_F32 = 0, KVMILL_MATH_NEAR = 1, KVMILL_MATH_FAST = 2 };

/* Terms of a score that cost time for every score, so there are kernels with and without them. */
enum { KVMILL_TERM_SOFTCAP = 1, KVMILL_TERM_BIAS = 2 };

/* The shape of ATTEND kernels. */
struct kvmill_attend_shape {
    int32_t activation; /* F32, F16, BF16: query, mask, output */
    struct kvmill_format key, value;
    int32_t rows;       /* the most query rows of a call */
    int32_t math;       /* enum kvmill_math */
    int32_t terms;      /* terms that the kernel computes; it serves problems with fewer */
    int64_t workspace;  /* bytes it needs, 64-byte aligned */
};

/* One query row: a query head at one token.  Its score at position j in [first, last) is
       scale * q.k_j, then softcap * tanh (score / softcap), then + slope * (j - origin) + mask[j],
   and -infinity at all other positions. */
struct kvmill_query_row {
    const unsigned char *query; /* key.dim activations */
    unsigned char *output;      /* value.dim activations */
    const unsigned char *mask;  /* activations by position, or NULL; only with TERM_BIAS */
    int64_t first, last;
    int64_t origin;
    float slope; /* only with TERM_BIAS */
    float sink;  /* score of the attention sink, which has no value; -INFINITY: none */
};

/* Adjacent rows of a cache: `count` of them, from row `slot` on. */
struct kvmill_extent {
    int64_t slot, count;
};

/* The problem of ATTEND: rows [0, rows) attend to positions [first, first + count), which are in the rows of
   extent[0], then those of extent[1] and so on, up to an extent without rows.  Rows after `count` are those
   that the next call will read.  The addresses are those of row 0 of a kv head.  after_key and so on are
   those of the next call, for prefetching; after_key NULL: they are the same (since ABI 8).  Calls with the
   same workspace continue each other, with `begin` in the first and `end` in the last.  At the end, row r
   is written to its output: sum / total, or `empty` if it saw nothing.  If partial is not NULL, it is
   written to partial + r * (2 + value.dim) floats: the largest score, the total of exp (score - largest),
   then the sums of exp (score - largest) * v.  The sink is counted at `begin`.  Only the rows of the `count`
   positions are read.  With tiles, all extents except the first begin a tile, and all except the last end one;
   the rest of their tiles is also read, and its codes do not matter.  run () is called with units 0 and 1. */
struct kvmill_attend {
    const struct kvmill_attend_shape *shape;
    const struct kvmill_query_row *row;
    int64_t rows;
    const unsigned char *key, *value, *key_scale, *value_scale;
    int64_t key_stride, value_stride, key_scale_stride, value_scale_stride;
    const struct kvmill_extent *extent;
    int64_t first, count;
    float scale, softcap, empty;
    int32_t begin, end;
    float *partial;
    void *workspace;
    const unsigned char *after_key, *after_value, *after_key_scale, *after_value_scale;
    int32_t into_l2; /* not 0: prefetch float16 and longer elements into the second cache (since ABI 9) */
};

/* ---- Gathering windows ---- */

enum { KVMILL_MOST_WINDOW_LOOPS = 3, KVMILL_MOST_GATHER_AXES = 32 };

/* A loop over a window; steps are bytes in the operand and in the result. */
struct kvmill_window_loop {
    int64_t extent, from, to;
};

/* The shape of GATHER kernels. */
struct kvmill_gather_shape {
    int32_t index_bits; /* 2 to 64; fewer than 8 take a byte */
    int32_t index_signed;
    int32_t fill;       /* 0: starts are clamped; 1: a window with a start outside is filled */
    int32_t components; /* starts of an index vector */
    int64_t bytes;      /* that are contiguous on both sides; KVMILL_ANY: the whole window is */
    struct kvmill_window_loop loop[KVMILL_MOST_WINDOW_LOOPS]; /* outermost first; extent 0: none */
};

/* An axis along which windows are counted: steps are bytes in indices, operand and result. */
struct kvmill_gather_axis {
    int64_t extent, index, from, to;
};

/* A start: its place in the index vector, its largest value, and the bytes of one step. */
struct kvmill_gather_component {
    int64_t index, most, from;
};

/* Where windows are; row-major in the axes, of which there is at least one. */
struct kvmill_gather_geometry {
    struct kvmill_gather_shape shape;
    int64_t axes;
    struct kvmill_gather_axis axis[KVMILL_MOST_GATHER_AXES];
    struct kvmill_gather_component component[KVMILL_MOST_GATHER_AXES];
    int64_t bytes, piece, pieces; /* if shape.bytes is KVMILL_ANY: bytes of a window; bytes of a piece, a
                                     multiple of 64 (the last piece is shorter); pieces of a window */
    int64_t result_bytes;
    unsigned char fill[64]; /* the fill value, repeated */
    int64_t streams;        /* above 1: copies of long windows interleave several streams, which this
                               processor reads faster */
    int64_t around;         /* bytes of a result from which it is stored around the caches */
};

/* The problem of GATHER; the pointers are those of the first elements.  A unit of work is a window, or piece
   u % pieces of window u / pieces. */
struct kvmill_gather_windows {
    const struct kvmill_gather_geometry *geometry;
    const unsigned char *operand, *indices;
    unsigned char *result;
};

/* ---- Scatter ---- */

/* How an element of a result and its update are combined, with one rounding.  Integers wrap; minimum and
   maximum give NaN if one is NaN, and order -0 below 0. */
enum kvmill_combiner {
    KVMILL_COMBINE_REPLACE = 1,
    KVMILL_COMBINE_ADD = 2,
    KVMILL_COMBINE_SUBTRACT = 3,
    KVMILL_COMBINE_MULTIPLY = 4,
    KVMILL_COMBINE_MINIMUM = 5,
    KVMILL_COMBINE_MAXIMUM = 6,
    KVMILL_COMBINE_AND = 7,
    KVMILL_COMBINE_OR = 8,
    KVMILL_COMBINE_XOR = 9
};

/* The shape of SCATTER kernels.  Types are DLPack's codes and bits.  If signs do not matter, integers are
   unsigned; REPLACE has only unsigned integers. */
struct kvmill_scatter_shape {
    int32_t combiner; /* enum kvmill_combiner */
    int32_t element_code, element_bits;
    int32_t index_code, index_bits;
    int32_t components; /* of an index vector */
    int64_t row;        /* adjacent elements of a row of a window; or KVMILL_ANY */
};

enum { KVMILL_MOST_SCATTER_LOOPS = 33 };

/* A loop; steps are bytes. */
struct kvmill_scatter_loop {
    int64_t count, result_step, update_step, index_step;
};

/* A component of index vectors, which moves windows along one axis of the result. */
struct kvmill_scatter_start {
    int64_t index_offset; /* bytes after the first component */
    int64_t result_step;
    int64_t low, high; /* coordinates of the result that may be written */
    int64_t extent;    /* of the part of a window that the component moves */
    uint64_t most;     /* windows with larger starts are skipped; UINT64_MAX: none is skipped as a whole */
    int32_t point;     /* the loop over points whose turn is added to the coordinate; or -1 */
    int32_t axis;      /* the loop of `window` along the axis; or -1, and extent is 1 */
};

/* The problem of SCATTER.  Points are walked in the order of their loops, of which there is at least one.  At
   each point the index components say where the window goes, and the part of it that may be written is
   combined with the updates.  `window` has the window's axes, and `rows` the same as fewer loops.  Index
   vectors are read again in every loop over points.  run () is called with units 0 and 1. */
struct kvmill_scatter_windows {
    const struct kvmill_scatter_shape *shape;
    unsigned char *result;
    const unsigned char *updates, *indices;
    int32_t point_loops, window_loops, row_loops;
    int32_t fits; /* whether the last of `rows` is a row of the shape */
    struct kvmill_scatter_loop point[KVMILL_MOST_SCATTER_LOOPS];
    struct kvmill_scatter_loop window[KVMILL_MOST_SCATTER_LOOPS];
    struct kvmill_scatter_loop rows[KVMILL_MOST_SCATTER_LOOPS];
    struct kvmill_scatter_start start[KVMILL_MOST_SCATTER_LOOPS];
};

/* Shape of SCATTER_REGION kernels. */
struct kvmill_scatter_region_shape {
    const char *program; /* what is done to elements, as text; a kernel serves only this text */
    int32_t index_code, index_bits;
    int32_t components;
    int64_t row; /* 1: windows of one element; or KVMILL_ANY */
};

enum { KVMILL_MOST_SCATTER_SLOTS = 16 };

/* The problem of SCATTER_REGION: `windows` has the first result and updates; its shape is NULL.  The others
   have the same layout: an element that is n elements after the first one is so in all.  They do not
   overlap. */
struct kvmill_scatter_slots {
    struct kvmill_scatter_windows windows;
    unsigned char *result[KVMILL_MOST_SCATTER_SLOTS];
    const unsigned char *updates[KVMILL_MOST_SCATTER_SLOTS];
    const unsigned char *capture[KVMILL_MOST_SCATTER_SLOTS]; /* one number each */
};

/* ---- Scores of pages ---- */

/* The score of head h of the query and block b of a page, which is a row of a field.  DOT: the sum of q * c.
   BOUND: the sum of the larger of q * c and q * d, or of q * d if one is NaN.  Sums are float32: products are
   rounded first, term i goes to lane i % 16, and then lanes 8, 4, 2 and 1 apart are added.  POSITIVE: that of
   DOT, or 0 if it is negative; WEIGHTED: times the weight of the head; INDEXER: both.  Of these, heads are
   folded first. */
enum kvmill_score_kind {
    KVMILL_SCORE_DOT = 1, KVMILL_SCORE_BOUND, KVMILL_SCORE_POSITIVE, KVMILL_SCORE_WEIGHTED, KVMILL_SCORE_INDEXER
};

/* How scores are folded to one.  MAX: the first, or a later one that is larger.  SUM: over heads in lanes as
   above (except for BOUND), otherwise one after the other.  MEAN: the sum, divided. */
enum kvmill_fold { KVMILL_FOLD_MAX = 1, KVMILL_FOLD_MEAN = 2, KVMILL_FOLD_SUM = 3 };

/* What a fold goes over. */
enum { KVMILL_FOLD_HEADS = 1, KVMILL_FOLD_BLOCKS = 2 };

struct kvmill_score_fold {
    int32_t over, by;
};

enum { KVMILL_MOST_FOLDS = 2, KVMILL_MOST_PAGE_SCORES = 256 };

/* The shape of SCORE_PAGES kernels. */
struct kvmill_score_shape {
    int32_t kind;    /* enum kvmill_score_kind */
    int32_t element; /* of fields: F32, F16, BF16 */
    int32_t dim, heads, blocks; /* heads * blocks is at most KVMILL_MOST_PAGE_SCORES */
    int32_t folds;
    struct kvmill_score_fold fold[KVMILL_MOST_FOLDS]; /* in order; BOUND: only one, over both */
};

/* The problem of SCORE_PAGES.  A unit of work is a page: the scores of page ids[u] that remain after folds, of
   [blocks, heads], or [heads, blocks] for BOUND, go to `score`, one page after another.  A run reads the
   fields of its own pages, and no id beyond ids[pages - 1]. */
struct kvmill_score_pages {
    const struct kvmill_score_shape *shape;
    const float *query;            /* [heads, dim] */
    const unsigned char *field[2]; /* c and d: [blocks, dim] of page 0 and the kv head */
    int64_t stride;                /* bytes between pages */
    const int32_t *ids;
    int64_t pages;
    float *score;
    const float *weight; /* [heads], if the kind has weights */
};

/* ---- Selection ---- */

/* The shape of SELECT_PAGES kernels. */
struct kvmill_select_shape {
    int32_t score; /* KVMILL_F32 */
};

enum { KVMILL_SELECT_PADDING = 64 };

/* The problem of SELECT_PAGES: the `wanted` best of scores [0, count), in ascending order of their places.  The
   order is total: the larger score, then the earlier one; NaN counts as -infinity, and both zeros are equal.
   0 <= wanted <= count < 2^31.  run () is called with units 0 and 1. */
struct kvmill_select_pages {
    const float *score;
    int64_t count, wanted;
    int32_t *list; /* the `wanted` places */
    int32_t *keys; /* a workspace: count + KVMILL_SELECT_PADDING words */
};

/* ---- Programs of flows ---- */

/* The shape of FLOW_PROGRAM kernels. */
struct kvmill_flow_program_shape {
    const char *program; /* as text; a kernel serves only this text */
};

/* The problem of FLOW_PROGRAM for a cache program: the fields of a page, of which `rows` rows exist (all rows,
   unless the program is for growing pages).  A unit of work is a kv head.  Field i of page p and kv head h is
   (p * kv_heads + h) / sharers fields after field[i]. */
struct kvmill_flow_summary {
    const void *program;                 /* for the library's own kernel, which interprets it */
    struct kvmill_cache_rows key, value; /* from the page's first row on */
    unsigned char *const *field;
    int64_t page, kv_heads, rows;
    float *workspace; /* all values of the program */
};

/* The problem of FLOW_PROGRAM for an index program: scores of pages ids[0 .. pages) for the query of a kv head,
   which has rows of activations.  Units of work are 2 * stages + 1 phases, which run in order: the beginning and
   the pages of each stage, then the state of fields.  Atoms are computed between the first and the second.
   Values that are kept for all pages come after the others, in the order of the program. */
struct kvmill_flow_scores {
    const void *program; /* for the library's own kernel, which interprets it */
    const unsigned char *query;
    int64_t query_stride;
    struct kvmill_cache_rows key, value; /* from the first row of page 0 on */
    int64_t page_rows;                   /* row strides from a page to the next */
    unsigned char *const *field;
    const float *const *constant;
    const int32_t *ids;
    int64_t pages, kv_head, kv_heads;
    float *workspace;
};

/* A number of a problem that a kernel has as a constant: the kernel serves only problems with this number. */
struct kvmill_constant {
    const char *name; /* of the member: "cache.row_stride" */
    size_t offset;    /* of that int64_t member in the problem's struct */
    int64_t value;
};

/* One generated kernel.  run() performs the units of work [first, last).  For STORE_ROWS and KEEP_ROWS, a unit
   of work is chunk u % chunks of slab u / chunks; a slab is one (batch, head), or one batch entry if whole_batch
   is set.  Re-entrant; allocates nothing. */
struct kvmill_kernel {
    uint32_t abi;
    uint32_t family;      /* enum kvmill_family */
    const char *symbol;   /* what it computes __ how */
    const char *isa;      /* its name: kvmill_isa_name lists them */
    const void *shape;    /* the family's shape struct */
    uint32_t whole_batch; /* a unit of work covers all heads of a batch entry */
    void (*run)(const void *problem, int64_t first, int64_t last);
    const struct kvmill_constant *constants; /* NULL: there are none */
    size_t constant_count;
};

/* The size of a call: sequences, and the new tokens and positions of each (the mean, if they differ).  0: any. */
struct kvmill_call_size {
    int64_t batch, tokens, positions;
};

/* A kernel that was the fastest of its pack for a problem of this size.  Records with the same number are one
   choice: their kernels compute the same, and a call uses the one with the nearest size. */
struct kvmill_measured {
    const struct kvmill_kernel *kernel;
    const char *problem; /* in words: "decode 64 on 512" */
    uint32_t choice;
    struct kvmill_call_size size;
};

/* Kernels that were generated together.  Immutable, and may be shared by threads.  abi, count and name never
   move. */
struct kvmill_pack {
    uint32_t abi;
    uint32_t count;
    const char *name;
    const struct kvmill_kernel *const *kernels;
    const char *manifest; /* the symbols, one per line, after a marker that `kvmill list` searches for */
    uint32_t measured_count;
    const struct kvmill_measured *measured; /* records of one choice are adjacent */
};

#ifdef __cplusplus
}
#endif
#endif
