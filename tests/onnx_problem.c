/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_problem.h"
#include "common.h"

#include "../defs/op_tables.h"

enum {
    Q = KVMILL_ATTENTION_Q,
    K = KVMILL_ATTENTION_K,
    V = KVMILL_ATTENTION_V,
    MASK = KVMILL_ATTENTION_ATTN_MASK,
    PAST = KVMILL_ATTENTION_PAST_KEY,
    NONPAD = KVMILL_ATTENTION_NONPAD_KV_SEQLEN,
    Y = KVMILL_ATTENTION_Y,
    PRESENT = KVMILL_ATTENTION_PRESENT_KEY,
    QK = KVMILL_ATTENTION_QK_MATMUL_OUTPUT,
    STARTS = KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES
};

/* ---- Settings ---- */

#define AS(name, member) SETTING_OF(struct onnx_problem, name, member)
#define OF(member)       AS(#member, member)
/* clang-format off */
static const struct wanted_setting wanted[] = {
    OF(step), OF(circular), OF(packed), OF(batch), OF(heads), OF(kv_heads), OF(queries), OF(dim),
    OF(value_dim), OF(past), OF(keys), OF(mask_rank), OF(hidden_in), OF(qk), OF(in_place),
    OF(grown), OF(T1), OF(T2), OF(U), AS("left", op.left_window_size),
    AS("right", op.right_window_size), {.name = NULL}
};
/* clang-format on */
#undef AS
#undef OF

static bool say_one(void *to, const struct setting *setting) {
    struct onnx_problem *problem = to;
    if (strcmp(setting->name, "nonpad") == 0) {
        problem->has_nonpad = true;
        setting_spread(setting->value, problem->nonpad, problem->batch);
    } else if (strcmp(setting->name, "starts") == 0) {
        problem->has_starts = true;
        setting_spread(setting->value, problem->starts, problem->batch);
    } else if (strcmp(setting->name, "mask") == 0) {
        problem->mask_rank = 1;
        problem->mask_dims[0] = setting_integer(setting->value);
    } else
        return setting_want(setting, wanted, problem) >= 0 ||
               setting_apply(setting, kvmill_attention_ops[0].parts[0], &problem->op);
    return true;
}

void onnx_say(struct onnx_problem *problem, const char *settings, struct dice *dice) {
    setting_say(settings, dice, problem, say_one);
}

struct onnx_problem onnx_problem(const char *settings) {
    struct onnx_problem problem = {.batch = 1};
    kvmill_attention_init(&problem.op, sizeof problem.op);
    onnx_say(&problem, "T1=float32 T2=float32 opset=24", NULL);
    onnx_say(&problem, settings, NULL);
    return problem;
}

/* ---- Elements ---- */

static int64_t dim_of(const struct onnx_problem *problem, int tensor) {
    bool value = tensor == V || tensor == PAST + 1 || tensor == PRESENT + 1 || tensor == Y;
    return value ? problem->value_dim : problem->dim;
}

static unsigned char *element(const struct onnx_problem *problem, int tensor, int64_t b, int64_t h,
                              int64_t r, int64_t d) {
    const struct fenced_tensor *t = &problem->tensor[tensor];
    int64_t dim = dim_of(problem, tensor);
    if (t->dl.ndim == 4)
        return tensor_element(t, ((b * t->shape[1] + h) * t->shape[2] + r) * t->shape[3] + d);
    return tensor_element(t, (b * t->shape[1] + r) * t->shape[2] + h * dim + d);
}

double onnx_get(const struct onnx_problem *problem, int tensor, int64_t b, int64_t h, int64_t r,
                int64_t d) {
    return number_get(problem->tensor[tensor].dl.dtype, element(problem, tensor, b, h, r, d));
}

void onnx_put(struct onnx_problem *problem, int tensor, int64_t b, int64_t h, int64_t r, int64_t d,
              double x) {
    number_put(problem->tensor[tensor].dl.dtype, element(problem, tensor, b, h, r, d), x);
}

