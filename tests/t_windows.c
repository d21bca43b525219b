/* stablehlo.gather and stablehlo.scatter through the public interface against two oracles, bit for
   bit: random geometry, index types, strides, combiners; serially and in shuffled parts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "fence.h"
#include "oracle/windows.h"
#include "tap.h"
#include "walk.h"
#include "windows_pack.h"

/* What became of the cases, to be sure that every way was gone. */
static struct {
    int64_t gathers, scatters, pairs, many_pairs, unsorted_pairs, inner_vector, implicit, empty;
    int64_t no_components, strided, many_parts, in_place, skipped, filled, extreme, transposed;
} seen;

static uint64_t seed;

/* ---- Geometry ---- */

struct geometry {
    int rank, space_rank, indices_rank, windowed_rank;
    int64_t dims[MOST_DIMS], slice[MOST_DIMS], space[MOST_DIMS];
    int64_t indices_dims[MOST_DIMS], windowed_dims[MOST_DIMS];
    int64_t window[MOST_DIMS], dropped[MOST_DIMS], batching[MOST_DIMS];
    int64_t indices_batching[MOST_DIMS], map[MOST_DIMS];
    int windows, droppeds, pairs, components, ivd;
};

enum role { WINDOW, DROPPED, BATCHING };

static int64_t random_extent(struct dice *dice, bool large) {
    if (dice_once_in(dice, 25))
        return 0;
    return dice_range(dice, 1, large ? 24 : 5);
}

static void choose_axes(struct dice *dice, bool large, bool gathers, struct geometry *g) {
    g->rank = (int)dice_range(dice, large ? 2 : 0, 5);
    bool paired = !large || dice_once_in(dice, 3); /* else parts have to look at indices */
    for (int d = 0; d < g->rank; d++) {
        enum role role = dice_once_in(dice, 2) ? WINDOW : (enum role)dice_range(dice, 0, 2);
        if (role == BATCHING && !paired)
            role = DROPPED;
        g->dims[d] = random_extent(dice, large);
        if (role == DROPPED && gathers && g->dims[d] == 0)
            g->dims[d] = 1;
        g->slice[d] = g->dims[d] > 0;
        if (role == WINDOW)
            g->slice[d] = dice_once_in(dice, 2) ? g->dims[d] : dice_range(dice, 0, g->dims[d]);
        if (role == WINDOW && g->slice[d] == 0 && !dice_once_in(dice, 10))
            g->slice[d] = g->dims[d] > 0;
        if (role == WINDOW)
            g->windows++;
        else if (role == DROPPED)
            g->dropped[g->droppeds++] = d;
        else
            g->batching[g->pairs++] = d;
    }
}

static bool is_in(const int64_t *list, int count, int64_t item) {
    for (int i = 0; i < count; i++)
        if (list[i] == item)
            return true;
    return false;
}

/* Large ones: mostly all axes. */
static void choose_map(struct dice *dice, bool large, struct geometry *g) {
    int64_t order[MOST_DIMS];
    dice_order(dice, order, g->rank);
    for (int i = 0; i < g->rank; i++)
        if (!is_in(g->batching, g->pairs, order[i]) && !dice_once_in(dice, large ? 20 : 3))
            g->map[g->components++] = order[i];
}

static void choose_indices(struct dice *dice, bool large, struct geometry *g) {
    int64_t order[MOST_DIMS];
    int extra = (int)dice_range(dice, 0, 2);
    g->space_rank = g->pairs + extra;
    dice_order(dice, order, g->space_rank);
    for (int j = 0; j < g->space_rank; j++)
        g->space[order[j]] =
            j < g->pairs ? g->dims[g->batching[j]] : random_extent(dice, large && j == g->pairs);
    bool implicit = g->components == 1 && dice_once_in(dice, 3);
    g->ivd = implicit ? g->space_rank : (int)dice_range(dice, 0, g->space_rank);
    g->indices_rank = g->space_rank + !implicit;
    for (int j = 0; j < g->space_rank; j++)
        g->indices_dims[j < g->ivd ? j : j + 1] = g->space[j];
    if (!implicit)
        g->indices_dims[g->ivd] = g->components;
    for (int i = 0; i < g->pairs; i++)
        g->indices_batching[i] = order[i] < g->ivd ? order[i] : order[i] + 1;
}

static void choose_windowed(struct dice *dice, struct geometry *g) {
    int64_t order[MOST_DIMS], place = 0;
    bool is_window[MOST_DIMS] = {false};
    int next = 0, point = 0;
    g->windowed_rank = g->space_rank + g->windows;
    dice_order(dice, order, g->windowed_rank);
    for (int i = 0; i < g->windows; i++)
        is_window[order[i]] = true;
    g->windows = 0;
    for (int r = 0; r < g->windowed_rank; r++) {
        if (!is_window[r]) {
            g->windowed_dims[r] = g->space[point++];
            continue;
        }
        while (is_in(g->dropped, g->droppeds, place) || is_in(g->batching, g->pairs, place))
            place++;
        g->windowed_dims[r] = g->slice[place++];
        g->window[next++] = r;
        g->windows++;
    }
}

static void count_geometry(const struct geometry *g) {
    seen.pairs += g->pairs > 0;
    seen.many_pairs += g->pairs > 1;
    for (int i = 1; i < g->pairs; i++)
        seen.unsorted_pairs += g->indices_batching[i] < g->indices_batching[i - 1];
    seen.inner_vector += g->ivd < g->indices_rank - 1;
    seen.implicit += g->ivd == g->indices_rank;
    seen.no_components += g->components == 0;
    for (int i = 0; i < g->windows; i++)
        seen.transposed += g->window[i] < g->windowed_rank - g->windows;
}

