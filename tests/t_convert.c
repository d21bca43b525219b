/* Every kernel of every linked pack that writes or reads converted rows, to the bit: random
   problems in fenced buffers, and the numbers that the operators' reference gives.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence.h"
#include "oracle/cache_attention.h"
#include "tap.h"
#include "walk.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};

enum { BLOCK = 32, MOST_TOKENS = 12, MOST_PIECES = 5, MOST_SWEEPS = 16 };

static uint64_t seed;
static int64_t cases;

/* ---- Shapes ---- */

static enum oracle_type type_of(int element) {
    return (enum oracle_type)(element - 1);
}

static bool is_writer(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_WRITE_ROWS;
}

static bool is_float(int element) {
    return element <= KVMILL_BF16 || element == KVMILL_E4M3 || element == KVMILL_E5M2;
}

static bool is_blocks(int element) {
    return element == KVMILL_Q8_0 || element == KVMILL_Q4_0 || element == KVMILL_Q5_1;
}

static bool is_copy(const struct kvmill_convert_shape *shape) {
    return shape->activation == shape->format.element && shape->format.quant_group == 0;
}

static int64_t group_of(const struct kvmill_format *format) {
    return is_blocks(format->element) ? BLOCK
           : format->quant_group      ? format->quant_group
                                      : format->dim;
}

static int64_t data_bytes(const struct kvmill_format *format) {
    return oracle_bytes(type_of(format->element), format->dim);
}

static int64_t scale_bytes(const struct kvmill_format *format) {
    return format->quant_group
               ? oracle_bytes(type_of(format->scale), format->dim / format->quant_group)
               : 0;
}

static int64_t activation_bytes(const struct kvmill_convert_shape *shape) {
    return oracle_bytes(type_of(shape->activation), shape->format.dim);
}

/* ---- One row in plain words ---- */

/* What the reference of llama.cpp leaves open: blocks that are not finite have codes 0, and where
   the inverse of the scale overflows, codes are as far from 0 as they can be. */
static void mend_block(int element, double *numbers, unsigned char *block, bool after) {
    double extreme = 0, codes[BLOCK];
    bool is_nan = false;
    for (int i = 0; i < BLOCK; i++) {
        is_nan |= isnan(numbers[i]);
        extreme = fabs(numbers[i]) > fabs(extreme) ? numbers[i] : extreme;
    }
    float scale = (float)(is_nan ? NAN : extreme) / (element == KVMILL_Q8_0 ? 127.0f : -8.0f);
    if (element == KVMILL_Q8_0)
        scale = fabsf(scale);
    if (scale == 0 || isfinite(1 / scale)) {
        if (isfinite(scale))
            return;
    }
    for (int i = 0; i < BLOCK && !after; i++)
        numbers[i] = 0;
    for (int i = 0; i < BLOCK; i++) {
        double sign = numbers[i] == 0 ? 0 : (numbers[i] < 0) == (scale < 0) ? 1 : -1;
        codes[i] = !isfinite(scale) ? 0 : sign * (element == KVMILL_Q8_0 ? 127 : 8);
        codes[i] = codes[i] == 8 ? 7 : codes[i];
    }
    if (!after)
        return;
    oracle_put(ORACLE_F16, block, 0, is_nan ? (double)NAN : (double)scale);
    for (int i = 0; i < BLOCK; i++) {
        int half = i / 16 * 4;
        if (element == KVMILL_Q8_0)
            block[2 + i] = (unsigned char)(int)codes[i];
        else
            block[2 + i % 16] =
                (unsigned char)((block[2 + i % 16] & (0xf0 >> half)) | ((int)codes[i] + 8) << half);
    }
}

/* The same of blocks with a minimum: NaN where an element is not finite; where the range is not,
   codes 0; where it has no inverse, codes of all above the minimum are 31. */
