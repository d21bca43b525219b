/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_problem.h"

#include "common.h"

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

static void write_row(struct rows *rows, const struct kvmill_format *format, int activation,
                      int64_t position, const double *numbers) {
    oracle_write_row(&rows->side, oracle_of_element(activation), position, numbers);
    copy_apart(&rows->data, oracle_data_bytes(format), rows->stride, &rows->data_of_call);
    copy_apart(&rows->scale, oracle_scale_bytes(format), rows->scale_stride, &rows->scale_of_call);
}

void kernel_problem_write(const struct kernel_problem *p, struct rows *rows, int64_t position,
                          const double *numbers) {
    const struct kvmill_format *format = rows == &p->key ? &p->shape->key : &p->shape->value;
    write_row(rows, format, p->shape->activation, position, numbers);
}

void kernel_problem_poison(struct rows *rows, const struct kvmill_format *format, int activation,
                           int64_t position, struct dice *dice) {
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    double x[MOST_DIM];
    for (int64_t d = 0; d < format->dim; d++)
        x[d] = dice_between(dice, -2, 2);
    x[dice_range(dice, 0, format->dim - 1)] = numbers[dice_range(dice, 0, 2)];
    write_row(rows, format, activation, position, x);
}

void kernel_problem_open(struct kernel_problem *p, const struct kvmill_kernel *kernel,
                         enum loudness loudness, struct dice *dice) {
    const struct kvmill_attend_shape *shape = kernel->shape;
    *p =
        (struct kernel_problem){.shape = shape, .activation = oracle_of_element(shape->activation)};
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

void kernel_problem_close(struct kernel_problem *p) {
    struct fence *const fences[] = {
        &p->key.data,   &p->key.scale,   &p->key.data_of_call,   &p->key.scale_of_call,
        &p->value.data, &p->value.scale, &p->value.data_of_call, &p->value.scale_of_call,
        &p->query,      &p->output,      &p->workspace,          &p->mask,
        &p->elsewhere};
    for (size_t i = 0; i < COUNT(fences); i++)
        fence_close(fences[i]);
}

static void set_next(struct kvmill_attend *problem, const struct kernel_problem *p,
                     struct next next) {
    if (!next.elsewhere)
        return;
    problem->after_key = next.no_key ? NULL : p->elsewhere.data;
    problem->after_value = problem->after_key_scale = problem->after_value_scale =
        p->elsewhere.data + p->elsewhere.size - 1;
}

void kernel_problem_run(const struct kvmill_kernel *kernel, const struct kernel_problem *p,
                        struct next next) {
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

/* ---- Errors ---- */

/* What a row of the output should be, and the bound of its errors. */
struct judge {
    const struct kernel_problem *p;
    int64_t r;
    double *query, *want, *error, *numbers; /* numbers: keys and values */
    struct oracle_key *keys;
};

static void close_judge(struct judge *judge) {
    free(judge->query);
    free(judge->keys);
}

static void open_judge(struct judge *judge, const struct kernel_problem *p, int64_t r) {
    int64_t count = p->row[r].last, dim = p->shape->key.dim, value_dim = p->shape->value.dim;
    *judge = (struct judge){.p = p, .r = r};
    judge->query = take((count + 1) * dim + (count + 2) * value_dim, sizeof *judge->query);
    judge->want = judge->query + dim;
    judge->error = judge->want + value_dim;
    judge->numbers = judge->error + value_dim;
    judge->keys = take(count, sizeof *judge->keys);
    for (int64_t d = 0; d < dim; d++)
        judge->query[d] = oracle_get(p->activation, p->query.data, r * dim + d);
    for (int64_t t = 0; t < count; t++) {
        double *key = judge->numbers + t * (dim + value_dim);
        oracle_read_row_exact(&p->key.side, t, key);
        oracle_read_row_exact(&p->value.side, t, key + dim);
        judge->keys[t] = (struct oracle_key){.k = key, .v = key + dim};
    }
}

static void ask_oracle(const struct judge *judge, bool worst) {
    const struct kvmill_attend_shape *shape = judge->p->shape;
    struct oracle_query query = {
        .dim = shape->key.dim,
        .value_dim = shape->value.dim,
        .count = judge->p->row[judge->r].last,
        .numbers = judge->query,
        .keys = judge->keys,
        .scale = (float)judge->p->scale,
        .sink = -INFINITY,
        .unit = 0x1p-24,
        .rounding = oracle_rounding_of(shape->math, oracle_group_of(&judge->p->key.side) > 0,
                                       oracle_group_of(&judge->p->value.side) > 0),
        .group = oracle_group_of(&judge->p->value.side),
        .least = oracle_is_integer(judge->p->value.side.type) ? 127e-5 : 0,
    };
    struct oracle_answer answer = {judge->want, judge->error, 0, 0};
    query.rounding.worst = worst;
    oracle_query_attend(&query, &answer);
}

static DLDataType dtype_of(int element) {
    return element == KVMILL_F32 ? f32 : element == KVMILL_F16 ? f16 : bf16;
}

struct errors kernel_problem_errors(const struct kernel_problem *p, int64_t r, bool worst) {
    OWN(close_judge) struct judge judge;
    struct errors errors = {0, 0};
    double largest = 0;
    open_judge(&judge, p, r);
    ask_oracle(&judge, worst);
    for (int64_t d = 0; d < p->shape->value.dim; d++) {
        double have = oracle_get(p->activation, p->output.data, r * p->shape->value.dim + d);
        double want = judge.want[d], bound = judge.error[d];
        double rounding = number_rounding(dtype_of(p->shape->activation), fabs(want) + bound);
        double error = isfinite(have) ? fmax(fabs(have - want) - rounding, 0) : INFINITY;
        errors.of_bound = fmax(errors.of_bound, error / bound);
        errors.of_largest = fmax(errors.of_largest, error);
        largest = fmax(largest, fabs(want));
    }
    errors.of_largest /= largest;
    return errors;
}
