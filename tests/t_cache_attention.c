/* Cache attention through the public interface against the oracle: random geometry of every kind,
   portable and with packs, and every kernel of every linked pack at every instruction set that the
   machine has; caches and scales bit for bit, attention within what its arithmetic may err.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attention.h"
#include "tap.h"
#include "walk.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
enum { PACKS = sizeof packs / sizeof *packs };

static const DLDataType f32 = {kDLFloat, 32, 1}, f16 = {kDLFloat, 16, 1}, bf16 = {kDLBfloat, 16, 1},
                        e4m3 = {KVMILL_DL_FLOAT8_E4M3FN, 8, 1},
                        e5m2 = {KVMILL_DL_FLOAT8_E5M2, 8, 1}, i8 = {kDLInt, 8, 1},
                        i4 = {kDLInt, 4, 1}, u8 = {kDLUInt, 8, 1};

static uint64_t seed;

/* What became of the cases, to be sure that every way was gone. */
static struct { int64_t cases, many_parts, empty, paged, masked, spread, threads[9]; } seen;

#define PICK(dice, ...)                                                                            \
    ((const int64_t[]){                                                                            \
        __VA_ARGS__}[dice_range(dice, 0, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) - 1)])

/* ---- Types and formats ---- */

static DLDataType choose_float(struct dice *dice) {
    const DLDataType types[] = {f32, f16, bf16};
    return types[dice_range(dice, 0, 2)];
}

/* A side of a cache: what the attributes of K and of V say. */
struct format {
    int64_t quant_bit, group;
    DLDataType T2, T3;
    const char *blocks;
};

static int64_t choose_group(int64_t dim, int64_t multiple, struct dice *dice) {
    int64_t group = PICK(dice, 8, 8, 16, 32, 64, 128, 2, 4, 6, 10, dim, dim / 2);
    bool divides = group > 0 && dim % group == 0 && group % multiple == 0;
    return divides ? group : dim;
}

static struct format choose_format(int64_t dim, struct dice *dice) {
    static const char *const blocks[] = {"q8_0", "q4_0", "q5_1"};
    struct format format = {.T2 = choose_float(dice), .T3 = choose_float(dice), .group = 8};
    int64_t kind = dice_range(dice, 0, 9);
    if (kind < 3 && dim % 2 == 0) {
        format.quant_bit = 4;
        format.group = choose_group(dim, 2, dice);
        format.T2 = i4;
    } else if (kind < 6) {
        format.quant_bit = 8;
        format.group = choose_group(dim, 1, dice);
        format.T2 = i8;
    } else if (kind == 6 && dim % 32 == 0) {
        format.blocks = blocks[dice_range(dice, 0, 2)];
        format.T2 = u8;
    } else if (kind == 7) {
        format.T2 = dice_once_in(dice, 2) ? e4m3 : e5m2;
    }
    return format;
}

static void set_key_format(kvmill_cache_attention *op, const struct format *format) {
    op->quant_bit = format->quant_bit;
    op->quant_group = format->group;
    op->T2 = format->T2;
    op->T3 = format->T3;
    op->cache_format = format->blocks;
}

static void set_value_format(kvmill_cache_attention *op, int64_t dim, const struct format *format) {
    op->value_differs = 1;
    op->value_head_dim = dim;
    op->value_quant_bit = format->quant_bit;
    op->value_quant_group = format->group;
    op->value_T2 = format->T2;
    op->value_T3 = format->T3;
    op->value_cache_format = format->blocks;
}

/* ---- Geometry ---- */

enum kind { DECODE, CHUNK, PREFILL, MIXED, LONG, KINDS };

static const char *const kind_names[] = {"decode", "chunks", "prefill", "mixed lengths",
                                         "long caches"};

static int64_t choose_dim(struct dice *dice) {
    return PICK(dice, 64, 64, 128, 128, 80, 96, 100, 112, 192, 256, 576, 4, 8, 10, 36, 40, 7);
}