static void mend_range(double *numbers, unsigned char *block, bool after) {
    double least = numbers[0], most = numbers[0];
    bool finite = true;
    for (int i = 0; i < BLOCK; i++) {
        finite &= isfinite(numbers[i]) != 0;
        least = fmin(least, numbers[i]);
        most = fmax(most, numbers[i]);
    }
    float range = (float)(most - least), scale = finite ? range / 31.0f : NAN;
    bool open = isfinite(scale) && scale != 0 && !isfinite(1 / scale);
    if (isfinite(scale) && !open)
        return;
    for (int i = 0; i < BLOCK && !after; i++)
        numbers[i] = 0;
    if (!after)
        return;
    oracle_put(ORACLE_F16, block, 0, (double)scale);
    oracle_put(ORACLE_F16, block, 1, finite ? least : (double)NAN);
    for (int i = 0; i < BLOCK && open; i++) {
        bool above = numbers[i] > least;
        block[4 + i / 8] = (unsigned char)(block[4 + i / 8] | above << i % 8);
        block[8 + i % 16] = (unsigned char)(block[8 + i % 16] | (above ? 15 : 0) << i / 16 * 4);
    }
}

static void mend_blocks(const struct kvmill_format *format, double *numbers, unsigned char *row,
                        bool after) {
    if (!is_blocks(format->element))
        return;
    int64_t step = oracle_bytes(type_of(format->element), BLOCK);
    for (int64_t i = 0; i < format->dim; i += BLOCK, row += step)
        if (format->element == KVMILL_Q5_1)
            mend_range(numbers + i, row, after);
        else
            mend_block(format->element, numbers + i, row, after);
}

static struct oracle_side side_of(const struct kvmill_format *format, unsigned char *data,
                                  unsigned char *scale) {
    return (struct oracle_side){.type = type_of(format->element),
                                .scale_type = format->scale ? type_of(format->scale) : ORACLE_F32,
                                .dim = format->dim,
                                .group = format->quant_group,
                                .data = data,
                                .scale = scale};
}

static void write_row(const struct kvmill_convert_shape *shape, const unsigned char *from,
                      unsigned char *data, unsigned char *scale) {
    struct oracle_side side = side_of(&shape->format, data, scale);
    int64_t dim = shape->format.dim;
    double *numbers = malloc((size_t)dim * 2 * sizeof *numbers), *open = numbers + dim;
    for (int64_t i = 0; i < dim; i++)
        numbers[i] = open[i] = oracle_get(type_of(shape->activation), from, i);
    mend_blocks(&shape->format, open, data, false);
    oracle_write_row(&side, type_of(shape->activation), 0, open);
    mend_blocks(&shape->format, numbers, data, true);
    free(numbers);
}

static void read_row(const struct kvmill_convert_shape *shape, unsigned char *to,
                     unsigned char *data, unsigned char *scale) {
    struct oracle_side side = side_of(&shape->format, data, scale);
    double *numbers = malloc((size_t)shape->format.dim * sizeof *numbers);
    oracle_read_row(&side, type_of(shape->activation), 0, numbers);
    for (int64_t i = 0; i < shape->format.dim; i++)
        oracle_put(type_of(shape->activation), to, i, numbers[i]);
    free(numbers);
}

/* ---- Numbers to convert ---- */

static double any_fraction(struct dice *dice) {
    return (double)(int64_t)dice_bits(dice) * 0x1p-63;
}

static double any_float(enum oracle_type type, struct dice *dice) {
    uint32_t bits = (uint32_t)dice_bits(dice);
    double x = oracle_decode(type, type == ORACLE_F32 ? bits : bits & 0xffff);
    return isfinite(x) ? x : 1;
}

static double largest_of(enum oracle_type type) {
    return type == ORACLE_F16 ? 65504 : type == ORACLE_F32 ? 0x1.fffffep127 : 0x1.fep127;
}

/* Halves of codes, exactly or a little beside, for the scale that `peak` gives. */
static double near_half(enum oracle_type type, double peak, int most, struct dice *dice) {
    double scale = fmax(oracle_round(type, peak / most), oracle_round(type, 1e-5));
    double half = (double)dice_range(dice, -most, most - 1) + 0.5;
    double beside = (double)dice_range(dice, -3, 3) * (type == ORACLE_F32   ? 0x1p-24
                                                       : type == ORACLE_F16 ? 0x1p-11
                                                                            : 0x1p-8);
    return half * scale * (1 + beside);
}

/* Halfway between two neighbours of a shorter type. */
static double any_midpoint(struct dice *dice) {
    static const enum oracle_type types[] = {ORACLE_F16, ORACLE_BF16, ORACLE_E4M3, ORACLE_E5M2};
    enum oracle_type type = types[dice_range(dice, 0, 3)];
    uint32_t bits = (uint32_t)dice_bits(dice) & 0x7fff;
    double x = oracle_decode(type, bits) / 2 + oracle_decode(type, bits + 1) / 2;
    return isfinite(x) ? x : 0;
}

