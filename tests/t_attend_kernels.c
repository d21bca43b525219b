/* Tests every kernel of every linked pack that attends: with a case of its own against attention in
   double precision; again with next rows that are NaN, in the same memory and elsewhere; and with
   keys and values that are not finite, for rows that see them and rows that do not.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "packs.h"

enum {
    MOST_POSITIONS = 90,
    AFTER = 16,
    MOST_ROWS = 9,
    MOST_CONSTANT_ROWS = 128,
    MOST_DIM = 1024,
    ELSEWHERE = 64
};

/* ---- K or V: rows in memory of their own ---- */

struct rows {
    struct oracle_side side;
    int64_t stride, scale_stride;
    struct fence data, scale;                 /* contiguous, for the oracle */
    struct fence data_of_call, scale_of_call; /* with the kernel's strides */
};

static int64_t count_rows(const struct fence *rows, int64_t bytes) {
    return bytes > 0 ? (int64_t)rows->size / bytes : 0;
}

/* Copies rows to `apart`, where they have a larger stride. */
static void copy_apart(const struct fence *rows, int64_t bytes, int64_t stride,
                       struct fence *apart) {
    for (int64_t i = 0; i < count_rows(rows, bytes); i++)
        memcpy(apart->data + i * stride, rows->data + i * bytes, (size_t)bytes);
}

/* Makes such a copy; the gaps are NaN. */
static void spread(const struct fence *rows, int64_t bytes, int64_t stride, struct fence *apart,
                   struct dice *dice) {
    int64_t count = count_rows(rows, bytes);
    fence_open(apart, count > 0 ? (size_t)((count - 1) * stride + bytes) : 0, FENCE_FLUSH,
               FENCE_ABOVE, dice);
    memset(apart->data, 0xff, apart->size);
    copy_apart(rows, bytes, stride, apart);
}

/* Makes the first scale of some rows negative, with its sign in the last byte. */
static void turn_signs(struct rows *rows, int64_t scale_bytes, int64_t count, struct dice *dice) {
    for (int64_t i = 0; i < count && scale_bytes > 0; i++)
        if (dice_once_in(dice, 3))
            rows->scale.data[i * scale_bytes + oracle_bytes(rows->side.scale_type, 1) - 1] ^= 0x80;
}

static void open_rows(struct rows *rows, const struct kvmill_format *format, int activation,
                      int64_t count, struct dice *dice) {
    enum oracle_type scale = oracle_of_element(format->scale ? format->scale : KVMILL_F32);
    rows->side = (struct oracle_side){.type = oracle_of_element(format->element),
                                      .scale_type = scale,
                                      .dim = format->dim,
                                      .group = oracle_group(format),
                                      .tiles = oracle_tiles_of(format)};
    int64_t bytes = oracle_data_bytes(format), scale_bytes = oracle_scale_bytes(format);
    rows->stride += rows->stride == 0 ? bytes : 0;
    rows->scale_stride += rows->scale_stride == 0 ? scale_bytes : 0;
    int64_t tile = rows->side.tiles.rows > 0 ? rows->side.tiles.rows : 1;
    int64_t all = (count + AFTER + tile - 1) / tile * tile;
    fence_open(&rows->data, (size_t)(all * bytes), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&rows->scale, (size_t)((count + AFTER) * scale_bytes), FENCE_FLUSH, FENCE_ABOVE,
               dice);
    rows->side.data = rows->data.data;
    rows->side.scale = rows->scale.data;
    memset(rows->data.data, 0xff, rows->data.size);
    memset(rows->scale.data, 0xff, rows->scale.size);
    for (int64_t i = 0; i < count; i++) {
        double x[MOST_DIM];
        for (int64_t d = 0; d < format->dim; d++)
            x[d] = dice_between(dice, -2, 2);
        oracle_write_row(&rows->side, oracle_of_element(activation), i, x);
    }
    turn_signs(rows, scale_bytes, count, dice);
    spread(&rows->data, bytes, rows->stride, &rows->data_of_call, dice);
    spread(&rows->scale, scale_bytes, rows->scale_stride, &rows->scale_of_call, dice);
}