static int64_t product(const int64_t *dims, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

/* Large enough to be split into parts, and not so large that the oracles take long. */
static bool has_right_size(const struct geometry *g, bool large) {
    int64_t count = product(g->windowed_dims, g->windowed_rank);
    return product(g->dims, g->rank) < 1 << 20 && count < 300000 && (!large || count > 40000);
}

static void make_geometry(struct dice *dice, bool large, bool gathers, struct geometry *g) {
    do {
        *g = (struct geometry){0};
        choose_axes(dice, large, gathers, g);
        choose_map(dice, large, g);
        choose_indices(dice, large, g);
        choose_windowed(dice, g);
    } while (!has_right_size(g, large));
    count_geometry(g);
}

/* ---- Tensors: dense data for the oracle, and the same with strides and fences ---- */

struct pair {
    unsigned char *dense;
    int64_t count, bytes;
    struct fenced_tensor fenced;
};

static int64_t element_bytes(DLDataType type) {
    return (type.bits * type.lanes + 7) / 8;
}

/* Axes in another order of memory, and gaps. */
static void choose_strides(struct dice *dice, int rank, const int64_t *dims, int64_t *strides) {
    int64_t order[MOST_DIMS], step = dice_range(dice, 1, 2);
    dice_order(dice, order, rank);
    for (int i = 0; i < rank; i++) {
        strides[order[i]] = step;
        step *= dims[order[i]] ? dims[order[i]] + dice_range(dice, 0, 1) : 1;
    }
}

static void open_pair(struct dice *dice, DLDataType type, int rank, const int64_t *dims,
                      struct pair *pair) {
    int64_t strides[MOST_DIMS];
    bool strided = dice_once_in(dice, windows_cases(0) ? 8 : 3); /* kernels are for dense ones */
    pair->bytes = element_bytes(type);
    pair->count = product(dims, rank);
    pair->dense = calloc((size_t)(pair->count * pair->bytes) + 1, 1);
    choose_strides(dice, rank, dims, strides);
    tensor_open(&pair->fenced, (DLDataType){kDLUInt, (uint8_t)(pair->bytes * 8), 1}, rank, dims,
                strided ? strides : NULL, dice);
    pair->fenced.dl.dtype = type;
    seen.strided += strided;
}

static unsigned char *element_of(const struct pair *pair, int64_t i) {
    const DLTensor *tensor = &pair->fenced.dl;
    unsigned char *at = (unsigned char *)tensor->data + tensor->byte_offset;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        at += i % tensor->shape[d] * pair->fenced.strides[d] * pair->bytes;
        i /= tensor->shape[d];
    }
    return at;
}

static void put(struct pair *pair) {
    for (int64_t i = 0; i < pair->count; i++)
        memcpy(element_of(pair, i), pair->dense + i * pair->bytes, (size_t)pair->bytes);
}

static void close_pair(struct pair *pair) {
    free(pair->dense);
    tensor_close(&pair->fenced);
}

static bool is_nan_pair(DLDataType type, const unsigned char *a, const unsigned char *b) {
    float x, y;
    double u, v;
    uint16_t h, k;
    switch (type.code == kDLFloat || type.code == kDLBfloat ? type.bits : 0) {
    case 64:
        memcpy(&u, a, 8);
        memcpy(&v, b, 8);
        return u != u && v != v;
    case 32:
        memcpy(&x, a, 4);
        memcpy(&y, b, 4);
        return x != x && y != y;
    case 16:
        memcpy(&h, a, 2);
        memcpy(&k, b, 2);
        return (h & 0x7fff) > (type.code == kDLFloat ? 0x7c00 : 0x7f80) &&
               (k & 0x7fff) > (type.code == kDLFloat ? 0x7c00 : 0x7f80);
    }
    return false;
}

/* Bits are equal, or both are NaN, also in the halves of complex numbers. */
static bool is_same(DLDataType type, const unsigned char *a, const unsigned char *b) {
    size_t bytes = (size_t)element_bytes(type);
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    if (type.code == kDLComplex)
        return is_same(half, a, b) && is_same(half, a + bytes / 2, b + bytes / 2);
    return memcmp(a, b, bytes) == 0 || is_nan_pair(type, a, b);
}

static bool is_as_dense(const struct pair *pair, DLDataType type) {
    int64_t where;
    for (int64_t i = 0; i < pair->count; i++) {
        const unsigned char *want = pair->dense + i * pair->bytes, *have = element_of(pair, i);
        if (!is_same(type, have, want)) {
            diag("element %" PRId64 " of %" PRId64 " differs", i, pair->count);
            return false;
        }
    }
    return fence_is_intact(&pair->fenced.fence, &where);
}

/* ---- Indices ---- */

static const DLDataType index_types[] = {
    {kDLInt, 64, 1},  {kDLInt, 32, 1},  {kDLInt, 16, 1}, {kDLInt, 8, 1},
    {kDLInt, 4, 1},   {kDLInt, 2, 1},   {kDLUInt, 8, 1}, {kDLUInt, 16, 1},
    {kDLUInt, 32, 1}, {kDLUInt, 64, 1}, {kDLUInt, 4, 1}, {kDLUInt, 2, 1},
};
enum { INDEX_TYPES = sizeof index_types / sizeof *index_types };

static void fill_indices(struct dice *dice, const struct geometry *g, DLDataType type,
                         struct pair *indices) {
    static const uint64_t ends[] = {INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX,
                                    (uint64_t)INT64_MAX - 1, (uint64_t)INT64_MIN + 1};
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t dim = g->rank ? g->dims[dice_range(dice, 0, g->rank - 1)] : 1;
        uint64_t value = (uint64_t)dice_range(dice, 0, dim);
        if (dice_once_in(dice, 4))
            value = (uint64_t)dice_range(dice, -3, dim + 3);
        if (dice_once_in(dice, 15)) {
            value = ends[dice_range(dice, 0, 4)];
            seen.extreme++;
        }
        if (type.bits < 64) /* what lies beyond the type's bits is not looked at */
            value &= ((uint64_t)1 << type.bits) - 1;
        memcpy(indices->dense + i * indices->bytes, &value, (size_t)indices->bytes);
    }
}