/* Every kind of group there is; each element by its own dice. */
static void fill_group(enum oracle_type type, unsigned char *row, int64_t begin, int64_t count,
                       int most, struct dice *dice) {
    int kind = (int)dice_range(dice, 0, 10);
    double unit = ldexp(1, (int)dice_range(dice, -22, type == ORACLE_F16 ? 11 : 60));
    unit *= kind < 2 ? (double)dice_range(dice, 0, 7) * 2 + 1 : 1;
    double peak =
        oracle_round(type, kind < 2 ? most * unit / 128 : unit * (1 + fabs(any_fraction(dice))));
    int64_t at = begin + dice_range(dice, 0, count - 1);
    for (int64_t i = begin; i < begin + count; i++) {
        double x = kind == 0   ? (double)dice_range(dice, -2 * most, 2 * most) / 2 * unit / 128
                   : kind == 1 ? near_half(type, peak, most, dice)
                   : kind == 2 ? 0
                   : kind == 3 ? any_fraction(dice) * 2e-3
                   : kind == 4 ? any_fraction(dice) * largest_of(type)
                   : kind == 5 ? any_float(type, dice)
                   : kind == 6 ? near_half(type, peak, most, dice)
                   : kind == 7 ? any_fraction(dice) * 1e-37
                   : kind == 8 ? any_midpoint(dice)
                               : any_fraction(dice) * peak;
        if (i == at && (kind < 2 || kind == 6))
            x = dice_once_in(dice, 2) ? peak : -peak;
        oracle_put(type, row, i, x);
    }
    if (dice_once_in(dice, 24))
        oracle_put(type, row, at, dice_once_in(dice, 2) ? NAN : INFINITY);
    if (dice_once_in(dice, 48))
        oracle_put(type, row, begin + dice_range(dice, 0, count - 1), -INFINITY);
}

static void fill_activations(const struct kvmill_convert_shape *shape, unsigned char *row,
                             struct dice *dice) {
    const struct kvmill_format *format = &shape->format;
    int64_t group = group_of(format);
    int most = format->element == KVMILL_I4     ? 7
               : format->element == KVMILL_Q4_0 ? 8
               : format->element == KVMILL_Q5_1 ? 31
                                                : 127;
    for (int64_t i = 0; is_float(shape->activation) && i < format->dim; i += group)
        fill_group(type_of(shape->activation), row, i, group, most, dice);
}

/* Scales and numbers of a cache: now and then such as no writer leaves. */
static void fill_floats(enum oracle_type type, unsigned char *array, int64_t count,
                        struct dice *dice) {
    for (int64_t i = 0; i < count; i++) {
        double x = ldexp(1 + any_fraction(dice) / 2, (int)dice_range(dice, -17, 8));
        if (dice_once_in(dice, 4))
            x = any_float(type, dice);
        if (dice_once_in(dice, 40))
            x = dice_once_in(dice, 2) ? NAN : INFINITY;
        oracle_put(type, array, i, x);
    }
}

static void fill_cache_row(const struct kvmill_format *format, unsigned char *data,
                           unsigned char *scale, struct dice *dice) {
    if (is_float(format->element))
        fill_floats(type_of(format->element), data, format->dim, dice);
    if (format->quant_group)
        fill_floats(type_of(format->scale), scale, format->dim / format->quant_group, dice);
    int64_t step = oracle_bytes(type_of(format->element), BLOCK);
    for (int64_t i = 0; is_blocks(format->element) && i < format->dim / BLOCK; i++)
        fill_floats(ORACLE_F16, data + i * step, format->element == KVMILL_Q5_1 ? 2 : 1, dice);
}

/* ---- Problems ---- */

/* Rows of one tensor: row r of head h begins at r * row + h * head. */
struct grid {
    int64_t rows, heads, bytes; /* of one row */
    int64_t row, head;
    struct fence fence, expected;
};

struct problem {
    const struct kvmill_kernel *kernel;
    const struct kvmill_convert_shape *shape;
    struct kvmill_convert convert;
    int64_t tokens, slot[MOST_TOKENS];
    struct grid activation, data, scale;
    char words[512];
};