void onnx_put_mask(struct onnx_problem *problem, int64_t n, double x) {
    number_put(problem->U, tensor_element(&problem->tensor[MASK], n), x);
}

/* ---- Opening ---- */

static void open_tensor(struct onnx_problem *problem, int i, DLDataType type, int rank,
                        const int64_t *dims, struct dice *dice) {
    struct fenced_tensor *tensor = &problem->tensor[i];
    int64_t strides[4];
    bool spread = problem->spread && dice_once_in(dice, 2);
    if (spread)
        spread_strides(rank, dims, i == MASK, strides, dice);
    tensor_open(tensor, type, rank, dims, spread ? strides : NULL, dice);
    problem->given[i] = &tensor->dl;
}

static void open_rows(struct onnx_problem *problem, int i, DLDataType type, bool packed,
                      int64_t rows, struct dice *dice) {
    bool query = i == Q || i == Y || i == QK;
    int64_t heads = query ? problem->heads : problem->kv_heads;
    int64_t all = problem->past + problem->keys, dim = i == QK ? all : dim_of(problem, i);
    const int64_t flat[] = {problem->batch, rows, heads * dim};
    const int64_t apart[] = {problem->batch, heads, rows, dim};
    open_tensor(problem, i, type, packed ? 3 : 4, packed ? flat : apart, dice);
}

static void open_numbers(struct onnx_problem *problem, int i, const int64_t *numbers,
                         struct dice *dice) {
    open_tensor(problem, i, (DLDataType){kDLInt, 64, 1}, 1, &problem->batch, dice);
    for (int64_t b = 0; b < problem->batch; b++)
        memcpy(tensor_element(&problem->tensor[i], b), &numbers[b], 8);
}

/* Opens a view of rows of a present, from `first` on. */
static void open_view(struct onnx_problem *problem, int i, int present, int64_t first,
                      int64_t rows) {
    struct fenced_tensor *view = &problem->tensor[i];
    *view = problem->tensor[present];
    view->fence = (struct fence){.pages = NULL};
    view->shape[2] = rows;
    view->dl.shape = view->shape;
    view->dl.strides = view->strides;
    view->dl.byte_offset += (uint64_t)(first * view->strides[2]) * view->dl.dtype.bits / 8;
    problem->given[i] = &view->dl;
}

static void open_keys(struct onnx_problem *problem, int v, struct dice *dice) {
    bool packed = problem->packed, cache = packed && problem->step;
    int64_t all = problem->step ? problem->past : problem->past + problem->keys;
    DLDataType type = v ? problem->T2 : problem->T1;
    if (problem->grown) {
        open_rows(problem, PRESENT + v, type, false, all, dice);
        open_view(problem, PAST + v, PRESENT + v, 0, problem->past);
        open_view(problem, K + v, PRESENT + v, problem->past, problem->keys);
        return;
    }
    open_rows(problem, K + v, type, packed, problem->keys, dice);
    if (problem->past > 0 || problem->step)
        open_rows(problem, PAST + v, type, cache, problem->past, dice);
    if (problem->in_place)
        problem->given[PRESENT + v] = problem->given[PAST + v];
    else if (problem->present[v] || problem->step)
        open_rows(problem, PRESENT + v, type, cache, all, dice);
}

static void open_tensors(struct onnx_problem *problem, struct dice *dice) {
    open_rows(problem, Q, problem->T1, problem->packed, problem->queries, dice);
    open_rows(problem, Y, problem->T1, problem->packed, problem->queries, dice);
    for (int v = 0; v < 2; v++)
        open_keys(problem, v, dice);
    if (problem->qk)
        open_rows(problem, QK, problem->T1, false, problem->queries, dice);
    if (problem->mask_rank > 0)
        open_tensor(problem, MASK, problem->U, (int)problem->mask_rank, problem->mask_dims, dice);
    if (problem->has_nonpad)
        open_numbers(problem, NONPAD, problem->nonpad, dice);
    if (problem->has_starts)
        open_numbers(problem, STARTS, problem->starts, dice);
}