/* ---- Running ---- */

static kvmill_status run_shuffled(struct dice *dice, const kvmill_plan *plan,
                                  const DLTensor *const *tensors, kvmill_error *error) {
    kvmill_call call;
    kvmill_status status = kvmill_begin(&call, plan, tensors, NULL, error);
    if (status != KVMILL_OK)
        return status;
    do {
        seen.many_parts += kvmill_parts(&call) > 1;
        crew_run_phase(&call, 1, dice);
    } while (kvmill_next(&call));
    return KVMILL_OK;
}

static bool run_plan(struct dice *dice, kvmill_plan *plan, const DLTensor *const *tensors) {
    kvmill_error error;
    kvmill_status status = dice_once_in(dice, 3) ? kvmill_run(plan, tensors, NULL, &error)
                                                 : run_shuffled(dice, plan, tensors, &error);
    kvmill_plan_destroy(plan);
    if (status != KVMILL_OK)
        diag("%s: %s", kvmill_status_name(status), error.message);
    return status == KVMILL_OK;
}

static kvmill_dims list(const int64_t *items, int count) {
    return (kvmill_dims){items, (size_t)count};
}

static void random_bytes(struct dice *dice, struct pair *pair) {
    for (int64_t i = 0; i < pair->count * pair->bytes; i++)
        pair->dense[i] = (unsigned char)dice_bits(dice);
}

/* ---- Gather ---- */

static const DLDataType copied_types[] = {
    {KVMILL_DL_BOOL, 8, 1}, {kDLUInt, 4, 1},   {KVMILL_DL_FLOAT6_E2M3FN, 6, 1},
    {kDLInt, 16, 1},        {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
    {kDLComplex, 128, 1},
};

struct gathering {
    struct geometry g;
    DLDataType type, index_type;
    struct pair operand, indices, result;
    unsigned char fill[16];
    const DLTensor *tensors[3];
    kvmill_gather op;
};

static void open_gathering(struct dice *dice, struct gathering *it) {
    const struct geometry *g = &it->g;
    open_pair(dice, it->type, g->rank, g->dims, &it->operand);
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, &it->indices);
    open_pair(dice, it->type, g->windowed_rank, g->windowed_dims, &it->result);
    random_bytes(dice, &it->operand);
    fill_indices(dice, g, it->index_type, &it->indices);
    put(&it->operand);
    put(&it->indices);
    for (int i = 0; i < 16; i++)
        it->fill[i] = (unsigned char)dice_bits(dice);
}

static void close_gathering(struct gathering *it) {
    close_pair(&it->operand);
    close_pair(&it->indices);
    close_pair(&it->result);
}

static void set_gather(struct dice *dice, struct gathering *it) {
    const struct geometry *g = &it->g;
    it->op = (kvmill_gather){
        .struct_size = sizeof it->op,
        .offset_dims = list(g->window, g->windows),
        .collapsed_slice_dims = list(g->dropped, g->droppeds),
        .operand_batching_dims = list(g->batching, g->pairs),
        .start_indices_batching_dims = list(g->indices_batching, g->pairs),
        .start_index_map = list(g->map, g->components),
        .slice_sizes = list(g->slice, g->rank),
        .index_vector_dim = g->ivd,
        .indices_are_sorted = dice_once_in(dice, 4),
        .fill_value = it->fill,
        .operand = it->tensors[0] = &it->operand.fenced.dl,
        .start_indices = it->tensors[1] = &it->indices.fenced.dl,
        .result = it->tensors[2] = &it->result.fenced.dl,
    };
    it->op.mode = dice_once_in(dice, 3) ? "fill" : NULL;
    seen.gathers++;
    seen.filled += it->op.mode != NULL;
    seen.empty += it->result.count == 0;
}

static bool run_gathering(struct dice *dice, struct gathering *it) {
    kvmill_plan *plan;
    kvmill_error error;
    windows_tell_gather(&it->op);
    if (kvmill_plan_gather(&it->op, windows_options(), &plan, &error) == KVMILL_OK) {
        windows_count(plan);
        return run_plan(dice, plan, it->tensors);
    }
    diag("%s", error.message);
    return false;
}

static bool gathers_right(struct dice *dice, bool large) {
    struct gathering it;
    make_geometry(dice, large, true, &it.g);
    it.type = copied_types[dice_range(dice, 0, 6)];
    it.index_type = index_types[dice_range(dice, 0, INDEX_TYPES - 1)];
    open_gathering(dice, &it);
    set_gather(dice, &it);
    bool right = run_gathering(dice, &it);
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        oracle_gather((enum oracle_form)form, &it.op, it.operand.dense, it.indices.dense,
                      it.result.dense);
        right = is_as_dense(&it.result, it.type);
    }
    close_gathering(&it);
    return right;
}

/* ---- Combiners, by C's own arithmetic ---- */

enum operation { REPLACE, ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM, AND, OR, XOR, OPERATIONS };
static const char *const operation_names[] = {"replace", "add", "subtract", "multiply", "minimum",
                                              "maximum", "and", "or",       "xor"};

struct combiner {
    DLDataType type;
    enum operation operation;
};

#define COMBINE_INTEGERS(T)                                                                        \
    do {                                                                                           \
        T x, y;                                                                                    \
        memcpy(&x, a, sizeof x);                                                                   \
        memcpy(&y, b, sizeof y);                                                                   \
        uint64_t u = (uint64_t)x, v = (uint64_t)y;                                                 \
        uint64_t results[] = {v,     u + v, u - v, u * v, x < y ? u : v, x > y ? u : v,            \
                              u & v, u | v, u ^ v};                                                \
        x = (T)results[operation];                                                                 \
        memcpy(a, &x, sizeof x);                                                                   \
    } while (0)