static int64_t round_up(int64_t x, int64_t to) {
    return (x + to - 1) / to * to;
}

static void open_grid(struct grid *grid, bool aligned, struct dice *dice) {
    int64_t step = grid->bytes + (dice_once_in(dice, 2) ? 0 : dice_range(dice, 0, 40));
    step = aligned ? round_up(step, 64) : step;
    bool head_major = dice_once_in(dice, 2);
    grid->row = head_major ? step : step * grid->heads;
    grid->head = head_major ? step * grid->rows : step;
    int64_t size = (grid->rows - 1) * grid->row + (grid->heads - 1) * grid->head + grid->bytes;
    int misalignment = aligned ? 0 : (int)dice_range(dice, FENCE_FLUSH, 63);
    fence_open(&grid->fence, grid->bytes ? (size_t)size : 0, misalignment,
               dice_once_in(dice, 3) ? FENCE_BELOW : FENCE_ABOVE, dice);
    fence_open(&grid->expected, grid->fence.size, FENCE_FLUSH, FENCE_ABOVE, dice);
}

static unsigned char *row_in(const struct fence *fence, const struct grid *grid, int64_t row,
                             int64_t head) {
    return fence->data + row * grid->row + head * grid->head;
}

static void choose_slots(struct problem *problem, int64_t rows, struct dice *dice) {
    int64_t order[2 * MOST_TOKENS];
    dice_order(dice, order, rows);
    for (int64_t t = 0; t < problem->tokens; t++)
        problem->slot[t] = order[t];
}

static void open_problem(struct problem *problem, const struct kvmill_kernel *kernel,
                         struct dice *dice) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    struct kvmill_convert *convert = &problem->convert;
    int64_t heads = dice_range(dice, 1, 4), repeat = dice_range(dice, 1, 3);
    int64_t tokens = dice_range(dice, 0, MOST_TOKENS), rows = tokens + dice_range(dice, 1, 5);
    bool aligned = dice_once_in(dice, 2);
    repeat = is_writer(kernel) ? 1 : repeat;
    *problem = (struct problem){.kernel = kernel, .shape = shape, .tokens = tokens};
    problem->activation = (struct grid){
        .rows = tokens + 1, .heads = heads * repeat, .bytes = activation_bytes(shape)};
    problem->data =
        (struct grid){.rows = rows, .heads = heads, .bytes = data_bytes(&shape->format)};
    problem->scale =
        (struct grid){.rows = rows, .heads = heads, .bytes = scale_bytes(&shape->format)};
    open_grid(&problem->activation, aligned, dice);
    open_grid(&problem->data, aligned, dice);
    open_grid(&problem->scale, dice_once_in(dice, 2), dice);
    choose_slots(problem, rows, dice);
    *convert = (struct kvmill_convert){
        .shape = shape,
        .activation = problem->activation.fence.data,
        .token_stride = problem->activation.row,
        .head_stride = problem->activation.head,
        .cache = {problem->data.fence.data,
                  shape->format.quant_group ? problem->scale.fence.data : NULL, problem->data.row,
                  problem->data.head, problem->scale.row, problem->scale.head},
        .slot = problem->slot,
        .heads = heads,
        .repeat = repeat,
        .stream = dice_range(dice, 0, 1),
    };
    snprintf(problem->words, sizeof problem->words,
             "%s: tokens %" PRId64 ", heads %" PRId64 ", repeat %" PRId64 ", stream %" PRId64
             ", activation steps %" PRId64 " %" PRId64 " at %d, data steps %" PRId64 " %" PRId64
             " at %d, scale steps %" PRId64 " %" PRId64 " at %d",
             kernel->symbol, tokens, heads, repeat, convert->stream, convert->token_stride,
             convert->head_stride, (int)((uintptr_t)convert->activation % 64), problem->data.row,
             problem->data.head, (int)((uintptr_t)convert->cache.data % 64), problem->scale.row,
             problem->scale.head, (int)((uintptr_t)convert->cache.scale % 64));
}

static void close_grid(struct grid *grid) {
    fence_close(&grid->fence);
    fence_close(&grid->expected);
}

