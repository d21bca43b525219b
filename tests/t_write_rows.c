/* WriteRows: random problems, compared with the oracle byte for byte, also between and after rows.
   Some slots are -1, or occur twice; on any number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "packs.h"

enum { CASES = 500, MOST_HEADS = 3, MOST_TOKENS = 40, LONG = 600, MOST_DIM = 128, TWICE = 60 };

DICE("write_rows");

struct problem {
    kvmill_write_rows op;
    struct format format;
    int64_t heads, rows, capacity, last, groups;
    struct fenced_tensor tensor[KVMILL_WRITE_ROWS_TENSORS];
};

/* ---- Problems ---- */

static void open_strided(struct fenced_tensor *tensor, DLDataType type, const int64_t *shape) {
    int64_t strides[3];
    spread_strides(3, shape, false, strides, &dice);
    tensor_open(tensor, type, 3, shape, strides, &dice);
}

/* Numbers of every third problem are too large for scales of float16. */
static void fill_rows(const struct problem *p) {
    const struct fenced_tensor *rows = &p->tensor[KVMILL_WRITE_ROWS_ROWS];
    bool is_wide = attention_type(p->op.T1) != ORACLE_F16;
    int far = dice_once_in(&dice, 3) && is_wide ? 22 : 0;
    for (int64_t i = 0; i < tensor_count(&rows->dl); i++)
        number_put(rows->dl.dtype, tensor_element(rows, i),
                   ldexp(dice_between(&dice, -2, 2), far + (int)(i / p->op.head_dim % 9) - 4));
}

/* Fills slots in ascending order if `apart`; otherwise at random, so that some occur twice or are
   -1. */
static void fill_slots(const struct problem *p, bool apart) {
    const struct fenced_tensor *slots = &p->tensor[KVMILL_WRITE_ROWS_SLOTS];
    for (int64_t n = 0; n < p->rows; n++)
        number_put(slots->dl.dtype, tensor_element(slots, n),
                   (double)(apart ? n : dice_range(&dice, -1, p->capacity - 1)));
}

static void open_tensors(struct problem *p, bool apart) {
    const int64_t rows[] = {p->rows, p->heads, p->op.head_dim}, slots[] = {p->rows};
    const int64_t cache[] = {p->capacity, p->heads, p->last};
    const int64_t scale[] = {p->capacity, p->heads, p->groups}, step[] = {dice_range(&dice, 1, 2)};
    open_strided(&p->tensor[KVMILL_WRITE_ROWS_ROWS], p->op.T1, rows);
    tensor_open(&p->tensor[KVMILL_WRITE_ROWS_SLOTS], dice_once_in(&dice, 2) ? i32 : i64, 1, slots,
                step, &dice);
    open_strided(&p->tensor[KVMILL_WRITE_ROWS_CACHE], p->format.tensor, cache);
    if (p->groups > 0)
        open_strided(&p->tensor[KVMILL_WRITE_ROWS_SCALE], p->op.T3, scale);
    fill_rows(p);
    fill_slots(p, apart);
}

static void open_problem(struct problem *p, int64_t rows) {
    static const char settings[] =
        "T1={float32|float16|bfloat16} head_dim={32|64|96|128} {" FORMATS_OF_BYTES "}";
    static const char *const overflows[] = {NULL, "infinite", "saturate"};
    memset(p, 0, sizeof *p);
    setting_fill(kvmill_op_by_name("WriteRows")->parts[0], &p->op, settings, &dice);
    if (p->op.quant_bit != 0)
        p->op.scale_overflow = overflows[dice_range(&dice, 0, 2)];
    p->format = format_of(p->op.cache_format, p->op.T2, p->op.T3, p->op.quant_group);
    p->heads = dice_range(&dice, 1, MOST_HEADS);
    p->rows = rows;
    p->capacity = rows + dice_range(&dice, 1, 9);
    p->groups = p->format.group > 0 ? p->op.head_dim / p->format.group : 0;
    p->last = format_elements(&p->format, p->op.head_dim);
    open_tensors(p, dice_once_in(&dice, 2));
}