static double extreme(double x, double y, bool largest) {
    if (x != x || y != y)
        return NAN;
    if (x == y)
        return (signbit(x) != 0) == largest ? y : x;
    return (x < y) == largest ? y : x;
}

static double combine_doubles(enum operation operation, double x, double y) {
    switch (operation) {
    case ADD:
        return x + y;
    case SUBTRACT:
        return x - y;
    case MULTIPLY:
        return x * y;
    default:
        return extreme(x, y, operation == MAXIMUM);
    }
}

/* Numbers of 16 bits: each code's value, and the code next to a value by search. */
static double value_of_half(DLDataType type, unsigned code) {
    int mantissa_bits = type.code == kDLFloat ? 10 : 7, bias = type.code == kDLFloat ? 15 : 127;
    int exponent = (int)(code & 0x7fff) >> mantissa_bits;
    double mantissa = (double)(code & ((1u << mantissa_bits) - 1));
    double value = exponent
                       ? ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)
                       : ldexp(mantissa, 1 - bias - mantissa_bits);
    return code & 0x8000 ? -value : value;
}

static bool is_half_nan(DLDataType type, unsigned code) {
    return (code & 0x7fff) > (type.code == kDLFloat ? 0x7c00u : 0x7f80u);
}

static uint16_t half_of_value(DLDataType type, double value) {
    unsigned infinity = type.code == kDLFloat ? 0x7c00 : 0x7f80, low = 0, high = infinity;
    double magnitude = fabs(value);
    if (value != value)
        return 0x7fff;
    if (isinf(value))
        return (uint16_t)(infinity | (value < 0 ? 0x8000 : 0));
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        *(value_of_half(type, middle) <= magnitude ? &low : &high) = middle;
    }
    double below = magnitude - value_of_half(type, low),
           above = value_of_half(type, high) - magnitude;
    unsigned code = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint16_t)(code | (signbit(value) ? 0x8000 : 0));
}

static double half_value(DLDataType type, unsigned code) {
    unsigned infinity = type.code == kDLFloat ? 0x7c00 : 0x7f80;
    if (is_half_nan(type, code))
        return NAN;
    if ((code & 0x7fff) == infinity)
        return code & 0x8000 ? -INFINITY : INFINITY;
    return value_of_half(type, code);
}

static void combine_halves(DLDataType type, enum operation operation, unsigned char *a,
                           const unsigned char *b) {
    uint16_t x, y;
    memcpy(&x, a, 2);
    memcpy(&y, b, 2);
    x = half_of_value(type, combine_doubles(operation, half_value(type, x), half_value(type, y)));
    memcpy(a, &x, 2);
}

static void combine_floats(DLDataType type, enum operation operation, unsigned char *a,
                           const unsigned char *b) {
    float x, y;
    double u, v;
    if (type.bits == 16) {
        combine_halves(type, operation, a, b);
    } else if (type.bits == 32) {
        memcpy(&x, a, 4);
        memcpy(&y, b, 4);
        x = operation == ADD        ? x + y
            : operation == SUBTRACT ? x - y
            : operation == MULTIPLY ? x * y
                                    : (float)combine_doubles(operation, (double)x, (double)y);
        memcpy(a, &x, 4);
    } else {
        memcpy(&u, a, 8);
        memcpy(&v, b, 8);
        u = combine_doubles(operation, u, v);
        memcpy(a, &u, 8);
    }
}

static void combine_integers(DLDataType type, enum operation operation, unsigned char *a,
                             const unsigned char *b) {
    bool is_signed = type.code == kDLInt;
    switch (type.bits) {
    case 8:
        if (is_signed)
            COMBINE_INTEGERS(int8_t);
        else
            COMBINE_INTEGERS(uint8_t);
        break;
    case 16:
        if (is_signed)
            COMBINE_INTEGERS(int16_t);
        else
            COMBINE_INTEGERS(uint16_t);
        break;
    case 32:
        if (is_signed)
            COMBINE_INTEGERS(int32_t);
        else
            COMBINE_INTEGERS(uint32_t);
        break;
    default:
        if (is_signed)
            COMBINE_INTEGERS(int64_t);
        else
            COMBINE_INTEGERS(uint64_t);
    }
}

static int64_t narrow_value(DLDataType type, unsigned char byte) {
    int64_t value = byte & ((1 << type.bits) - 1), sign = 1 << (type.bits - 1);
    return type.code == kDLInt && (value & sign) ? value - 2 * sign : value;
}

/* Integers of fewer than 8 bits, in a byte each. */
static void combine_narrow(DLDataType type, enum operation operation, unsigned char *a,
                           const unsigned char *b) {
    int64_t x = narrow_value(type, *a), y = narrow_value(type, *b);
    const int64_t results[OPERATIONS] = {[ADD] = x + y,
                                         [SUBTRACT] = x - y,
                                         [MULTIPLY] = x * y,
                                         [MINIMUM] = x < y ? x : y,
                                         [MAXIMUM] = x > y ? x : y,
                                         [AND] = x & y,
                                         [OR] = x | y,
                                         [XOR] = x ^ y};
    *a = (unsigned char)(results[operation] & ((1 << type.bits) - 1));
}

static void combine_complex(DLDataType type, enum operation operation, unsigned char *a,
                            const unsigned char *b) {
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    combine_floats(half, operation, a, b);
    combine_floats(half, operation, a + element_bytes(half), b + element_bytes(half));
}

static void combine_truths(enum operation operation, unsigned char *a, const unsigned char *b) {
    const int results[OPERATIONS] = {
        [AND] = *a && *b, [OR] = *a || *b, [XOR] = (*a != 0) != (*b != 0)};
    *a = (unsigned char)results[operation];
}