static void fill_problem(struct problem *problem, struct dice *dice) {
    const struct grid *from = &problem->activation, *data = &problem->data,
                      *scale = &problem->scale;
    for (int64_t h = 0; h < from->heads; h++)
        for (int64_t t = 0; t < from->rows && is_writer(problem->kernel); t++)
            fill_activations(problem->shape, row_in(&from->fence, from, t, h), dice);
    for (int64_t h = 0; h < data->heads; h++)
        for (int64_t r = 0; r < data->rows && !is_writer(problem->kernel); r++)
            fill_cache_row(&problem->shape->format, row_in(&data->fence, data, r, h),
                           row_in(&scale->fence, scale, r, h), dice);
    struct grid *const grids[] = {&problem->activation, &problem->data, &problem->scale};
    for (int i = 0; i < 3; i++)
        if (grids[i]->fence.size > 0)
            memcpy(grids[i]->expected.data, grids[i]->fence.data, grids[i]->fence.size);
}

static void expect_row(struct problem *problem, int64_t t, int64_t h, int64_t repeated) {
    struct grid *cache = &problem->data, *scale = &problem->scale, *rows = &problem->activation;
    unsigned char *row = row_in(&rows->expected, rows, t, h * problem->convert.repeat + repeated);
    unsigned char *data = row_in(&cache->expected, cache, problem->slot[t], h);
    unsigned char *scales = row_in(&scale->expected, scale, problem->slot[t], h);
    if (is_copy(problem->shape))
        memcpy(is_writer(problem->kernel) ? data : row, is_writer(problem->kernel) ? row : data,
               (size_t)cache->bytes);
    else if (is_writer(problem->kernel))
        write_row(problem->shape, row, data, scales);
    else
        read_row(problem->shape, row, data, scales);
}

static void compute_expected(struct problem *problem) {
    for (int64_t t = 0; t < problem->tokens; t++)
        for (int64_t h = 0; h < problem->convert.heads; h++)
            for (int64_t r = 0; r < problem->convert.repeat; r++)
                expect_row(problem, t, h, r);
}

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void run_in_pieces(const struct problem *problem, struct dice *dice) {
    int64_t pieces = dice_range(dice, 1, MOST_PIECES), cuts[MOST_PIECES + 1] = {0};
    int64_t order[MOST_PIECES];
    for (int64_t i = 1; i < pieces; i++)
        cuts[i] = dice_range(dice, 0, problem->tokens);
    cuts[pieces] = problem->tokens;
    qsort(cuts, (size_t)pieces + 1, sizeof *cuts, compare_cuts);
    dice_order(dice, order, pieces);
    for (int64_t i = 0; i < pieces; i++)
        problem->kernel->run(&problem->convert, cuts[order[i]], cuts[order[i] + 1]);
}

static void protect_inputs(const struct problem *problem, bool read_only) {
    if (is_writer(problem->kernel)) {
        fence_protect(&problem->activation.fence, read_only);
        return;
    }
    fence_protect(&problem->data.fence, read_only);
    fence_protect(&problem->scale.fence, read_only);
}

/* ---- Judging ---- */

/* What is not a number has many bit patterns, and machines choose different ones. */
static void unify(int element, unsigned char *row, int64_t dim) {
    for (int64_t i = 0; i < dim; i++)
        if (isnan(oracle_get(type_of(element), row, i)))
            oracle_put(type_of(element), row, i, (double)NAN);
}

static void unify_grid(const struct grid *grid, int element, int64_t dim) {
    for (int64_t r = 0; r < grid->rows; r++)
        for (int64_t h = 0; h < grid->heads; h++) {
            unify(element, row_in(&grid->fence, grid, r, h), dim);
            unify(element, row_in(&grid->expected, grid, r, h), dim);
        }
}

static void unify_problem(struct problem *problem) {
    const struct kvmill_convert_shape *shape = problem->shape;
    if (is_copy(shape))
        return;
    if (!is_writer(problem->kernel))
        unify_grid(&problem->activation, shape->activation, shape->format.dim);
    else if (is_float(shape->format.element))
        unify_grid(&problem->data, shape->format.element, shape->format.dim);
}