/* Writes a row with a number that is not finite. */
static void poison(struct rows *rows, const struct kvmill_format *format, int activation,
                   int64_t position, struct dice *dice) {
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    double x[MOST_DIM];
    for (int64_t d = 0; d < format->dim; d++)
        x[d] = dice_between(dice, -2, 2);
    x[dice_range(dice, 0, format->dim - 1)] = numbers[dice_range(dice, 0, 2)];
    oracle_write_row(&rows->side, oracle_of_element(activation), position, x);
    copy_apart(&rows->data, oracle_data_bytes(format), rows->stride, &rows->data_of_call);
    copy_apart(&rows->scale, oracle_scale_bytes(format), rows->scale_stride, &rows->scale_of_call);
}

/* ---- Attention ---- */

struct problem {
    const struct kvmill_attend_shape *shape;
    enum oracle_type activation;
    int64_t rows, count;
    double scale;
    struct rows key, value;
    struct fence query, output, workspace;
    struct fence mask;      /* [rows][count], or empty */
    struct fence elsewhere; /* memory without rows */
    struct kvmill_query_row row[MOST_CONSTANT_ROWS];
};

/* Scores of usual size are a few units; loud ones are 30 times as large. */
enum loudness { USUAL, LOUD };

static void open_problem(struct problem *p, const struct kvmill_kernel *kernel,
                         enum loudness loudness, struct dice *dice) {
    const struct kvmill_attend_shape *shape = kernel->shape;
    *p = (struct problem){.shape = shape, .activation = oracle_of_element(shape->activation)};
    p->rows = dice_range(dice, 1, shape->rows < MOST_ROWS ? shape->rows : MOST_ROWS);
    p->rows = constant_of(kernel, "rows", p->rows);
    p->key.stride = constant_of(kernel, "key_stride", 0);
    p->key.scale_stride = constant_of(kernel, "key_scale_stride", 0);
    p->value.stride = constant_of(kernel, "value_stride", 0);
    p->value.scale_stride = constant_of(kernel, "value_scale_stride", 0);
    p->count = dice_range(dice, 1, MOST_POSITIONS);
    p->scale = dice_between(dice, 0.02, 0.3);
    if (loudness == LOUD)
        p->scale = 30 / sqrt((double)shape->key.dim);
    int64_t query = oracle_bytes(p->activation, shape->key.dim);
    int64_t output = oracle_bytes(p->activation, shape->value.dim);
    open_rows(&p->key, &shape->key, shape->activation, p->count, dice);
    open_rows(&p->value, &shape->value, shape->activation, p->count, dice);
    fence_open(&p->query, (size_t)(p->rows * query), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&p->output, (size_t)(p->rows * output), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&p->workspace, (size_t)shape->workspace, 0, FENCE_ABOVE, dice);
    fence_open(&p->elsewhere, ELSEWHERE, FENCE_FLUSH, FENCE_ABOVE, dice);
    memset(p->elsewhere.data, 0xff, p->elsewhere.size);
    for (int64_t i = 0; i < p->rows * shape->key.dim; i++)
        oracle_put(p->activation, p->query.data, i, dice_between(dice, -2, 2));
    for (int64_t r = 0; r < p->rows; r++)
        p->row[r] = (struct kvmill_query_row){.query = p->query.data + r * query,
                                              .output = p->output.data + r * output,
                                              .first = 0,
                                              .last = dice_range(dice, 1, p->count),
                                              .sink = -INFINITY};
}