static void combine(void *context, unsigned char *const *accumulators,
                    const unsigned char *const *updates) {
    const struct combiner *combiner = context;
    DLDataType type = combiner->type;
    if (combiner->operation == REPLACE)
        memcpy(accumulators[0], updates[0], (size_t)element_bytes(type));
    else if (type.code == KVMILL_DL_BOOL)
        combine_truths(combiner->operation, accumulators[0], updates[0]);
    else if (type.code == kDLComplex)
        combine_complex(type, combiner->operation, accumulators[0], updates[0]);
    else if (type.bits < 8)
        combine_narrow(type, combiner->operation, accumulators[0], updates[0]);
    else if (type.code == kDLInt || type.code == kDLUInt)
        combine_integers(type, combiner->operation, accumulators[0], updates[0]);
    else
        combine_floats(type, combiner->operation, accumulators[0], updates[0]);
}

/* ---- Scatter ---- */

static const DLDataType numbers[] = {
    {kDLInt, 8, 1},    {kDLInt, 16, 1},    {kDLInt, 32, 1},   {kDLInt, 64, 1},
    {kDLUInt, 8, 1},   {kDLUInt, 16, 1},   {kDLUInt, 32, 1},  {kDLUInt, 64, 1},
    {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1},
};

static struct combiner choose_combiner(struct dice *dice) {
    struct combiner combiner = {numbers[dice_range(dice, 0, 11)],
                                (enum operation)dice_range(dice, 0, OPERATIONS - 1)};
    bool is_float = combiner.type.code == kDLFloat || combiner.type.code == kDLBfloat;
    if (is_float && combiner.operation >= AND)
        combiner.operation = MAXIMUM;
    if (combiner.operation == REPLACE)
        combiner.type = copied_types[dice_range(dice, 0, 6)];
    return combiner;
}

/* Numbers of moderate size, so that sums are not all infinite; and now and then any bits. */
static void random_numbers(struct dice *dice, DLDataType type, struct pair *pair) {
    random_bytes(dice, pair);
    for (int64_t i = 0; i < pair->count; i++) {
        double value = (double)dice_range(dice, -1000, 1000) / 16;
        if (dice_once_in(dice, 4))
            value = dice_once_in(dice, 2) ? 0.0 : -0.0;
        float narrow = (float)value;
        uint16_t half = type.bits == 16 ? half_of_value(type, value) : 0;
        const void *from = type.bits == 64   ? (void *)&value
                           : type.bits == 32 ? (void *)&narrow
                                             : &half;
        bool is_float = (type.code == kDLFloat || type.code == kDLBfloat) && type.bits >= 16;
        if (is_float && !dice_once_in(dice, 8))
            memcpy(pair->dense + i * pair->bytes, from, (size_t)pair->bytes);
    }
}

struct scattering {
    struct geometry g;
    struct combiner combiner;
    DLDataType index_type;
    bool in_place;
    struct pair input, indices, update, result;
    const DLTensor *inputs[1], *updates[1], *tensors[4];
    kvmill_scatter op;
};

static struct pair *output_of(struct scattering *it) {
    return it->in_place ? &it->input : &it->result;
}

static void open_scattering(struct dice *dice, struct scattering *it) {
    const struct geometry *g = &it->g;
    DLDataType type = it->combiner.type;
    open_pair(dice, type, g->rank, g->dims, &it->input);
    open_pair(dice, it->index_type, g->indices_rank, g->indices_dims, &it->indices);
    open_pair(dice, type, g->windowed_rank, g->windowed_dims, &it->update);
    open_pair(dice, type, g->rank, g->dims, &it->result);
    random_numbers(dice, type, &it->input);
    random_numbers(dice, type, &it->update);
    fill_indices(dice, g, it->index_type, &it->indices);
    put(&it->input);
    put(&it->indices);
    put(&it->update);
}

static void close_scattering(struct scattering *it) {
    close_pair(&it->input);
    close_pair(&it->indices);
    close_pair(&it->update);
    close_pair(&it->result);
}

/* Of these tensors, without the attributes that are drawn. */
static kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                                 const DLTensor *indices, const DLTensor *const *updates) {
    const struct geometry *g = &it->g;
    return (kvmill_scatter){
        .struct_size = sizeof(kvmill_scatter),
        .update_window_dims = list(g->window, g->windows),
        .inserted_window_dims = list(g->dropped, g->droppeds),
        .input_batching_dims = list(g->batching, g->pairs),
        .scatter_indices_batching_dims = list(g->indices_batching, g->pairs),
        .scatter_dims_to_operand_dims = list(g->map, g->components),
        .index_vector_dim = g->ivd,
        .update_computation = operation_names[it->combiner.operation],
        .count = 1,
        .inputs = inputs,
        .updates = updates,
        .scatter_indices = indices,
    };
}

static void set_op(struct dice *dice, struct scattering *it) {
    it->inputs[0] = &it->input.fenced.dl;
    it->updates[0] = &it->update.fenced.dl;
    it->op = scatter_of(it, it->inputs, &it->indices.fenced.dl, it->updates);
    it->op.indices_are_sorted = dice_once_in(dice, 4);
    it->op.window_out_of_bounds = dice_once_in(dice, 3) ? "skip_window" : NULL;
    it->tensors[0] = it->inputs[0];
    it->tensors[1] = it->op.scatter_indices;
    it->tensors[2] = it->updates[0];
    it->tensors[3] = &output_of(it)->fenced.dl;
    seen.scatters++;
    seen.in_place += it->in_place;
    seen.skipped += it->op.window_out_of_bounds != NULL;
}