static bool is_as_expected(const struct problem *problem, const struct grid *grid,
                           const char *name) {
    const struct fence *have = &grid->fence, *want = &grid->expected;
    size_t i = 0;
    int64_t where;
    while (i < have->size && have->data[i] == want->data[i])
        i++;
    if (i < have->size) {
        diag("%s", problem->words);
        diag("byte %zu of %zu of %s: have %02x, want %02x", i, have->size, name, have->data[i],
             want->data[i]);
        return false;
    }
    if (fence_is_intact(have, &where))
        return true;
    diag("%s", problem->words);
    diag("byte %" PRId64 " of %s of %zu bytes is outside, but was written", where, name,
         have->size);
    return false;
}

static bool run_case(const struct kvmill_kernel *kernel, struct dice *dice) {
    struct problem problem;
    open_problem(&problem, kernel, dice);
    fill_problem(&problem, dice);
    compute_expected(&problem);
    fence_explain_traps(problem.words);
    protect_inputs(&problem, true);
    run_in_pieces(&problem, dice);
    protect_inputs(&problem, false);
    unify_problem(&problem);
    bool good = is_as_expected(&problem, &problem.activation, "activation") &&
                is_as_expected(&problem, &problem.data, "data") &&
                is_as_expected(&problem, &problem.scale, "scale");
    close_grid(&problem.activation);
    close_grid(&problem.data);
    close_grid(&problem.scale);
    cases++;
    return good;
}

/* ---- The reference's own numbers ---- */

/* One group, for every kernel that has such groups; the rest of its row is 0. */
struct known {
    const char *name;
    int activation, element, scale, group;
    double input[16];
    uint32_t scale_bits;
    int code[16];
    double back[16]; /* what is read; all 0: not looked at */
};

/* clang-format off */
static const struct known known[] = {
    {"Q1", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5},
     0x3f800000, {127, -127, 64, 0, 2, 2, 0, -2}, {0}},
    {"Q1", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5},
     0x3c00, {127, -127, 64, 0, 2, 2, 0, -2}, {0}},
    {"Q2", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {31.75, -31.75, .125, .375, -.125, 10, -7.9, 0},
     0x3e800000, {127, -127, 0, 2, 0, 40, -32, 0}, {31.75, -31.75, 0, .5, 0, 10, -8, 0}},
    {"Q3", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {0}, 0x3727c5ac, {0}, {0}},
    {"Q3", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {0}, 0x00a8, {0}, {0}},
    {"Q4", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     0x3727c5ac, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q4", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {1e-4, -5e-5, 2.4e-5, 4e-6, 6e-6, -1e-4, 1e-5, 0},
     0x00a8, {10, -5, 2, 0, 1, -10, 1, 0}, {0}},
    {"Q5", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3d810204, {16, 32, 48, 64, 79, 95, 111, 127}, {0}},
    {"Q5", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x2c08, {16, 32, 48, 64, 79, 95, 111, 127}, {0}},
    {"Q6", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {18, 9, -9, -18, 4.5, 1, 0, 2},
     0x3e112245, {127, 63, -63, -127, 32, 7, 0, 14}, {0}},
    {"Q7", KVMILL_F32, KVMILL_I8, KVMILL_F32, 8, {30, 15, -15, -30, 7.5, 1, 0, 2},
     0x3e71e3c8, {127, 64, -64, -127, 32, 4, 0, 8}, {0}},
    {"Q8", KVMILL_F16, KVMILL_I8, KVMILL_F16, 8, {17, 16, 8.5, -17, -16, 1, 0, 2},
     0x3049, {127, 120, 63, -127, -120, 7, 0, 15}, {0}},
    {"Q9", KVMILL_F32, KVMILL_I8, KVMILL_F32, 16,
     {127, -127, 63.5, .5, 1.5, 2.5, -.5, -2.5, 31.75, -31.75, .125, .375, -.125, 10, -7.9, 0},
     0x3f800000, {127, -127, 64, 0, 2, 2, 0, -2, 32, -32, 0, 0, 0, 10, -8, 0}, {0}},
    {"Q10", KVMILL_F32, KVMILL_I8, KVMILL_F16, 8, {1, -.5, .25, 0, .1, .2, .3, .4},
     0x2008, {127, -64, 32, 0, 13, 25, 38, 51},
     {1, -.50390625, .251953125, 0, .10235595703125, .19677734375, .29931640625, .401611328125}},
    {"I1", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {7, -7, 3.5, .5, 1.5, 2.5, -3.5, -6.5},
     0x3f800000, {7, -7, 4, 0, 2, 2, -4, -6}, {0}},
    {"I2", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3f924925, {1, 2, 3, 3, 4, 5, 6, 7}, {0}},
    {"I2", KVMILL_F16, KVMILL_I4, KVMILL_F16, 8, {1, 2, 3, 4, 5, 6, 7, 8},
     0x3c92, {1, 2, 3, 4, 4, 5, 6, 7}, {0}},
    {"I3", KVMILL_F32, KVMILL_I4, KVMILL_F32, 8, {-8, 7, 1, 0, 0, 0, 0, 0},
     0x3f924925, {-7, 6, 1, 0, 0, 0, 0, 0}, {0}},
};
/* clang-format on */