static void choose_heads(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    int64_t kv = PICK(dice, 1, 1, 2, 3, 5), ratio = PICK(dice, 1, 1, 2, 3, 4, 5, 7, 8, 16, 71);
    if (a->which == KEY_VALUE_CACHE) {
        op->num_kv_heads = kv;
        op->num_repeat = PICK(dice, 1, 1, 2, 3);
        return;
    }
    kv = ratio > 8 ? 1 : kv;
    op->num_heads = kv * ratio;
    op->num_kv_heads = ratio == 1 && dice_once_in(dice, 2) ? 0 : kv;
}

static void choose_types(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    op->head_dim = choose_dim(dice);
    op->T1 = choose_float(dice);
    struct format key = choose_format(op->head_dim, dice);
    set_key_format(op, &key);
    if (dice_once_in(dice, 4)) {
        int64_t dim = dice_once_in(dice, 2) ? op->head_dim : choose_dim(dice);
        struct format value = choose_format(dim, dice);
        set_value_format(op, dim, &value);
    }
    if (a->which == KEY_VALUE_CACHE && dice_once_in(dice, 10)) {
        op->T1 = op->T2 = op->value_T2 = i8;
        op->quant_bit = op->value_quant_bit = 0;
        op->cache_format = op->value_cache_format = NULL;
    }
}

static void choose_place(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    op->dynamic_batching = (int32_t)dice_range(dice, 0, 1);
    op->num_layer = PICK(dice, 1, 2, 3);
    op->layer_idx = dice_range(dice, 0, op->num_layer - 1);
    op->cache_mode = op->dynamic_batching ? dice_range(dice, 0, 1) : 0;
    op->cache_layout = dice_range(dice, 0, op->dynamic_batching ? 3 + op->cache_mode : 1);
    op->page_size = PICK(dice, 1, 3, 16, 128);
    a->spare_batch = dice_range(dice, 0, 1);
    a->spare_rows = PICK(dice, 0, 1, 5);
    a->share_prefix = dice_once_in(dice, 3);
    a->decoding_rank = dice_range(dice, 0, 1);
    a->max_slack = PICK(dice, 0, 0, 17);
    a->spread = dice_once_in(dice, 3) && op->cache_layout < 4 ? SPREAD : DENSE;
}

static void choose_mask_shape(struct attention *a, struct dice *dice) {
    a->mask_rank = (int)dice_range(dice, 2, a->op.dynamic_batching ? 3 : 4);
    a->mask_padding = PICK(dice, 0, 1, 13);
    a->mask_one_batch = a->op.dynamic_batching == 0 && dice_once_in(dice, 2);
}

static void choose_sinks(struct attention *a, struct dice *dice) {
    a->has_sinks = true;
    a->sinks_are_activations = dice_once_in(dice, 2);
}

static void choose_alibi(struct attention *a, struct dice *dice) {
    a->op.is_alibi = 1;
    a->op.alibi_scale = dice_once_in(dice, 4) ? 0.5 : 0;
    if (dice_once_in(dice, 3)) {
        a->op.alibi_first = dice_range(dice, 0, 3);
        a->op.alibi_heads = a->op.num_heads + a->op.alibi_first + 1;
    }
}

static void choose_scores(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    op->is_causal = !dice_once_in(dice, 4);
    op->softmax_scale = dice_once_in(dice, 6) ? 0.13 : 0;
    op->left_window_size = dice_once_in(dice, 4) ? PICK(dice, 0, 1, 6, 63, 4095) : -1;
    op->softcap = dice_once_in(dice, 4) ? 3 : 0;
    op->math = dice_once_in(dice, 5) ? "fast" : dice_once_in(dice, 2) ? "f32" : NULL;
    op->partial = dice_once_in(dice, 6);
    op->empty_is_nan = dice_once_in(dice, 3);
    a->query_size = PICK(dice, 1, 1, 3, 6);
    if (dice_once_in(dice, 4))
        choose_alibi(a, dice);
    if (dice_once_in(dice, 3))
        choose_mask_shape(a, dice);
    if (dice_once_in(dice, 5))
        choose_sinks(a, dice);
}