static bool run_scattering(struct dice *dice, struct scattering *it,
                           const kvmill_plan_options *options) {
    kvmill_plan *plan;
    kvmill_error error;
    bool right = kvmill_plan_scatter(&it->op, options, &plan, &error) == KVMILL_OK;
    if (!right)
        diag("%s", error.message);
    fence_protect(&it->update.fenced.fence, true);
    fence_protect(&it->input.fenced.fence, !it->in_place);
    right = right && run_plan(dice, plan, it->tensors);
    fence_protect(&it->update.fenced.fence, false);
    fence_protect(&it->input.fenced.fence, false);
    return right;
}

static bool is_as_oracles_say(struct scattering *it) {
    struct pair *output = output_of(it);
    size_t size = (size_t)(it->input.count * it->input.bytes);
    unsigned char *original = malloc(size + 1);
    bool right = true;
    memcpy(original, it->input.dense, size);
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        memcpy(output->dense, original, size);
        const unsigned char *update_data[] = {it->update.dense};
        unsigned char *result_data[] = {output->dense};
        oracle_scatter((enum oracle_form)form, &it->op, it->indices.dense, update_data, result_data,
                       &it->input.bytes, combine, &it->combiner);
        right = is_as_dense(output, it->combiner.type);
    }
    free(original);
    return right;
}

/* Of tensors that are filled; they are closed. */
static bool applies_right(struct dice *dice, struct scattering *it,
                          const kvmill_plan_options *options) {
    set_op(dice, it);
    bool right = run_scattering(dice, it, options) && is_as_oracles_say(it);
    if (!right)
        diag("%s of %d bits, code %d", operation_names[it->combiner.operation],
             it->combiner.type.bits, it->combiner.type.code);
    close_scattering(it);
    return right;
}

static bool scatters_so(struct dice *dice, struct scattering *it,
                        const kvmill_plan_options *options) {
    open_scattering(dice, it);
    return applies_right(dice, it, options);
}

static bool scatters_with(struct dice *dice, bool large, const kvmill_plan_options *options) {
    struct scattering it;
    make_geometry(dice, large, false, &it.g);
    it.combiner = choose_combiner(dice);
    it.index_type = index_types[dice_range(dice, 0, INDEX_TYPES - 1)];
    it.in_place = dice_once_in(dice, 3);
    return scatters_so(dice, &it, options);
}

static bool scatters_right(struct dice *dice, bool large) {
    return scatters_with(dice, large, NULL);
}

/* ---- Kernels of packs ---- */

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
enum { PACKS = sizeof packs / sizeof *packs };

static bool packs_scatter_right(struct dice *dice, bool large) {
    static const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS};
    return scatters_with(dice, large, &options);
}

/* A type that the kernel takes for its own. */
static DLDataType type_for(struct dice *dice, const struct kvmill_scatter_shape *shape) {
    DLDataType type = {(uint8_t)shape->element_code, (uint8_t)shape->element_bits, 1};
    bool ordered =
        shape->combiner == KVMILL_COMBINE_MINIMUM || shape->combiner == KVMILL_COMBINE_MAXIMUM;
    if (shape->combiner == KVMILL_COMBINE_REPLACE)
        do
            type = copied_types[dice_range(dice, 0, 6)];
        while (element_bytes(type) * 8 != shape->element_bits);
    else if (type.code == kDLUInt && !ordered && dice_once_in(dice, 2))
        type.code = kDLInt;
    return type;
}

static DLTensor prototype(DLDataType type, int rank, int64_t *dims) {
    return (DLTensor){.device = {kDLCPU, 0}, .dtype = type, .ndim = rank, .shape = dims};
}

/* Plans of this geometry take the kernel, if there is no other. */
static bool is_taken(struct scattering *it, const kvmill_plan_options *options,
                     const struct kvmill_kernel *kernel) {
    DLTensor input = prototype(it->combiner.type, it->g.rank, it->g.dims);
    DLTensor indices = prototype(it->index_type, it->g.indices_rank, it->g.indices_dims);
    DLTensor update = prototype(it->combiner.type, it->g.windowed_rank, it->g.windowed_dims);
    const DLTensor *inputs[] = {&input}, *updates[] = {&update};
    kvmill_scatter op = scatter_of(it, inputs, &indices, updates);
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_scatter(&op, options, &plan, &error) != KVMILL_OK)
        return false;
    kvmill_plan_describe(plan, words, sizeof words);
    bool taken = strstr(words, kernel->symbol) != NULL;
    kvmill_plan_destroy(plan);
    return taken;
}

static struct scattering choose_for(struct dice *dice, const struct kvmill_scatter_shape *shape) {
    return (struct scattering){
        .combiner = {type_for(dice, shape), (enum operation)(shape->combiner - 1)},
        .index_type = {(uint8_t)shape->index_code, (uint8_t)shape->index_bits, 1},
        .in_place = dice_once_in(dice, 3)};
}

static bool kernel_scatters_right(struct dice *dice, const struct kvmill_kernel *kernel) {
    const kvmill_pack pack = {
        .abi = KVMILL_KERNEL_ABI, .count = 1, .name = "one", .kernels = &kernel, .manifest = ""};
    const kvmill_pack *const one[] = {&pack};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = one, .pack_count = 1};
    const struct kvmill_scatter_shape *shape = kernel->shape;
    struct scattering it = choose_for(dice, shape);
    do
        make_geometry(dice, false, false, &it.g);
    while (it.g.components != shape->components || !is_taken(&it, &options, kernel));
    return scatters_so(dice, &it, &options);
}

/* Rows that the same points are applied to: [rows, dim] takes [rows, points] at columns that follow
   each other but for jumps back, ahead and out, and some that are left out. */
static void make_repeated(struct dice *dice, struct geometry *g) {
    *g = (struct geometry){.rank = 2,
                           .space_rank = 1,
                           .indices_rank = 2,
                           .windowed_rank = 2,
                           .windows = 1,
                           .droppeds = 1,
                           .components = 1,
                           .ivd = 1};
    g->dims[0] = g->slice[0] = g->windowed_dims[0] = dice_range(dice, 3, 9);
    g->dims[1] = dice_range(dice, 30, 90);
    g->space[0] = g->indices_dims[0] = g->windowed_dims[1] = dice_range(dice, 20, 700);
    g->slice[1] = g->indices_dims[1] = g->map[0] = g->dropped[0] = 1;
}

