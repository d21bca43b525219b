/* stablehlo.gather and stablehlo.scatter through the public interface against two oracles, bit for
   bit: random geometry, index types, strides, combiners; serially and in shuffled parts.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "oracle/windows.h"
#include "tap.h"
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

/* Bits are equal, or both are NaN. */
static bool is_as_dense(const struct pair *pair, DLDataType type) {
    int64_t where;
    for (int64_t i = 0; i < pair->count; i++) {
        const unsigned char *want = pair->dense + i * pair->bytes, *have = element_of(pair, i);
        if (memcmp(have, want, (size_t)pair->bytes) != 0 && !is_nan_pair(type, have, want)) {
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
        int64_t parts = kvmill_parts(&call);
        int64_t *order = malloc((size_t)(parts + 1) * sizeof *order);
        dice_order(dice, order, parts);
        for (int64_t i = 0; i < parts; i++)
            kvmill_part(&call, order[i]);
        seen.many_parts += parts > 1;
        free(order);
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

static bool gathers_right(struct dice *dice, bool large) {
    struct geometry g;
    struct pair operand, indices, result;
    unsigned char fill[16];
    make_geometry(dice, large, true, &g);
    DLDataType type = copied_types[dice_range(dice, 0, 6)];
    DLDataType index_type = index_types[dice_range(dice, 0, INDEX_TYPES - 1)];
    open_pair(dice, type, g.rank, g.dims, &operand);
    open_pair(dice, index_type, g.indices_rank, g.indices_dims, &indices);
    open_pair(dice, type, g.windowed_rank, g.windowed_dims, &result);
    random_bytes(dice, &operand);
    fill_indices(dice, &g, index_type, &indices);
    put(&operand);
    put(&indices);
    for (int i = 0; i < 16; i++)
        fill[i] = (unsigned char)dice_bits(dice);
    kvmill_gather op = {
        .struct_size = sizeof op,
        .offset_dims = list(g.window, g.windows),
        .collapsed_slice_dims = list(g.dropped, g.droppeds),
        .operand_batching_dims = list(g.batching, g.pairs),
        .start_indices_batching_dims = list(g.indices_batching, g.pairs),
        .start_index_map = list(g.map, g.components),
        .slice_sizes = list(g.slice, g.rank),
        .index_vector_dim = g.ivd,
        .indices_are_sorted = dice_once_in(dice, 4),
        .mode = dice_once_in(dice, 3) ? "fill" : NULL,
        .fill_value = fill,
        .operand = &operand.fenced.dl,
        .start_indices = &indices.fenced.dl,
        .result = &result.fenced.dl,
    };
    const DLTensor *tensors[] = {op.operand, op.start_indices, op.result};
    kvmill_plan *plan;
    kvmill_error error;
    seen.gathers++;
    seen.filled += op.mode != NULL;
    seen.empty += result.count == 0;
    windows_tell_gather(&op);
    bool right = kvmill_plan_gather(&op, windows_options(), &plan, &error) == KVMILL_OK;
    if (right)
        windows_count(plan);
    else
        diag("%s", error.message);
    right = right && run_plan(dice, plan, tensors);
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        oracle_gather((enum oracle_form)form, &op, operand.dense, indices.dense, result.dense);
        right = is_as_dense(&result, type);
    }
    close_pair(&operand);
    close_pair(&indices);
    close_pair(&result);
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

static void combine(void *context, unsigned char *const *accumulators,
                    const unsigned char *const *updates) {
    const struct combiner *combiner = context;
    DLDataType type = combiner->type;
    if (combiner->operation == REPLACE)
        memcpy(accumulators[0], updates[0], (size_t)element_bytes(type));
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

static bool scatters_right(struct dice *dice, bool large) {
    struct geometry g;
    struct pair input, indices, update, result;
    make_geometry(dice, large, false, &g);
    struct combiner combiner = choose_combiner(dice);
    DLDataType type = combiner.type;
    DLDataType index_type = index_types[dice_range(dice, 0, INDEX_TYPES - 1)];
    bool in_place = dice_once_in(dice, 3);
    open_pair(dice, type, g.rank, g.dims, &input);
    open_pair(dice, index_type, g.indices_rank, g.indices_dims, &indices);
    open_pair(dice, type, g.windowed_rank, g.windowed_dims, &update);
    open_pair(dice, type, g.rank, g.dims, &result);
    random_numbers(dice, type, &input);
    random_numbers(dice, type, &update);
    fill_indices(dice, &g, index_type, &indices);
    put(&input);
    put(&indices);
    put(&update);
    const DLTensor *inputs[] = {&input.fenced.dl}, *updates[] = {&update.fenced.dl};
    kvmill_scatter op = {
        .struct_size = sizeof op,
        .update_window_dims = list(g.window, g.windows),
        .inserted_window_dims = list(g.dropped, g.droppeds),
        .input_batching_dims = list(g.batching, g.pairs),
        .scatter_indices_batching_dims = list(g.indices_batching, g.pairs),
        .scatter_dims_to_operand_dims = list(g.map, g.components),
        .index_vector_dim = g.ivd,
        .indices_are_sorted = dice_once_in(dice, 4),
        .window_out_of_bounds = dice_once_in(dice, 3) ? "skip_window" : NULL,
        .update_computation = operation_names[combiner.operation],
        .count = 1,
        .inputs = inputs,
        .updates = updates,
        .scatter_indices = &indices.fenced.dl,
    };
    struct pair *output = in_place ? &input : &result;
    const DLTensor *tensors[] = {inputs[0], op.scatter_indices, updates[0], &output->fenced.dl};
    kvmill_plan *plan;
    kvmill_error error;
    seen.scatters++;
    seen.in_place += in_place;
    seen.skipped += op.window_out_of_bounds != NULL;
    bool right = kvmill_plan_scatter(&op, NULL, &plan, &error) == KVMILL_OK;
    if (!right)
        diag("%s", error.message);
    fence_protect(&update.fenced.fence, true);
    fence_protect(&input.fenced.fence, !in_place);
    right = right && run_plan(dice, plan, tensors);
    fence_protect(&update.fenced.fence, false);
    fence_protect(&input.fenced.fence, false);
    unsigned char *original = malloc((size_t)(input.count * input.bytes) + 1);
    memcpy(original, input.dense, (size_t)(input.count * input.bytes));
    for (int form = 0; right && form < ORACLE_FORMS; form++) {
        memcpy(output->dense, original, (size_t)(input.count * input.bytes));
        const unsigned char *update_data[] = {update.dense};
        unsigned char *result_data[] = {output->dense};
        oracle_scatter((enum oracle_form)form, &op, indices.dense, update_data, result_data,
                       &input.bytes, combine, &combiner);
        right = is_as_dense(output, type);
    }
    if (!right)
        diag("%s of %d bits, code %d", operation_names[combiner.operation], type.bits, type.code);
    free(original);
    close_pair(&input);
    close_pair(&indices);
    close_pair(&update);
    close_pair(&result);
    return right;
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
    int cases = windows_cases(is_slow_run() ? 700 : 4000);
    int large_cases = windows_cases(is_slow_run() ? 64 : 240) / 4;
    seed = dice_seed();
    walk("gather", gathers_right, cases, false);
    walk("scatter", scatters_right, cases, false);
    walk("gather", gathers_right, large_cases, true);
    walk("scatter", scatters_right, large_cases, true);
    if (windows_cases(0) == 0) /* a few need not be of all kinds */
        check_seen();
    if (windows_options() != NULL)
        ok(windows_counted() > cases / 2, "kernels were made for them: %" PRId64,
           windows_counted());
    return done_testing();
}