static void close_problem(struct problem *p) {
    tensors_close(p->tensor, KVMILL_WRITE_ROWS_TENSORS);
}

/* ---- Checks ---- */

static int64_t slot_of(const struct problem *p, int64_t n) {
    const struct fenced_tensor *slots = &p->tensor[KVMILL_WRITE_ROWS_SLOTS];
    return (int64_t)number_get(slots->dl.dtype, tensor_element(slots, n));
}

static bool is_replaced(const struct problem *p, int64_t n) {
    for (int64_t later = n + 1; later < p->rows; later++)
        if (slot_of(p, later) == slot_of(p, n))
            return true;
    return false;
}

/* Whether the word names PMX's rule for scales, which is not WriteRows' default. */
static bool is_infinite(const char *scale_overflow) {
    return scale_overflow != NULL && strcmp(scale_overflow, "infinite") == 0;
}

/* If rows share a slot, the last of them is expected. */
static void expect(const struct problem *p, struct fenced_tensor *expected) {
    const struct fenced_tensor *cache = &expected[KVMILL_WRITE_ROWS_CACHE],
                               *scale = &expected[KVMILL_WRITE_ROWS_SCALE];
    const struct fenced_tensor *rows = &p->tensor[KVMILL_WRITE_ROWS_ROWS];
    for (int64_t n = 0; n < p->rows; n++) {
        int64_t slot = is_replaced(p, n) ? -1 : slot_of(p, n);
        for (int64_t h = 0; slot >= 0 && h < p->heads; h++) {
            int64_t head = slot * p->heads + h, first = (n * p->heads + h) * p->op.head_dim;
            double numbers[MOST_DIM];
            struct oracle_side row =
                format_row(&p->format, p->op.head_dim, tensor_element(cache, head * p->last),
                           p->groups ? tensor_element(scale, head * p->groups) : NULL);
            row.saturates = !is_infinite(p->op.scale_overflow);
            for (int64_t d = 0; d < p->op.head_dim; d++)
                numbers[d] = number_get(p->op.T1, tensor_element(rows, first + d));
            oracle_write_row(&row, attention_type(p->op.T1), 0, numbers);
        }
    }
}

/* ---- Runs ---- */

static bool try_problem(struct problem *p, const kvmill_plan_options *options, int threads,
                        int64_t *parts) {
    const DLTensor *tensors[KVMILL_WRITE_ROWS_TENSORS];
    struct fenced_tensor expected[KVMILL_WRITE_ROWS_TENSORS] = {{.fence = {0}}};
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    for (int i = 0; i < KVMILL_WRITE_ROWS_TENSORS; i++)
        tensors[i] = tensor_is_open(&p->tensor[i]) ? &p->tensor[i].dl : NULL;
    tensors_keep(expected, p->tensor, KVMILL_WRITE_ROWS_TENSORS, &dice);
    expect(p, expected);
    kvmill_status status = kvmill_plan_write_rows(&p->op, options, &plan, &error);
    if (status == KVMILL_OK)
        status = run_counting_parts(plan, tensors, NULL, threads, &dice, parts, &error);
    if (status != KVMILL_OK)
        diag("%s", error.message);
    bool right = tensors_are_kept(p->tensor, expected, KVMILL_WRITE_ROWS_TENSORS, 0,
                                  "rows that are written") &&
                 status == KVMILL_OK;
    tensors_close(expected, KVMILL_WRITE_ROWS_TENSORS);
    return right ||
           diag("%s of %" PRId64 " x %" PRId64 ", %" PRId64 " rows: %s",
                p->op.cache_format ? p->op.cache_format : "elements", p->heads, p->op.head_dim,
                p->rows, status == KVMILL_OK ? "another cache" : error.message);
}