/* ---- Lengths ---- */

static int64_t choose_tokens(enum kind kind, struct dice *dice) {
    switch (kind) {
    case DECODE:
        return 1;
    case CHUNK:
        return PICK(dice, 2, 3, 5, 16, 17);
    case PREFILL:
        return PICK(dice, 15, 40, 64, 70, 130);
    case LONG:
        return PICK(dice, 1, 1, 2, 5);
    default:
        return PICK(dice, 0, 1, 1, 1, 2, 9, 33);
    }
}

static int64_t choose_start(enum kind kind, struct dice *dice) {
    if (kind == LONG)
        return dice_range(dice, is_slow_run() ? 2100 : 900, is_slow_run() ? 2400 : 5000);
    if (kind == PREFILL || dice_once_in(dice, 5))
        return 0;
    return PICK(dice, 1, 2, 15, 16, 40, 127, 130, 260);
}

/* Multiplications of the oracle. */
static int64_t work_of(const struct attention *a) {
    int64_t heads = a->which == KEY_VALUE_CACHE ? a->op.num_kv_heads : a->op.num_heads, sum = 0;
    for (int64_t b = 0; b < a->sequences; b++)
        sum += (a->tokens[b] + (a->which == KEY_VALUE_CACHE)) * (a->start[b] + a->tokens[b]);
    return sum * heads * a->op.head_dim;
}

static bool is_affordable(const struct attention *a) {
    int64_t most = is_slow_run() ? 500000 : 4000000;
    return work_of(a) <= most;
}

static void choose_lengths(struct attention *a, enum kind kind, struct dice *dice) {
    a->sequences = kind == LONG ? 1 : PICK(dice, 1, 2, 3, 5);
    a->sequences = dice_once_in(dice, 30) ? 0 : a->sequences;
    for (int64_t b = 0; b < a->sequences || b == 0; b++) {
        a->tokens[b] = choose_tokens(kind, dice);
        a->start[b] = choose_start(kind, dice);
    }
    for (int64_t b = 1; b < a->sequences && !a->op.dynamic_batching; b++) {
        a->tokens[b] = a->tokens[0];
        a->start[b] = a->start[0];
    }
    a->decoding = a->op.dynamic_batching ? dice_range(dice, 0, a->sequences) : 0;
}

/* Smaller until the oracle is done in a moment. */
static void make_affordable(struct attention *a) {
    while (a->sequences > 1 && !is_affordable(a))
        a->sequences--;
    for (int i = 0; i < 6 && !is_affordable(a); i++) {
        a->start[0] /= 2;
        a->tokens[0] -= a->tokens[0] / 2;
    }
    for (int64_t b = 1; b < a->sequences && !a->op.dynamic_batching; b++) {
        a->tokens[b] = a->tokens[0];
        a->start[b] = a->start[0];
    }
    if (a->decoding > a->sequences)
        a->decoding = a->sequences;
}

static void choose_attention(struct attention *a, enum kind kind, struct dice *dice) {
    a->which =
        (enum cache_op)PICK(dice, KEY_VALUE_CACHE, MULTI_HEAD_ATTENTION, MULTI_HEAD_CACHE_ATTENTION,
                            MULTI_HEAD_CACHE_ATTENTION, MULTI_HEAD_CACHE_ATTENTION);
    kvmill_cache_attention_init(&a->op, sizeof a->op);
    choose_place(a, dice);
    choose_types(a, dice);
    choose_heads(a, dice);
    if (a->which != KEY_VALUE_CACHE)
        choose_scores(a, dice);
    choose_lengths(a, kind, dice);
    make_affordable(a);
}

/* ---- A case ---- */

static void count_case(const struct attention *a) {
    seen.cases++;
    seen.empty += a->seqstarts[a->sequences] == 0;
    seen.paged += a->op.dynamic_batching && a->op.cache_mode == 1;
    seen.masked += a->mask_rank != 0;
    seen.spread += a->spread == SPREAD;
}