/* ---- Contents ---- */

static int64_t start_of(const struct onnx_problem *problem, int64_t b) {
    return problem->has_starts ? problem->starts[b] : 0;
}

/* Whether the op may read the row. */
static bool is_valid(const struct onnx_problem *problem, int tensor, int64_t b, int64_t r) {
    int64_t start = start_of(problem, b);
    if (problem->step && (tensor == PAST || tensor == PAST + 1))
        return r < start;
    if ((tensor != K && tensor != V) || !problem->has_nonpad)
        return true;
    return r < problem->nonpad[b] - (problem->step ? start : 0);
}

static void fill_rows(struct onnx_problem *problem, int tensor, int64_t heads, int64_t rows,
                      struct dice *dice) {
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t d = 0; d < dim_of(problem, tensor); d++)
                    onnx_put(problem, tensor, b, h, r, d,
                             is_valid(problem, tensor, b, r) ? dice_between(dice, -2, 2) : NAN);
}

static void fill_mask(struct onnx_problem *problem, struct dice *dice) {
    for (int64_t n = 0; problem->mask_rank > 0 && n < tensor_count(&problem->tensor[MASK].dl);
         n++) {
        bool hidden = problem->hidden_in > 0 && dice_once_in(dice, problem->hidden_in);
        bool is_signed = number_is_float(problem->U) || problem->U.code == kDLInt;
        if (problem->U.code == KVMILL_DL_BOOL)
            onnx_put_mask(problem, n, !hidden);
        else if (number_is_float(problem->U) && hidden)
            onnx_put_mask(problem, n, -INFINITY);
        else
            onnx_put_mask(problem, n, dice_between(dice, is_signed ? -3 : 0, 3));
    }
}

static void put_into_words(struct onnx_problem *p) {
    snprintf(
        p->words, sizeof p->words,
        "%s%s %s, T1 %d.%d, T2 %d.%d, mask rank %d of %d.%d, causal %d, softcap %g, qk mode %d",
        p->step ? "a step" : "Attention", p->circular ? ", circular" : "",
        p->packed ? ", packed" : "", p->T1.code, p->T1.bits, p->T2.code, p->T2.bits,
        (int)p->mask_rank, p->U.code, p->U.bits, (int)p->op.is_causal, p->op.softcap,
        p->qk ? (int)p->op.qk_matmul_output_mode : -1);
    for (const struct wanted_setting *one = wanted; one->name != NULL; one++) {
        size_t at = strlen(p->words);
        if (one->kind == SETTING_INTEGER)
            snprintf(p->words + at, sizeof p->words - at, " %s=%" PRId64, one->name,
                     *(const int64_t *)(const void *)((const char *)p + one->offset));
    }
}

void onnx_open(struct onnx_problem *problem, struct dice *dice) {
    open_tensors(problem, dice);
    fill_rows(problem, Q, problem->heads, problem->queries, dice);
    fill_rows(problem, K, problem->kv_heads, problem->keys, dice);
    fill_rows(problem, V, problem->kv_heads, problem->keys, dice);
    for (int v = 0; v < 2 && problem->given[PAST] != NULL; v++)
        fill_rows(problem, PAST + v, problem->kv_heads, problem->past, dice);
    fill_mask(problem, dice);
    put_into_words(problem);
}

static void free_numbers(struct onnx_problem *problem) {
    double *numbers[] = {
        problem->q,         problem->mask,           problem->k[0],     problem->k[1],
        problem->fresh[0],  problem->fresh[1],       problem->result.y, problem->result.y_error,
        problem->result.qk, problem->result.qk_error};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        free(numbers[i]);
}

void onnx_close(struct onnx_problem *problem) {
    free_numbers(problem);
    tensors_close(problem->before, ONNX_TENSORS);
    tensors_close(problem->tensor, ONNX_TENSORS);
}

/* ---- The oracle ---- */

