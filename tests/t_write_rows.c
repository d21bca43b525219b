/* WriteRows: random problems against the oracle, byte for byte, and what is between rows and after
   them; slots of -1 and slots that come twice, on any number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "crew.h"
#include "elements.h"
#include "oracle/convert.h"
#include "packs.h"

enum { CASES = 400, MOST_HEADS = 3, MOST_TOKENS = 40, LONG = 600 };

DICE("write_rows");

struct format {
    const char *word; /* of blocks; or NULL */
    int element, scale;
    int64_t group;
    DLDataType type, scale_type;
};

#define BLOCKS(WORD, ELEMENT)                                                                      \
    {                                                                                              \
        WORD, ELEMENT, 0, 0, {kDLUInt, 8, 1}, {                                                    \
            0                                                                                      \
        }                                                                                          \
    }
static const struct format formats[] = {
    {NULL, KVMILL_F32, 0, 0, {kDLFloat, 32, 1}, {0}},
    {NULL, KVMILL_F16, 0, 0, {kDLFloat, 16, 1}, {0}},
    {NULL, KVMILL_BF16, 0, 0, {kDLBfloat, 16, 1}, {0}},
    {NULL, KVMILL_I8, KVMILL_F16, 16, {kDLInt, 8, 1}, {kDLFloat, 16, 1}},
    BLOCKS("q8_0", KVMILL_Q8_0),
    BLOCKS("q4_0", KVMILL_Q4_0),
    BLOCKS("q4_1", KVMILL_Q4_1),
    BLOCKS("q5_0", KVMILL_Q5_0),
    BLOCKS("q5_1", KVMILL_Q5_1),
    BLOCKS("iq4_nl", KVMILL_IQ4_NL),
    BLOCKS("q6_0", KVMILL_Q6_0),
    BLOCKS("q8_kv", KVMILL_Q8_KV),
};

struct problem {
    const struct format *format;
    kvmill_write_rows op;
    struct kvmill_convert_shape shape;
    int64_t heads, rows, capacity, last, groups;
    struct fenced_tensor tensor[KVMILL_WRITE_ROWS_TENSORS];
};

/* ---- Problems ---- */

static void open_strided(struct fenced_tensor *tensor, DLDataType type, const int64_t *shape) {
    int64_t strides[3];
    spread_strides(3, shape, false, strides, &dice);
    tensor_open(tensor, type, 3, shape, strides, &dice);
}

static void fill_rows(const struct problem *p) {
    const struct fenced_tensor *rows = &p->tensor[KVMILL_WRITE_ROWS_ROWS];
    for (int64_t i = 0; i < tensor_count(&rows->dl); i++)
        number_put(rows->dl.dtype, tensor_element(rows, i),
                   ldexp(dice_between(&dice, -2, 2), (int)(i / p->op.head_dim % 9) - 4));
}

/* Ascending, where they are `apart`; else any, so that some come twice, or are none. */
static void fill_slots(const struct problem *p, bool apart) {
    const struct fenced_tensor *slots = &p->tensor[KVMILL_WRITE_ROWS_SLOTS];
    for (int64_t n = 0; n < p->rows; n++)
        number_put(slots->dl.dtype, tensor_element(slots, n),
                   (double)(apart ? n : dice_range(&dice, -1, p->capacity - 1)));
}

static void open_tensors(struct problem *p, DLDataType T1, bool apart) {
    const int64_t rows[] = {p->rows, p->heads, p->op.head_dim}, slots[] = {p->rows};
    const int64_t cache[] = {p->capacity, p->heads, p->last};
    const int64_t scale[] = {p->capacity, p->heads, p->groups}, step[] = {dice_range(&dice, 1, 2)};
    open_strided(&p->tensor[KVMILL_WRITE_ROWS_ROWS], T1, rows);
    tensor_open(&p->tensor[KVMILL_WRITE_ROWS_SLOTS], dice_once_in(&dice, 2) ? i32 : i64, 1, slots,
                step, &dice);
    open_strided(&p->tensor[KVMILL_WRITE_ROWS_CACHE], p->format->type, cache);
    if (p->groups > 0)
        open_strided(&p->tensor[KVMILL_WRITE_ROWS_SCALE], p->format->scale_type, scale);
    fill_rows(p);
    fill_slots(p, apart);
}