static void close_problem(struct problem *p) {
    struct fence *const fences[] = {
        &p->key.data,   &p->key.scale,   &p->key.data_of_call,   &p->key.scale_of_call,
        &p->value.data, &p->value.scale, &p->value.data_of_call, &p->value.scale_of_call,
        &p->query,      &p->output,      &p->workspace,          &p->mask,
        &p->elsewhere};
    for (size_t i = 0; i < COUNT(fences); i++)
        fence_close(fences[i]);
}

/* What the next call reads: `rows` rows, at the same addresses or `elsewhere`, which kernels may
   prefetch but not load; without keys, it has the same addresses, too. */
struct next {
    int64_t rows;
    bool elsewhere, no_key;
};

static void set_next(struct kvmill_attend *problem, const struct problem *p, struct next next) {
    if (!next.elsewhere)
        return;
    problem->after_key = next.no_key ? NULL : p->elsewhere.data;
    problem->after_value = problem->after_key_scale = problem->after_value_scale =
        p->elsewhere.data + p->elsewhere.size - 1;
}

static void run(const struct kvmill_kernel *kernel, const struct problem *p, struct next next) {
    const struct kvmill_extent extents[] = {{0, p->count}, {p->count, next.rows}, {0, 0}};
    struct kvmill_attend problem = {
        .shape = p->shape,
        .row = p->row,
        .rows = p->rows,
        .key = p->key.data_of_call.data,
        .value = p->value.data_of_call.data,
        .key_scale = p->key.scale_of_call.data,
        .value_scale = p->value.scale_of_call.data,
        .key_stride = p->key.stride,
        .value_stride = p->value.stride,
        .key_scale_stride = p->key.scale_stride,
        .value_scale_stride = p->value.scale_stride,
        .extent = extents,
        .count = p->count,
        .scale = (float)p->scale,
        .begin = 1,
        .end = 1,
        .workspace = p->workspace.data,
        .into_l2 = p->rows % 2 == 0,
    };
    set_next(&problem, p, next);
    kernel->run(&problem, 0, 1);
}

static double score_of(const struct problem *p, int64_t r, int64_t position) {
    double key[MOST_DIM], sum = 0;
    int64_t dim = p->shape->key.dim;
    oracle_read_row_exact(&p->key.side, position, key);
    for (int64_t d = 0; d < dim; d++)
        sum += key[d] * oracle_get(p->activation, p->query.data, r * dim + d);
    return sum * (float)p->scale;
}

/* Computes a row of the output, and how far values are from it, weighted: an error e of all scores
   moves the output by at most e times this. */
static void expect_row(const struct problem *p, int64_t r, double *want, double *apart) {
    double weight[MOST_POSITIONS], value[MOST_DIM], largest = -INFINITY, total = 0;
    int64_t last = p->row[r].last, dim = p->shape->value.dim;
    for (int64_t t = 0; t < last; t++)
        largest = fmax(largest, weight[t] = score_of(p, r, t));
    for (int64_t t = 0; t < last; t++)
        total += weight[t] = exp(weight[t] - largest);
    memset(want, 0, (size_t)dim * sizeof *want);
    for (int64_t t = 0; t < last; t++) {
        oracle_read_row_exact(&p->value.side, t, value);
        for (int64_t d = 0; d < dim; d++)
            want[d] += weight[t] / total * value[d];
    }
    memset(apart, 0, (size_t)dim * sizeof *apart);
    for (int64_t t = 0; t < last; t++) {
        oracle_read_row_exact(&p->value.side, t, value);
        for (int64_t d = 0; d < dim; d++)
            apart[d] += weight[t] / total * fabs(value[d] - want[d]);
    }
}

/* The largest error of each kind of arithmetic, as a share of the largest output. */
static const double bound_of_math[] = {
    [KVMILL_MATH_F32] = 2e-5, [KVMILL_MATH_NEAR] = 5e-4, [KVMILL_MATH_FAST] = 3e-3};

/* The length of a vector. */
static double length_of(const double *x, int64_t dim) {
    double sum = 0;
    for (int64_t d = 0; d < dim; d++)
        sum += x[d] * x[d];
    return sqrt(sum);
}