static void fill_repeated(struct dice *dice, struct scattering *it) {
    struct pair *indices = &it->indices;
    int64_t value = 0, outside = -1, run = dice_range(dice, 4, 100);
    for (int64_t i = 0; i < indices->count; i++) {
        bool aside = dice_once_in(dice, run);
        if (dice_once_in(dice, run))
            value = dice_range(dice, -2, it->g.dims[1] + 1);
        memcpy(indices->dense + i * indices->bytes, aside ? &outside : &value,
               (size_t)indices->bytes);
        value += !aside;
    }
    put(indices);
}

static bool kernel_repeats_right(struct dice *dice, const struct kvmill_kernel *kernel) {
    const kvmill_pack pack = {
        .abi = KVMILL_KERNEL_ABI, .count = 1, .name = "one", .kernels = &kernel, .manifest = ""};
    const kvmill_pack *const one[] = {&pack};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = one, .pack_count = 1};
    struct scattering it = choose_for(dice, kernel->shape);
    make_repeated(dice, &it.g);
    open_scattering(dice, &it);
    fill_repeated(dice, &it);
    return applies_right(dice, &it, &options);
}

static bool is_repeating(const struct kvmill_kernel *kernel) {
    const struct kvmill_scatter_shape *shape = kernel->shape;
    return shape->row == 1 && shape->components == 1 && shape->index_bits >= 8;
}

static void walk_kernel(const struct kvmill_kernel *kernel, int cases) {
    struct dice dice = dice_for_kernel(seed, kernel);
    bool right = true;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; right && i < cases; i++)
        right = kernel_scatters_right(&dice, kernel) &&
                (!is_repeating(kernel) || kernel_repeats_right(&dice, kernel));
    ok(right, "%s", kernel->symbol);
}

static void walk_kernels(int cases) {
    int64_t kernels = 0;
    for (int p = 0; p < PACKS; p++)
        for (uint32_t i = 0; i < packs[p]->count; i++) {
            const struct kvmill_kernel *kernel = packs[p]->kernels[i];
            if (kernel->family != KVMILL_SCATTER || !isa_is_allowed(kernel->isa))
                continue;
            walk_kernel(kernel, cases);
            kernels++;
        }
    ok(kernels > 0, "%" PRId64 " kernels that scatter", kernels);
}

/* ---- Several inputs, each with a combiner of its own, in a region ---- */

enum { PLACES = 50, POINTS = 200 };

struct variadic {
    unsigned char byte[PLACES], nibble[PLACES], update[POINTS];
    int64_t places[1], points[1], vectors[2];
    DLTensor inputs[2], updates[2], indices;
};

static void set_variadic(struct variadic *it, int32_t *index) {
    static const DLDataType i8 = {kDLInt, 8, 1}, ui4 = {kDLUInt, 4, 1}, i32 = {kDLInt, 32, 1};
    *it = (struct variadic){.places = {PLACES}, .points = {POINTS}, .vectors = {POINTS, 1}};
    it->inputs[0] = prototype(i8, 1, it->places);
    it->inputs[1] = prototype(ui4, 1, it->places);
    it->updates[0] = prototype(i8, 1, it->points);
    it->updates[1] = prototype(ui4, 1, it->points);
    it->indices = prototype(i32, 2, it->vectors);
    it->inputs[0].data = it->byte;
    it->inputs[1].data = it->nibble;
    it->updates[0].data = it->updates[1].data = it->update;
    it->indices.data = index;
    for (int i = 0; i < POINTS; i++)
        it->update[i] = (unsigned char)(7 * i + 1);
    for (int i = 0; i < PLACES; i++)
        it->byte[i] = it->nibble[i] = (unsigned char)(3 * i + 1);
}

/* In place, with kernels of packs or without. */
static bool runs_by(const kvmill_scatter *op, const DLTensor *const *tensors, bool portable) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS, .portable = portable};
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_status status = kvmill_plan_scatter(op, &options, &plan, &error);
    if (status == KVMILL_OK) {
        kvmill_plan_describe(plan, words, sizeof words);
        status = kvmill_run(plan, tensors, NULL, &error);
        kvmill_plan_destroy(plan);
    }
    if (status != KVMILL_OK)
        diag("%s", error.message);
    return status == KVMILL_OK &&
           (strstr(words, "apply with kvmill_scatter_") != NULL) == !portable;
}

/* Bytes are replaced, nibbles are multiplied. */
static bool run_variadic(struct variadic *it, bool portable) {
    static const int64_t axis_0[] = {0};
    const kvmill_element_type byte = {.dtype = it->inputs[0].dtype};
    const kvmill_element_type nibble = {.dtype = it->inputs[1].dtype};
    const kvmill_element_type types[] = {byte, nibble, byte, nibble};
    const kvmill_region_op ops[] = {{.name = "multiply", .element = nibble, .operands = {3, 1}}};
    const int32_t values[] = {2, 4};
    const kvmill_region region = {.arguments = types, .ops = ops, .op_count = 1, .results = values};
    const DLTensor *inputs[] = {&it->inputs[0], &it->inputs[1]};
    const DLTensor *updates[] = {&it->updates[0], &it->updates[1]};
    const DLTensor *tensors[] = {inputs[0],  inputs[1], &it->indices, updates[0],
                                 updates[1], inputs[0], inputs[1]};
    const kvmill_scatter op = {.struct_size = sizeof op,
                               .inserted_window_dims = {axis_0, 1},
                               .scatter_dims_to_operand_dims = {axis_0, 1},
                               .index_vector_dim = 1,
                               .region = &region,
                               .count = 2,
                               .inputs = inputs,
                               .updates = updates,
                               .scatter_indices = &it->indices};
    return runs_by(&op, tensors, portable);
}