/* Workspace of just the size, between fences. */
static kvmill_status run_in_workspace(const struct attention *a, const kvmill_plan *plan,
                                      int threads, struct dice *dice, kvmill_error *error) {
    struct fence workspace;
    int64_t where;
    size_t size = kvmill_plan_workspace_size(plan);
    fence_open(&workspace, (size + 63) / 64 * 64, 0, FENCE_ABOVE, dice);
    kvmill_status status = attention_run(a, plan, workspace.data, threads, dice, error);
    if (!fence_is_intact(&workspace, &where))
        bail_out("byte %" PRId64 " is outside of the workspace, but was written: %s", where,
                 a->words);
    fence_close(&workspace);
    return status;
}

/* Plan for `threads` and run on them; NULL when either failed. */
static kvmill_plan *plan_and_run(const struct attention *a, kvmill_plan_options options,
                                 int threads, struct dice *dice) {
    kvmill_plan *plan;
    kvmill_error error;
    options.threads = dice_once_in(dice, 4) ? (int)dice_range(dice, 1, 8) : threads;
    kvmill_status status = attention_plan(a, &options, &plan, &error);
    if (status == KVMILL_OK) {
        seen.threads[threads]++;
        status = run_in_workspace(a, plan, threads, dice, &error);
    }
    if (status == KVMILL_OK)
        return plan;
    diag("%s: %s", kvmill_status_name(status), error.message);
    kvmill_plan_destroy(plan);
    return NULL;
}

static void show_plan(const kvmill_plan *plan) {
    static char text[16384];
    kvmill_plan_describe(plan, text, sizeof text);
    diag("%s", text);
}

/* What the first run gave is what to expect of the others, to the bit. */
static void expect_the_same(struct attention *a) {
    for (int i = 0; i < TENSORS; i++)
        if (a->expected[i].fence.pages != NULL)
            memcpy(a->expected[i].fence.data, a->tensor[i].fence.data, a->tensor[i].fence.size);
}

static bool are_same_bits(struct attention *a) {
    int64_t where;
    for (int i = 0; i < TENSORS; i++)
        if (a->expected[i].fence.pages != NULL &&
            !tensor_is_equal(&a->tensor[i], &a->expected[i], &where)) {
            diag("byte %" PRId64 " of %s is %02x, with fewer threads %02x", where,
                 attention_tensor_name(i), a->tensor[i].fence.data[where],
                 a->expected[i].fence.data[where]);
            return false;
        }
    return true;
}

static bool runs_right(struct attention *a, const kvmill_plan_options *options, int threads,
                       struct dice *dice) {
    kvmill_plan *plan = plan_and_run(a, *options, threads, dice);
    bool good = plan != NULL && attention_is_right(a);
    if (plan != NULL && !good)
        show_plan(plan);
    kvmill_plan_destroy(plan);
    return good;
}

static bool runs_the_same(struct attention *a, const kvmill_plan_options *options, int threads,
                          struct dice *dice) {
    attention_restore(a);
    kvmill_plan *plan = plan_and_run(a, *options, threads, dice);
    bool good = plan != NULL && are_same_bits(a);
    kvmill_plan_destroy(plan);
    return good;
}

/* Against the oracle on some threads, then the same bits on others. */
static bool run_case(struct attention *a, const kvmill_plan_options *options, bool all_threads,
                     struct dice *dice) {
    static const int counts[] = {0, 1, 2, 3, 8};
    attention_open(a, dice);
    attention_expect(a, dice);
    int other = (int)dice_range(dice, 0, 4);
    bool good = runs_right(a, options, counts[dice_range(dice, 0, 4)], dice);
    expect_the_same(a);
    for (int i = 0; good && i < 5; i++)
        good = !(all_threads || i == other) || runs_the_same(a, options, counts[i], dice);
    if (!good)
        diag("%s", a->words);
    count_case(a);
    attention_close(a);
    return good;
}

/* ---- Random geometry ---- */