static void open_problem(struct problem *p, int64_t rows) {
    static const int64_t dims[] = {32, 64, 96, 128};
    const DLDataType types[] = {f32, f16, bf16};
    int type = (int)dice_range(&dice, 0, 2);
    memset(p, 0, sizeof *p);
    p->format = &formats[dice_range(&dice, 0, COUNT(formats) - 1)];
    kvmill_write_rows_init(&p->op, sizeof p->op);
    p->op.head_dim = dims[dice_range(&dice, 0, 3)];
    p->op.T1 = types[type];
    p->op.T2 = p->format->type;
    p->op.cache_format = p->format->word;
    p->op.quant_bit = p->format->group > 0 ? 8 : 0;
    p->op.quant_group = p->format->group;
    p->op.T3 = p->format->scale_type;
    p->shape = (struct kvmill_convert_shape){
        (int[]){KVMILL_F32, KVMILL_F16, KVMILL_BF16}[type],
        {p->format->element, (int32_t)p->op.head_dim, p->format->scale, (int32_t)p->format->group}};
    p->heads = dice_range(&dice, 1, MOST_HEADS);
    p->rows = rows;
    p->capacity = rows + dice_range(&dice, 1, 9);
    p->groups = p->format->group > 0 ? p->op.head_dim / p->format->group : 0;
    p->last = p->format->word ? oracle_data_bytes(&p->shape.format) : p->op.head_dim;
    open_tensors(p, types[type], dice_once_in(&dice, 2));
}

static void close_problem(struct problem *p) {
    tensors_close(p->tensor, KVMILL_WRITE_ROWS_TENSORS);
}

/* ---- What is right ---- */

/* One row after the other, the later ones over the earlier. */
static void expect(const struct problem *p, struct fenced_tensor *expected) {
    const struct fenced_tensor *cache = &expected[KVMILL_WRITE_ROWS_CACHE],
                               *scale = &expected[KVMILL_WRITE_ROWS_SCALE];
    const struct fenced_tensor *rows = &p->tensor[KVMILL_WRITE_ROWS_ROWS],
                               *slots = &p->tensor[KVMILL_WRITE_ROWS_SLOTS];
    for (int64_t n = 0; n < p->rows; n++) {
        int64_t slot = (int64_t)number_get(slots->dl.dtype, tensor_element(slots, n));
        for (int64_t h = 0; slot >= 0 && h < p->heads; h++) {
            int64_t head = slot * p->heads + h;
            oracle_convert_write(&p->shape,
                                 tensor_element(rows, (n * p->heads + h) * p->op.head_dim),
                                 tensor_element(cache, head * p->last),
                                 p->groups ? tensor_element(scale, head * p->groups) : NULL);
        }
    }
}

/* ---- Runs ---- */

static bool try_problem(struct problem *p, const kvmill_plan_options *options, int threads,
                        int64_t *parts) {
    const DLTensor *tensors[KVMILL_WRITE_ROWS_TENSORS];
    struct fenced_tensor expected[KVMILL_WRITE_ROWS_TENSORS] = {{.fence = {0}}};
    kvmill_plan *plan;
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
    if (!right)
        diag("%s of %" PRId64 " x %" PRId64 ", %" PRId64 " rows: %s",
             p->format->word ? p->format->word : "elements", p->heads, p->op.head_dim, p->rows,
             status == KVMILL_OK ? "another cache" : error.message);
    kvmill_plan_destroy(plan);
    return right;
}

TEST(problems) {
    int cases = few_cases(CASES), wrong = 0;
    int64_t parts = 0;
    for (int i = 0; i < cases; i++) {
        struct problem p;
        open_problem(&p, dice_range(&dice, 0, dice_once_in(&dice, 20) ? LONG : MOST_TOKENS));
        wrong += !try_problem(&p, &two_threads[i % 2], 1 + i / 2 % 3, &parts);
        close_problem(&p);
    }
    ok(wrong == 0, "%d problems are right", cases);
    ok(parts > 1, "  some of them in parts");
}

/* The same row for all slots but one: the last of the tokens that name it. */
TEST(twice) {
    int wrong = 0;
    int64_t parts = 0;
    for (int i = 0; i < 6; i++) {
        struct problem p;
        open_problem(&p, LONG);
        const struct fenced_tensor *slots = &p.tensor[KVMILL_WRITE_ROWS_SLOTS];
        for (int64_t n = 0; n < p.rows; n++)
            number_put(slots->dl.dtype, tensor_element(slots, n), (double)(n % 7));
        wrong += !try_problem(&p, &two_threads[i % 2], 4, &parts);
        close_problem(&p);
    }
    ok(wrong == 0 && parts == 1, "of rows with one slot the last stays, on any number of threads");
}