/* Returns the error of scores: each element of a query is rounded to half a step.  These errors are
   independent, so that their sum is below 4 times the square root of the sum of squares.  `near`
   and `fast` have 15 bits and a sign; float32 has 24 bits, and rounds products and sums, too. */
static double error_of_scores(const struct problem *p, int64_t r) {
    double key[MOST_DIM], largest = 0, longest = 0;
    int64_t dim = p->shape->key.dim;
    for (int64_t d = 0; d < dim; d++)
        largest = fmax(largest, fabs(oracle_get(p->activation, p->query.data, r * dim + d)));
    for (int64_t t = 0; t < p->row[r].last; t++) {
        oracle_read_row_exact(&p->key.side, t, key);
        longest = fmax(longest, length_of(key, dim));
    }
    double step = largest * (p->shape->math == KVMILL_MATH_F32 ? 0x1p-22 : 1 / (127 * 256.0));
    return p->scale * 4 * step / 2 * longest;
}

static DLDataType dtype_of(int element) {
    return element == KVMILL_F32 ? f32 : element == KVMILL_F16 ? f16 : bf16;
}

static bool row_is_right(const struct problem *p, int64_t r, enum loudness loudness) {
    double want[MOST_DIM], apart[MOST_DIM], largest = 0;
    double of_scores = loudness == LOUD ? error_of_scores(p, r) : 0;
    int64_t dim = p->shape->value.dim;
    expect_row(p, r, want, apart);
    for (int64_t d = 0; d < dim; d++)
        largest = fmax(largest, fabs(want[d]));
    for (int64_t d = 0; d < dim; d++)
        if (!number_is_close(dtype_of(p->shape->activation),
                             oracle_get(p->activation, p->output.data, r * dim + d), want[d],
                             bound_of_math[p->shape->math] * largest + of_scores * apart[d]))
            return false;
    return true;
}

/* ---- Every kernel ---- */

static const struct next nexts[] = {
    {AFTER, false, false}, {0, true, false}, {AFTER, true, false}, {AFTER, true, true}};

/* Whether the bits are the same for any next call. */
static bool repeats(const struct kvmill_kernel *kernel, const struct problem *p, struct next next) {
    FREED unsigned char *before = malloc(p->output.size);
    memcpy(before, p->output.data, p->output.size);
    memset(p->output.data, 0xff, p->output.size);
    run(kernel, p, next);
    return memcmp(before, p->output.data, p->output.size) == 0 &&
           fence_is_intact(&p->output, NULL) && fence_is_intact(&p->workspace, NULL);
}

static bool is_right(const struct kvmill_kernel *kernel, enum loudness loudness,
                     struct dice *dice) {
    OWN(close_problem) struct problem p;
    open_problem(&p, kernel, loudness, dice);
    fence_explain_traps(kernel->symbol);
    run(kernel, &p, (struct next){0});
    bool right = true;
    for (int64_t r = 0; r < p.rows; r++)
        right = right && row_is_right(&p, r, loudness);
    for (size_t i = 0; loudness == USUAL && i < COUNT(nexts); i++)
        right = right && repeats(kernel, &p, nexts[i]);
    return right;
}

/* ---- What a row does not see ---- */

static bool has_mask(const struct problem *p) {
    return (p->shape->terms & KVMILL_TERM_BIAS) != 0;
}