static void test_kind(enum kind kind, bool use_packs) {
    char words[64];
    snprintf(words, sizeof words, "%s with %s", kind_names[kind], use_packs ? "packs" : "no packs");
    struct dice dice = dice_for(seed, words);
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = use_packs ? PACKS : 0};
    int cases = is_slow_run() ? few_cases(8) : kind == LONG ? 60 : 150;
    bool good = true;
    for (int i = 0; good && i < cases; i++) {
        struct attention a = {0};
        choose_attention(&a, kind, &dice);
        good = run_case(&a, &options, kind == LONG, &dice);
    }
    ok(good, "%s: random geometry", words);
}

/* ---- Every kernel of the packs ---- */

static DLDataType dl_of(int element) {
    const DLDataType types[] = {
        [KVMILL_F32] = f32,   [KVMILL_F16] = f16, [KVMILL_BF16] = bf16, [KVMILL_I8] = i8,
        [KVMILL_I4] = i4,     [KVMILL_Q8_0] = u8, [KVMILL_Q4_0] = u8,   [KVMILL_E4M3] = e4m3,
        [KVMILL_E5M2] = e5m2, [KVMILL_Q5_1] = u8};
    return element == 0 ? f32 : types[element];
}

static struct format format_of(const struct kvmill_format *kernel, bool raw) {
    int element = kernel->element;
    return (struct format){.quant_bit = raw                    ? 0
                                        : element == KVMILL_I8 ? 8
                                        : element == KVMILL_I4 ? 4
                                                               : 0,
                           .group = kernel->quant_group,
                           .T2 = dl_of(element),
                           .T3 = dl_of(kernel->scale),
                           .blocks = element == KVMILL_Q8_0   ? "q8_0"
                                     : element == KVMILL_Q4_0 ? "q4_0"
                                     : element == KVMILL_Q5_1 ? "q5_1"
                                                              : NULL};
}

static bool is_same_format(const struct kvmill_format *a, const struct kvmill_format *b) {
    return a->element == b->element && a->dim == b->dim && a->scale == b->scale &&
           a->quant_group == b->quant_group;
}

static void set_formats(struct attention *a, int activation, const struct kvmill_format *key,
                        const struct kvmill_format *value, struct dice *dice) {
    struct format k = format_of(key, activation == KVMILL_I8),
                  v = format_of(value, activation == KVMILL_I8);
    a->op.T1 = dl_of(activation);
    a->op.head_dim = key->dim;
    set_key_format(&a->op, &k);
    if (!is_same_format(key, value) || dice_once_in(dice, 6))
        set_value_format(&a->op, value->dim, &v);
}

/* As many query heads as one call takes at one token, or fewer at more tokens. */
static void fill_rows(struct attention *a, int64_t rows, struct dice *dice) {
    bool decode = rows <= 71 && dice_once_in(dice, 2);
    int64_t ratio = decode ? rows : PICK(dice, 1, 2, 3, 4, 5, 7, 8);
    int64_t tokens = decode ? 1 : (rows + ratio - 1) / ratio;
    int64_t kv = PICK(dice, 1, 1, 2);
    a->op.num_kv_heads = kv;
    a->op.num_heads = kv * ratio;
    a->sequences = a->op.dynamic_batching ? PICK(dice, 1, 2, 3) : PICK(dice, 1, 1, 2);
    for (int64_t b = 0; b < a->sequences; b++) {
        bool same = !a->op.dynamic_batching && b > 0;
        int64_t more = decode ? 0 : PICK(dice, 0, 0, 1, tokens);
        a->tokens[b] = same ? a->tokens[0] : tokens + more;
        a->start[b] = same ? a->start[0] : PICK(dice, 0, 1, 7, 30, 100, 300, 1500);
    }
    make_affordable(a);
}

static bool is_activations(const struct kvmill_attend_shape *shape) {
    return shape->key.element == shape->activation && shape->value.element == shape->activation;
}