/* Copies rows [0, rows) of a tensor into `all` rows of each head, from row `at` on. */
static void take_rows(const struct onnx_problem *problem, int tensor, int64_t heads, int64_t rows,
                      int64_t at, int64_t all, double *to) {
    int64_t dim = dim_of(problem, tensor);
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t d = 0; d < dim; d++)
                    to[((b * heads + h) * all + at + r) * dim + d] =
                        onnx_get(problem, tensor, b, h, r, d);
}

static void take_keys(struct onnx_problem *problem, int v) {
    int64_t heads = problem->kv_heads, dim = dim_of(problem, K + v), past = problem->past;
    int64_t all = problem->step ? past : past + problem->keys, rows = problem->batch * heads * dim;
    problem->k[v] = take(rows * all, sizeof(double));
    problem->fresh[v] = take(rows * problem->keys, sizeof(double));
    if (problem->given[PAST] != NULL)
        take_rows(problem, PAST + v, heads, past, 0, all, problem->k[v]);
    if (problem->step)
        take_rows(problem, K + v, heads, problem->keys, 0, problem->keys, problem->fresh[v]);
    else
        take_rows(problem, K + v, heads, problem->keys, past, all, problem->k[v]);
}

static void take_all(struct onnx_problem *problem) {
    int64_t rows = problem->batch * problem->heads * problem->queries;
    int64_t all = problem->past + problem->keys;
    problem->q = take(rows * problem->dim, sizeof(double));
    take_rows(problem, Q, problem->heads, problem->queries, 0, problem->queries, problem->q);
    for (int v = 0; v < 2; v++)
        take_keys(problem, v);
    problem->mask =
        take(problem->mask_rank > 0 ? tensor_count(&problem->tensor[MASK].dl) : 0, sizeof(double));
    for (int64_t n = 0; problem->mask_rank > 0 && n < tensor_count(&problem->tensor[MASK].dl); n++)
        problem->mask[n] = number_get(problem->U, tensor_element(&problem->tensor[MASK], n));
    problem->result =
        (struct oracle_onnx_result){take(rows * problem->value_dim, sizeof(double)),
                                    take(rows * problem->value_dim, sizeof(double)),
                                    problem->qk ? take(rows * all, sizeof(double)) : NULL,
                                    problem->qk ? take(rows * all, sizeof(double)) : NULL};
}

static struct oracle_onnx question(const struct onnx_problem *problem) {
    bool wide =
        problem->T1.bits == 64 || problem->T2.bits == 64 || problem->op.softmax_precision == 11;
    struct oracle_onnx oracle = {
        .batch = problem->batch,
        .heads = problem->heads,
        .kv_heads = problem->kv_heads,
        .queries = problem->queries,
        .dim = problem->dim,
        .value_dim = problem->value_dim,
        .past = problem->past,
        .keys = problem->keys,
        .nonpad = problem->has_nonpad ? problem->nonpad : NULL,
        .q = problem->q,
        .k = problem->k[0],
        .v = problem->k[1],
        .mask = {(int)problem->mask_rank, {0}, problem->U.code == KVMILL_DL_BOOL, problem->mask},
        .is_causal = problem->op.is_causal != 0,
        .left = problem->op.left_window_size,
        .right = problem->op.right_window_size,
        .scale = problem->op.scale != 0 ? problem->op.scale : 1 / sqrt((double)problem->dim),
        .softcap = problem->op.softcap,
        .qk_mode = (int)problem->op.qk_matmul_output_mode,
        .type = attention_type(problem->T1),
        .wide = problem->T1.bits == 64,
        .unit = wide ? 0x1p-53 : 0x1p-24,
    };
    memcpy(oracle.mask.dims, problem->mask_dims, sizeof oracle.mask.dims);
    return oracle;
}