static bool fits(const struct known *k, const struct kvmill_convert_shape *shape) {
    return shape->activation == k->activation && shape->format.element == k->element &&
           shape->format.scale == k->scale && shape->format.quant_group == k->group;
}

static bool is_read_back(const struct known *k) {
    return k->back[0] != 0;
}

struct known_row {
    unsigned char *activation, *data, *scale;
};

static void run_known(const struct kvmill_kernel *kernel, const struct known_row *row) {
    static const int64_t slot;
    struct kvmill_convert convert = {.shape = kernel->shape,
                                     .activation = row->activation,
                                     .cache = {.data = row->data, .scale = row->scale},
                                     .slot = &slot,
                                     .heads = 1,
                                     .repeat = 1};
    kernel->run(&convert, 0, 1);
}

/* Codes and scale are where the definition says: written without the oracle. */
static bool codes_are(const struct known *k, const struct known_row *row) {
    static const unsigned char i1[] = {0x97, 0x04, 0x22, 0xac};
    uint32_t bits = 0;
    memcpy(&bits, row->scale, k->scale == KVMILL_F32 ? 4 : 2);
    bool good = bits == k->scale_bits;
    for (int i = 0; i < k->group; i++) {
        int code = row->data[i / (k->element == KVMILL_I4 ? 2 : 1)];
        if (k->element == KVMILL_I4)
            code = code >> i % 2 * 4 & 15;
        good &= code == (k->code[i] & (k->element == KVMILL_I4 ? 15 : 255));
    }
    return good && (strcmp(k->name, "I1") != 0 || memcmp(row->data, i1, sizeof i1) == 0);
}

static bool reads_back(const struct known *k, const struct known_row *row) {
    for (int i = 0; i < k->group; i++)
        if (oracle_get(type_of(k->activation), row->activation, i) != k->back[i])
            return false;
    return true;
}

static void set_codes(const struct known *k, const struct known_row *row) {
    memcpy(row->scale, &k->scale_bits, k->scale == KVMILL_F32 ? 4 : 2);
    for (int i = 0; i < k->group; i++)
        oracle_put(type_of(k->element), row->data, i, k->code[i]);
}

static void test_known(const struct known *k, const struct kvmill_kernel *kernel) {
    int64_t dim = ((const struct kvmill_convert_shape *)kernel->shape)->format.dim;
    unsigned char *memory = calloc((size_t)dim, 3 * 4);
    struct known_row row = {memory, memory + 4 * dim, memory + 8 * dim};
    if (is_writer(kernel))
        for (int i = 0; i < k->group; i++)
            oracle_put(type_of(k->activation), row.activation, i, k->input[i]);
    else
        set_codes(k, &row);
    run_known(kernel, &row);
    ok(is_writer(kernel) ? codes_are(k, &row) : reads_back(k, &row), "%s of the reference: %s",
       k->name, kernel->symbol);
    free(memory);
}

static void test_all_known(const struct kvmill_kernel *kernel) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fits(&known[i], kernel->shape) && (is_writer(kernel) || is_read_back(&known[i])))
            test_known(&known[i], kernel);
}

/* ---- Scales of the 16-bit types ---- */

/* Elements around all halves of codes, for one largest magnitude in seven. */
struct sweep {
    const struct kvmill_convert_shape *shape;
    uint32_t peak; /* bits */
    int number;    /* of the next element for it */
};

enum { HALVES = 127, NEIGHBOURS = 3 };