static void fit_attend(struct attention *a, const struct kvmill_attend_shape *shape,
                       struct dice *dice) {
    bool plain = is_activations(shape) && dice_once_in(dice, 4);
    a->which = plain ? MULTI_HEAD_ATTENTION : MULTI_HEAD_CACHE_ATTENTION;
    set_formats(a, shape->activation, &shape->key, &shape->value, dice);
    a->query_size = PICK(dice, 1, 3, 6);
    a->op.is_causal = !dice_once_in(dice, 4);
    a->op.left_window_size = dice_once_in(dice, 6) ? PICK(dice, 0, 6, 63) : -1;
    a->op.partial = dice_once_in(dice, 8);
    a->op.math = shape->math == KVMILL_MATH_FAST ? "fast" : NULL;
    a->op.softcap = shape->terms & KVMILL_TERM_SOFTCAP ? 3 : 0;
    fill_rows(a, shape->rows, dice);
    if (shape->terms & KVMILL_TERM_BIAS && dice_once_in(dice, 2))
        choose_alibi(a, dice);
    else if (shape->terms & KVMILL_TERM_BIAS)
        choose_mask_shape(a, dice);
    if (dice_once_in(dice, 4))
        choose_sinks(a, dice);
}

static void fit_convert(struct attention *a, const struct kvmill_convert_shape *shape,
                        struct dice *dice) {
    a->which = KEY_VALUE_CACHE;
    set_formats(a, shape->activation, &shape->format, &shape->format, dice);
    a->op.num_repeat = PICK(dice, 1, 1, 2);
    fill_rows(a, PICK(dice, 1, 5, 30), dice);
}

static void fit_kernel(struct attention *a, const struct kvmill_kernel *kernel, struct dice *dice) {
    kvmill_cache_attention_init(&a->op, sizeof a->op);
    choose_place(a, dice);
    if (kernel->family == KVMILL_ATTEND)
        fit_attend(a, kernel->shape, dice);
    else
        fit_convert(a, kernel->shape, dice);
}

static bool is_ours(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_ATTEND || kernel->family == KVMILL_WRITE_ROWS ||
           kernel->family == KVMILL_READ_ROWS;
}

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if (strchr(" ,;:.()\n", at[length]) != NULL)
            return true;
    return false;
}

static bool is_selected(const struct attention *a, const struct kvmill_kernel *kernel,
                        const kvmill_plan_options *options) {
    static char text[16384];
    kvmill_plan *plan;
    if (attention_plan(a, options, &plan, NULL) != KVMILL_OK)
        return false;
    kvmill_plan_describe(plan, text, sizeof text);
    kvmill_plan_destroy(plan);
    return has_word(text, kernel->symbol);
}

/* Slow runs take every kernel of small packs, a few of large ones. */
enum { SMALL_PACKS = 200 };

static int cases_of_kernel(struct dice *dice) {
    int64_t kernels = 0;
    for (int p = 0; p < PACKS; p++)
        kernels += packs[p]->count;
    if (!is_slow_run())
        return 3;
    return kernels < SMALL_PACKS ? 2 : dice_once_in(dice, 1 + kernels / 100);
}

static bool run_kernel(const struct kvmill_kernel *kernel, struct dice *dice) {
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS, .isa = kernel->isa};
    int cases = cases_of_kernel(dice);
    struct attention a = {0};
    fit_kernel(&a, kernel, dice);
    bool good = is_selected(&a, kernel, &options);
    if (!good)
        diag("%s is not selected for what it was made for", kernel->symbol);
    for (int i = 0; good && i < cases; i++) {
        a = (struct attention){0};
        fit_kernel(&a, kernel, dice);
        good = run_case(&a, &options, false, dice);
    }
    return good;
}

/* One test per pack, family and instruction set. */
static void test_kernels(const kvmill_pack *pack, const char *isa, uint32_t family,
                         const char *name) {
    struct dice dice = dice_for(seed, isa);
    int64_t count = 0, bad = 0;
    for (uint32_t i = 0; i < pack->count && bad < 5; i++) {
        const struct kvmill_kernel *kernel = pack->kernels[i];
        if (kernel->family != family || strcmp(kernel->isa, isa) != 0)
            continue;
        count++;
        bad += !run_kernel(kernel, &dice);
    }
    if (count > 0)
        ok(bad == 0, "%s of %s for %s: %" PRId64 " kernels are selected and right", name,
           pack->name, isa, count);
}