void onnx_expect(struct onnx_problem *problem, struct dice *dice) {
    free_numbers(problem);
    take_all(problem);
    struct oracle_onnx oracle = question(problem);
    const struct oracle_step step = {
        .attention = oracle,
        .circular = problem->circular,
        .starts = problem->has_starts ? problem->starts : NULL,
        .new_k = problem->fresh[0],
        .new_v = problem->fresh[1],
        .k = problem->k[0],
        .v = problem->k[1],
    };
    if (problem->step)
        oracle_onnx_step(&step, &problem->result);
    else
        oracle_onnx_attend(&oracle, &problem->result);
    tensors_keep(problem->before, problem->tensor, ONNX_TENSORS, dice);
}

/* ---- Running ---- */

static kvmill_attention op_of(const struct onnx_problem *problem) {
    kvmill_attention op = problem->op;
    setting_tensors(&kvmill_attention_ops[0], &op, problem->given, KVMILL_ATTENTION_TENSORS);
    if (problem->packed) {
        op.q_num_heads = problem->heads;
        op.kv_num_heads = problem->kv_heads;
    }
    return op;
}

kvmill_status onnx_plan(const struct onnx_problem *problem, const kvmill_plan_options *options,
                        kvmill_plan **plan, kvmill_error *error) {
    const kvmill_attention op = op_of(problem);
    const kvmill_tensor_scatter_attention step = {
        .struct_size = sizeof step,
        .attention = &op,
        .mode = problem->circular ? "circular" : NULL,
        .write_indices = problem->given[STARTS],
    };
    return problem->step ? kvmill_plan_tensor_scatter_attention(&step, options, plan, error)
                         : kvmill_plan_attention(&op, options, plan, error);
}

/* Returns the outputs: Y, both presents, QK, and the past in place. */
static uint64_t outputs_of(const struct onnx_problem *problem) {
    return UINT64_C(15) << Y | (problem->in_place ? UINT64_C(3) << PAST : 0);
}

kvmill_status onnx_run(const struct onnx_problem *problem, const kvmill_plan *plan, int threads,
                       struct dice *dice, kvmill_error *error) {
    fence_explain_traps(problem->words);
    tensors_protect(problem->tensor, ONNX_TENSORS, outputs_of(problem), true);
    kvmill_status status = run_with_workspace(plan, problem->given, threads, dice, error);
    tensors_protect(problem->tensor, ONNX_TENSORS, outputs_of(problem), false);
    return status;
}

/* ---- Judging ---- */

/* Whether an output is right; error NULL: its elements are exact. */
static bool is_output_right(const struct onnx_problem *problem, int tensor, int64_t heads,
                            int64_t rows, int64_t dim, const double *want, const double *error) {
    DLDataType type = problem->given[tensor]->dtype;
    int of = problem->in_place && tensor > Y ? tensor - PRESENT + PAST : tensor;
    int64_t n = 0;
    for (int64_t b = 0; b < problem->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t d = 0; d < dim; d++, n++) {
                    double have = onnx_get(problem, of, b, h, r, d);
                    if (number_is_close(type, have, want[n], error != NULL ? error[n] : 0))
                        continue;
                    diag("tensor %d [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                         "]: have %.9g, want %.9g +- %.3g",
                         tensor, b, h, r, d, have, want[n], error != NULL ? error[n] : 0);
                    return false;
                }
    return true;
}

static bool are_outputs_right(const struct onnx_problem *problem) {
    const struct oracle_onnx_result *result = &problem->result;
    int64_t all = problem->step ? problem->past : problem->past + problem->keys;
    bool right = is_output_right(problem, Y, problem->heads, problem->queries, problem->value_dim,
                                 result->y, result->y_error);
    for (int v = 0; v < 2; v++)
        if (problem->given[PRESENT + v] != NULL)
            right = right && is_output_right(problem, PRESENT + v, problem->kv_heads, all,
                                             dim_of(problem, K + v), problem->k[v], NULL);
    if (problem->qk)
        right = right && is_output_right(problem, QK, problem->heads, problem->queries, all,
                                         result->qk, result->qk_error);
    return right;
}

bool onnx_is_right(struct onnx_problem *problem) {
    return tensors_are_kept(problem->tensor, problem->before, ONNX_TENSORS, outputs_of(problem),
                            problem->words) &&
           are_outputs_right(problem);
}