static double next_element(struct sweep *sweep) {
    enum oracle_type type = type_of(sweep->shape->activation);
    int half = sweep->number / NEIGHBOURS, beside = sweep->number % NEIGHBOURS - 1;
    double scale = oracle_round(type, oracle_decode(type, sweep->peak) / 127);
    scale = fmax(scale, oracle_round(type, 1e-5));
    uint32_t bits = oracle_encode(type, (half + 0.5) * scale);
    sweep->number++;
    double x = oracle_decode(type, bits + (uint32_t)beside);
    return x < oracle_decode(type, sweep->peak) ? x : 0;
}

static bool has_more(const struct sweep *sweep) {
    return oracle_decode(type_of(sweep->shape->activation), sweep->peak) < INFINITY;
}

static void next_row(struct sweep *sweep, unsigned char *row) {
    enum oracle_type type = type_of(sweep->shape->activation);
    for (int64_t i = 0; i < sweep->shape->format.dim; i++) {
        bool first = i % sweep->shape->format.quant_group == 0;
        oracle_put(type, row, i,
                   !has_more(sweep) ? 0
                   : first          ? oracle_decode(type, sweep->peak)
                                    : next_element(sweep));
        if (sweep->number < HALVES * NEIGHBOURS)
            continue;
        sweep->number = 0;
        sweep->peak += is_slow_run() ? 997 : 7;
    }
}

static bool is_row_right(const struct kvmill_kernel *kernel, const struct known_row *have,
                         const struct known_row *want) {
    const struct kvmill_convert_shape *shape = kernel->shape;
    run_known(kernel, have);
    write_row(shape, have->activation, want->data, want->scale);
    return memcmp(have->data, want->data, (size_t)data_bytes(&shape->format)) == 0 &&
           memcmp(have->scale, want->scale, (size_t)scale_bytes(&shape->format)) == 0;
}

static bool sweeps(const struct kvmill_kernel *kernel) {
    struct sweep sweep = {.shape = kernel->shape};
    int64_t dim = sweep.shape->format.dim;
    unsigned char *memory = calloc((size_t)dim, 5 * 4);
    struct known_row have = {memory, memory + 4 * dim, memory + 8 * dim};
    struct known_row want = {memory, memory + 12 * dim, memory + 16 * dim};
    bool good = true;
    for (int64_t row = 0; good && has_more(&sweep); row++) {
        next_row(&sweep, memory);
        good = is_row_right(kernel, &have, &want);
    }
    free(memory);
    return good;
}

/* One kernel of each instruction set will do. */
static void test_sweep(const struct kvmill_kernel *kernel) {
    static char done[MOST_SWEEPS][32];
    static int count;
    const struct kvmill_convert_shape *shape = kernel->shape;
    char what[32];
    if (!is_writer(kernel) || shape->format.element != KVMILL_I8 || shape->format.quant_group < 8 ||
        (shape->activation != KVMILL_F16 && shape->activation != KVMILL_BF16))
        return;
    snprintf(what, sizeof what, "%d %.24s", shape->activation, kernel->isa);
    for (int i = 0; i < count; i++)
        if (strcmp(done[i], what) == 0)
            return;
    if (count < MOST_SWEEPS)
        strcpy(done[count++], what);
    ok(sweeps(kernel), "around all codes: %s", kernel->symbol);
}

/* ---- The walk ---- */

static void test_kernel(const struct kvmill_kernel *kernel) {
    struct dice dice = dice_for_kernel(seed, kernel);
    bool good = true;
    if (!isa_is_allowed(kernel->isa)) {
        skip_test("%s: this CPU or KVMILL_ISA rules out %s", kernel->symbol, kernel->isa);
        return;
    }
    for (int i = 0; good && i < (is_slow_run() ? 5 : 80); i++)
        good = run_case(kernel, &dice);
    ok(good, "%s", kernel->symbol);
    test_all_known(kernel);
    test_sweep(kernel);
}

int main(void) {
    seed = dice_seed();
    for (size_t p = 0; p < sizeof packs / sizeof *packs; p++)
        for (uint32_t k = 0; k < packs[p]->count; k++)
            if (packs[p]->kernels[k]->family == KVMILL_WRITE_ROWS ||
                packs[p]->kernels[k]->family == KVMILL_READ_ROWS)
                test_kernel(packs[p]->kernels[k]);
    ok(cases > 0, "%" PRId64 " problems were run", cases);
    return done_testing();
}