/* Rows see parts of the positions, or all; a mask hides more of them, for some rows all. */
static void hide_some(struct problem *p, struct dice *dice) {
    int64_t row_bytes = oracle_bytes(p->activation, p->count);
    fence_open(&p->mask, has_mask(p) ? (size_t)(p->rows * row_bytes) : 0, FENCE_FLUSH, FENCE_ABOVE,
               dice);
    bool whole = has_mask(p) && dice_once_in(dice, 2);
    for (int64_t r = 0; r < p->rows; r++) {
        p->row[r].last = whole ? p->count : p->row[r].last;
        p->row[r].first = !whole && dice_once_in(dice, 2) ? dice_range(dice, 0, p->row[r].last) : 0;
        if (!has_mask(p))
            continue;
        int64_t one_in = dice_range(dice, 1, 4);
        p->row[r].mask = p->mask.data + r * row_bytes;
        for (int64_t t = 0; t < p->count; t++)
            oracle_put(p->activation, p->mask.data, r * p->count + t,
                       dice_once_in(dice, one_in) ? -INFINITY : dice_between(dice, -1, 1));
    }
}

static bool sees(const struct problem *p, int64_t r, int64_t t) {
    return p->row[r].first <= t && t < p->row[r].last &&
           !(has_mask(p) && oracle_get(p->activation, p->mask.data, r * p->count + t) == -INFINITY);
}

/* Whether row r sees one of the `count` positions at which keys or values are not finite. */
static bool sees_poison(const struct problem *p, int64_t r, const int64_t *at, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (sees(p, r, at[i]))
            return true;
    return false;
}

/* Whether a row that sees them has the infinities and NaN of values in its output. */
static bool has_poison(const struct problem *p, int64_t r, const int64_t *at, int64_t count) {
    int64_t dim = p->shape->value.dim;
    double value[MOST_DIM];
    for (int64_t i = 0; i < count; i++) {
        oracle_read_row_exact(&p->value.side, at[i], value);
        for (int64_t d = 0; d < dim && sees(p, r, at[i]); d++)
            if (!isfinite(value[d]) &&
                isfinite(oracle_get(p->activation, p->output.data, r * dim + d)))
                return false;
    }
    return true;
}

/* Whether rows that see nothing of what is not finite have the bits that they have without it, and
   other rows have what they see. */
static bool hides(const struct kvmill_kernel *kernel, bool keys, struct dice *dice) {
    enum { MOST_POISONED = 3 };
    OWN(close_problem) struct problem p;
    open_problem(&p, kernel, USUAL, dice);
    hide_some(&p, dice);
    fence_explain_traps(kernel->symbol);
    run(kernel, &p, (struct next){0});
    int64_t count = dice_range(dice, 1, MOST_POISONED), at[MOST_POISONED];
    FREED unsigned char *before = malloc(p.output.size);
    memcpy(before, p.output.data, p.output.size);
    for (int64_t i = 0; i < count; i++) {
        at[i] = dice_range(dice, 0, p.count - 1);
        poison(&p.value, &p.shape->value, p.shape->activation, at[i], dice);
        if (keys)
            poison(&p.key, &p.shape->key, p.shape->activation, at[i], dice);
    }
    run(kernel, &p, (struct next){0});
    int64_t bytes = (int64_t)p.output.size / p.rows;
    for (int64_t r = 0; r < p.rows; r++)
        if (sees_poison(&p, r, at, count)
                ? !has_poison(&p, r, at, count)
                : memcmp(before + r * bytes, p.output.data + r * bytes, (size_t)bytes) != 0)
            return false;
    return true;
}

static bool always_hides(const struct kvmill_kernel *kernel, struct dice *dice) {
    enum { TIMES = 6 };
    bool right = true;
    for (int i = 0; i < TIMES; i++)
        right = right && hides(kernel, i % 2 != 0, dice);
    return right;
}

TEST(kernels) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++) {
        if (kernel->family != KVMILL_ATTEND || !isa_is_allowed(kernel->isa))
            continue;
        struct dice dice = dice_for_kernel(kernel);
        ok(is_right(kernel, USUAL, &dice), "%s on a case of its own", kernel->symbol);
        ok(is_right(kernel, LOUD, &dice), "  with scores 30 times as large");
        ok(always_hides(kernel, &dice), "  what a row does not see has no influence on it");
        kernel_ran(kernel);
    }
}