TEST(problems) {
    int cases = few_cases(CASES), wrong = 0;
    int64_t parts = 0;
    for (int i = 0; i < cases; i++) {
        OWN(close_problem) struct problem p;
        open_problem(&p, dice_range(&dice, 0, dice_once_in(&dice, 20) ? LONG : MOST_TOKENS));
        wrong += !try_problem(&p, &two_threads[i % 2], 1 + i / 2 % 3, &parts);
    }
    ok(wrong == 0, "%d problems are right", cases);
    ok(parts > 1, "  some of them in parts");
}

/* Spoils one element of each row that is replaced: kernels treat rows that are not finite
   separately. */
static void spoil_replaced_rows(const struct problem *p) {
    const struct fenced_tensor *rows = &p->tensor[KVMILL_WRITE_ROWS_ROWS];
    for (int64_t n = 0; n < p->rows; n++) {
        int64_t d = dice_range(&dice, 0, p->heads * p->op.head_dim - 1);
        if (is_replaced(p, n))
            number_put(rows->dl.dtype, tensor_element(rows, n * p->heads * p->op.head_dim + d),
                       dice_once_in(&dice, 2) ? NAN : -INFINITY);
    }
}

/* Many rows share 7 slots: each slot keeps the last of its rows. */
TEST(twice) {
    int wrong = 0;
    int64_t parts = 0;
    for (int i = 0; i < TWICE; i++) {
        OWN(close_problem) struct problem p;
        open_problem(&p, LONG);
        const struct fenced_tensor *slots = &p.tensor[KVMILL_WRITE_ROWS_SLOTS];
        for (int64_t n = 0; n < p.rows; n++)
            number_put(slots->dl.dtype, tensor_element(slots, n), (double)(n % 7));
        spoil_replaced_rows(&p);
        wrong += !try_problem(&p, &two_threads[i % 2], 4, &parts);
    }
    ok(wrong == 0 && parts == 1, "of rows with one slot the last stays, on any number of threads");
}

/* ---- Scales that float16 cannot hold ---- */

/* Opens one row of one head and one group of 8 bits, with a scale in float16. */
static void open_group(struct problem *p, const char *overflow) {
    memset(p, 0, sizeof *p);
    kvmill_write_rows_init(&p->op, sizeof p->op);
    p->op.T1 = f32;
    p->op.T2 = i8;
    p->op.T3 = f16;
    p->op.quant_bit = 8;
    p->op.head_dim = p->op.quant_group = p->last = 32;
    p->op.scale_overflow = overflow;
    p->format = format_of(NULL, p->op.T2, p->op.T3, p->op.quant_group);
    p->heads = p->rows = p->capacity = p->groups = 1;
    open_tensors(p, true);
}

/* The word, or "-"; the first elements of a row, whose others are 0; their codes; the scale. */
EACH_ROW(write_rows_overflow, 4) {
    double numbers[8], codes[8], scale;
    int64_t parts = 0, count = numbers_in(cells[1], 10, numbers, 8);
    OWN(close_problem) struct problem p;
    open_group(&p, cells[0][0] == '\0' ? NULL : cells[0]);
    for (int64_t i = 0; i < p.op.head_dim; i++)
        number_put(f32, tensor_element(&p.tensor[KVMILL_WRITE_ROWS_ROWS], i),
                   i < count ? numbers[i] : 0);
    bool good = try_problem(&p, &two_threads[0], 1, &parts);
    for (int64_t i = 0; i < numbers_in(cells[2], 10, codes, 8); i++)
        good = good &&
               number_get(i8, tensor_element(&p.tensor[KVMILL_WRITE_ROWS_CACHE], i)) == codes[i];
    scale = number_get(f16, tensor_element(&p.tensor[KVMILL_WRITE_ROWS_SCALE], 0));
    ok(good && scale == strtod(cells[3], NULL), "scale_overflow %s: %s", cells[0], cells[1]);
}