static void test_packs(void) {
    static const struct {
        uint32_t family;
        const char *name;
    } families[] = {
        {KVMILL_ATTEND, "attend"}, {KVMILL_WRITE_ROWS, "write"}, {KVMILL_READ_ROWS, "read"}};
    for (int p = 0; p < PACKS; p++)
        for (int i = 0; kvmill_isa_name((size_t)i) != NULL; i++)
            for (int f = 0; f < 3 && isa_is_allowed(kvmill_isa_name((size_t)i)); f++)
                test_kernels(packs[p], kvmill_isa_name((size_t)i), families[f].family,
                             families[f].name);
}

/* Random cases seldom have the formats of a pack's kernels: take them from one. */
static const struct kvmill_kernel *choose_kernel(struct dice *dice) {
    for (int tries = 0; tries < 1000; tries++) {
        const kvmill_pack *pack = packs[dice_range(dice, 0, PACKS - 1)];
        const struct kvmill_kernel *kernel = pack->kernels[dice_range(dice, 0, pack->count - 1)];
        if (is_ours(kernel) && isa_is_allowed(kernel->isa))
            return kernel;
    }
    return NULL;
}

static void test_mixed_kernels(void) {
    struct dice dice = dice_for(seed, "formats of packs");
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS};
    int cases = is_slow_run() ? few_cases(5) : 200;
    bool good = true, any = false;
    for (int i = 0; good && i < cases; i++) {
        struct attention a = {0};
        const struct kvmill_kernel *kernel = choose_kernel(&dice);
        if (kernel == NULL)
            break;
        any = true;
        fit_kernel(&a, kernel, &dice);
        choose_lengths(&a, (enum kind)dice_range(&dice, 0, KINDS - 1), &dice);
        make_affordable(&a);
        good = run_case(&a, &options, i % 10 == 0, &dice);
    }
    if (any)
        ok(good, "formats of the packs, lengths of every kind, the best instruction set");
    else
        skip_test("no kernel for cache attention is linked");
}

/* ---- Partial results ---- */

/* Attention over positions [first, last) of a one: its tensors are copies. */
static void open_slice(struct attention *slice, const struct attention *whole, int64_t first,
                       int64_t last, struct dice *dice) {
    int64_t row = whole->op.num_kv_heads * whole->op.head_dim * 4;
    *slice = (struct attention){.which = MULTI_HEAD_ATTENTION,
                                .op = whole->op,
                                .sequences = 1,
                                .tokens = {whole->tokens[0]},
                                .start = {last - first - whole->tokens[0]}};
    attention_open(slice, dice);
    memcpy(slice->dense[KVMILL_CACHE_ATTENTION_QUERY], whole->dense[KVMILL_CACHE_ATTENTION_QUERY],
           (size_t)(whole->tokens[0] * whole->op.num_heads * whole->op.head_dim * 4));
    for (int i = KVMILL_CACHE_ATTENTION_KEY; i <= KVMILL_CACHE_ATTENTION_VALUE; i++) {
        memcpy(slice->dense[i], whole->dense[i] + first * row, (size_t)((last - first) * row));
        attention_refresh(slice, i);
    }
    attention_refresh(slice, KVMILL_CACHE_ATTENTION_QUERY);
}

static bool run_slice(const struct attention *slice, struct dice *dice) {
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = PACKS};
    kvmill_plan *plan = plan_and_run(slice, options, 1, dice);
    kvmill_plan_destroy(plan);
    return plan != NULL;
}

static const float *floats_of(const struct attention *a, int tensor) {
    return (const float *)(const void *)((const unsigned char *)a->tensor[tensor].dl.data +
                                         a->tensor[tensor].dl.byte_offset);
}