static void test_variadic(void) {
    struct dice dice = dice_for(seed, "several inputs");
    struct variadic portable, generated;
    int32_t index[POINTS];
    for (int i = 0; i < POINTS; i++)
        index[i] = (int32_t)dice_range(&dice, -3, PLACES + 2);
    set_variadic(&portable, index);
    set_variadic(&generated, index);
    ok(run_variadic(&portable, true) && run_variadic(&generated, false) &&
           memcmp(portable.byte, generated.byte, PLACES) == 0 &&
           memcmp(portable.nibble, generated.nibble, PLACES) == 0,
       "two inputs, each with a kernel, as the portable one has them");
}

/* ---- Indices that are promised to be unique ---- */

enum { MANY = 200000 };

struct permutation {
    int64_t order[MANY], extent[1], vectors[2];
    float input[MANY], update[MANY], result[MANY];
};

static bool is_permuted(const struct permutation *it) {
    for (int i = 0; i < MANY; i++)
        if (it->result[it->order[i]] != it->input[it->order[i]] + it->update[i])
            return false;
    return true;
}

/* Parts of the run, or 0 where it is wrong. */
static int64_t parts_of_permutation(struct dice *dice, struct permutation *it, bool unique) {
    static const int64_t axis_0[] = {0};
    static const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1};
    DLTensor input = prototype(f32, 1, it->extent), result = input, update = input;
    DLTensor indices = prototype(i64, 2, it->vectors);
    const DLTensor *inputs[] = {&input}, *updates[] = {&update};
    const DLTensor *tensors[] = {&input, &indices, &update, &result};
    const kvmill_scatter op = {.struct_size = sizeof op,
                               .inserted_window_dims = {axis_0, 1},
                               .scatter_dims_to_operand_dims = {axis_0, 1},
                               .index_vector_dim = 1,
                               .unique_indices = unique,
                               .update_computation = "add",
                               .count = 1,
                               .inputs = inputs,
                               .updates = updates,
                               .scatter_indices = &indices};
    const char *parts;
    char words[4096];
    kvmill_plan *plan;
    kvmill_error error;
    input.data = it->input;
    result.data = it->result;
    update.data = it->update;
    indices.data = it->order;
    if (kvmill_plan_scatter(&op, windows_options(), &plan, &error) != KVMILL_OK)
        return 0;
    kvmill_plan_describe(plan, words, sizeof words);
    kvmill_status status = run_shuffled(dice, plan, tensors, &error);
    kvmill_plan_destroy(plan);
    parts = strstr(words, "up to ");
    return status == KVMILL_OK && parts != NULL && is_permuted(it) ? atoll(parts + 6) : 0;
}

static void test_unique(void) {
    struct dice dice = dice_for(seed, "unique");
    struct permutation *it = malloc(sizeof *it);
    *it->extent = it->vectors[0] = MANY;
    it->vectors[1] = 1;
    dice_order(&dice, it->order, MANY);
    for (int i = 0; i < MANY; i++) {
        it->input[i] = (float)dice_range(&dice, -1000, 1000);
        it->update[i] = (float)dice_range(&dice, -1000, 1000);
    }
    int64_t few = parts_of_permutation(&dice, it, false);
    int64_t many = parts_of_permutation(&dice, it, true);
    ok(few == 1 && many > 2,
       "points in %" PRId64 " parts, and in %" PRId64 " where indices are unique", few, many);
    free(it);
}

/* ---- All of it ---- */

static void walk(const char *name, bool (*is_right)(struct dice *, bool), int cases, bool large) {
    int wrong = 0;
    for (int i = 0; i < cases && wrong < 3; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s %d %d", name, large, i);
        struct dice dice = dice_for(seed, words);
        fence_explain_traps(words);
        if (!is_right(&dice, large)) {
            diag("case \"%s\"", words);
            wrong++;
        }
    }
    ok(wrong == 0, "%d random %s, %s", cases, name, large ? "large" : "small");
}

static void check_seen(void) {
    const struct {
        const char *name;
        int64_t count;
    } ways[] = {
        {"batching pairs", seen.pairs},
        {"several of them", seen.many_pairs},
        {"unsorted ones", seen.unsorted_pairs},
        {"index vectors not last", seen.inner_vector},
        {"implicit ones", seen.implicit},
        {"empty ones", seen.no_components},
        {"window axes not last", seen.transposed},
        {"strides", seen.strided},
        {"several parts", seen.many_parts},
        {"in place", seen.in_place},
        {"skip_window", seen.skipped},
        {"fill", seen.filled},
        {"extreme indices", seen.extreme},
        {"empty results", seen.empty},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        ok(ways[i].count > 0, "cases with %s: %" PRId64, ways[i].name, ways[i].count);
}

int main(void) {
    int cases = windows_cases(is_slow_run() ? few_cases(700) : 4000);
    int large_cases = windows_cases(is_slow_run() ? few_cases(64) : 240) / 4;
    seed = dice_seed();
    walk("gather", gathers_right, cases, false);
    walk("scatter", scatters_right, cases, false);
    walk("gather", gathers_right, large_cases, true);
    walk("scatter", scatters_right, large_cases, true);
    if (windows_options() != NULL) {
        ok(windows_counted() > cases / 2, "kernels were made for them: %" PRId64,
           windows_counted());
        return done_testing();
    }
    walk("scatter with packs", packs_scatter_right, cases / 2, false);
    walk("scatter with packs", packs_scatter_right, large_cases, true);
    walk_kernels(is_slow_run() ? few_cases(12) : 24);
    test_variadic();
    test_unique();
    if (windows_cases(0) == 0) /* a few need not be of all kinds */
        check_seen();
    return done_testing();
}