/* The tensors of slices may be anywhere; the merge takes float arrays. */
static float *copy_of(const struct attention *a, int tensor, int64_t count) {
    float *copy = malloc((size_t)count * sizeof *copy);
    memcpy(copy, floats_of(a, tensor), (size_t)count * sizeof *copy);
    return copy;
}

static void merge_into(struct attention *whole, const struct attention *slices, int64_t count) {
    int64_t rows = whole->tokens[0] * whole->op.num_heads, dim = whole->op.head_dim;
    float *outputs[3], *lses[3];
    for (int64_t i = 0; i < count; i++) {
        outputs[i] = copy_of(&slices[i], KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, rows * dim);
        lses[i] = copy_of(&slices[i], KVMILL_CACHE_ATTENTION_LSE, rows);
    }
    kvmill_merge_partials(count, (const float *const *)outputs, (const float *const *)lses, rows,
                          dim, outputs[0], lses[0]);
    memcpy(whole->dense[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT], outputs[0], (size_t)(rows * dim * 4));
    memcpy(whole->dense[KVMILL_CACHE_ATTENTION_LSE], lses[0], (size_t)(rows * 4));
    attention_refresh(whole, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    attention_refresh(whole, KVMILL_CACHE_ATTENTION_LSE);
    for (int64_t i = 0; i < count; i++) {
        free(outputs[i]);
        free(lses[i]);
    }
}

static void open_whole(struct attention *whole, struct dice *dice) {
    *whole = (struct attention){.which = MULTI_HEAD_ATTENTION,
                                .sequences = 1,
                                .tokens = {dice_range(dice, 1, 4)},
                                .query_size = 4};
    kvmill_cache_attention_init(&whole->op, sizeof whole->op);
    whole->op.T1 = f32;
    whole->op.num_kv_heads = 2;
    whole->op.num_heads = 2 * PICK(dice, 1, 3, 4);
    whole->op.head_dim = PICK(dice, 10, 64, 128);
    whole->op.is_causal = 0;
    whole->op.partial = 1;
    whole->start[0] = dice_range(dice, 30, 400);
    attention_open(whole, dice);
    attention_expect(whole, dice);
}

static bool merge_slices(struct dice *dice) {
    struct attention whole, slices[3];
    open_whole(&whole, dice);
    int64_t length = whole.start[0] + whole.tokens[0], count = 2 + dice_range(dice, 0, 1);
    const int64_t cuts[] = {0, 7 + whole.tokens[0], count == 2 ? length : length - 9, length};
    bool good = true;
    for (int64_t i = 0; i < count; i++) {
        open_slice(&slices[i], &whole, cuts[i], cuts[i + 1], dice);
        good = good && run_slice(&slices[i], dice);
    }
    merge_into(&whole, slices, count);
    good = good && attention_is_right(&whole);
    for (int64_t i = 0; i < count; i++)
        attention_close(&slices[i]);
    attention_close(&whole);
    return good;
}

static void test_merge(void) {
    struct dice dice = dice_for(seed, "merge");
    bool good = true;
    for (int i = 0; good && i < few_cases(20); i++)
        good = merge_slices(&dice);
    ok(good, "partial results over slices of the keys merge to the whole");
}

/* ---- All of it ---- */

static void test_coverage(void) {
    bool slow = is_slow_run();
    diag("%" PRId64 " cases: %" PRId64 " paged, %" PRId64 " masked, %" PRId64 " strided, %" PRId64
         " empty",
         seen.cases, seen.paged, seen.masked, seen.spread, seen.empty);
    ok(seen.cases > 0 && (slow || (seen.paged > 0 && seen.masked > 0 && seen.spread > 0 &&
                                   seen.empty > 0 && seen.threads[8] > 0)),
       "cases of all kinds were run");
}

int main(void) {
    seed = dice_seed();
    for (int use_packs = 0; use_packs < 2; use_packs++)
        for (int kind = 0; kind < KINDS; kind++)
            test_kind((enum kind)kind, use_packs);
    test_packs();
    test_mixed_kernels();
    test_merge();
    test_coverage();
    return done_testing();
}
