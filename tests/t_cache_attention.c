/* Cache attention through the public interface against the oracle: random geometry of every kind,
   portable and with packs, and every kernel of every linked pack at every instruction set that the
   machine has; caches and scales bit for bit, attention within what its arithmetic may err.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attention_scenes.h"
#include "settings.h"
#include "tap.h"
#include "walk.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
enum { PACKS = sizeof packs / sizeof *packs };

static uint64_t seed;

/* What became of the cases, to be sure that every way was gone. */
static struct { int64_t cases, many_parts, empty, paged, masked, spread, threads[9]; } seen;

#define PICK(dice, ...)                                                                            \
    ((const int64_t[]){                                                                            \
        __VA_ARGS__}[dice_range(dice, 0, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) - 1)])

/* ---- Types and formats ---- */

static void say_one_of(struct attention *a, const char *settings, struct dice *dice) {
    char chosen[512];
    setting_choose(settings, setting_roll, dice, chosen, sizeof chosen);
    attention_say(a, chosen);
}

/* V's attributes by the names of K's. */
static void say_of_values(struct attention *a, const char *settings) {
    char text[96];
    for (struct setting setting; setting_next(&settings, &setting);) {
        snprintf(text, sizeof text, "value_%.40s=%.40s", setting.name, setting.value);
        attention_say(a, text);
    }
}

/* Groups that do not divide a row are all of it; odd rows have no nibbles, short ones no blocks. */
static void mend_format(int64_t dim, int64_t *bits, int64_t *group, DLDataType *T2,
                        const char **blocks) {
    int64_t multiple = *bits == 4 ? 2 : 1;
    if (*group <= 0 || dim % *group != 0 || *group % multiple != 0)
        *group = dim;
    if ((*bits == 4 && dim % 2 != 0) || (*blocks != NULL && dim % 32 != 0)) {
        *bits = 0, *blocks = NULL;
        *T2 = (DLDataType){kDLFloat, 32, 1};
    }
}

/* ---- Geometry ---- */

enum kind { DECODE, CHUNK, PREFILL, MIXED, LONG, KINDS };

static const char *const kind_names[] = {"decode", "chunks", "prefill", "mixed lengths",
                                         "long caches"};

#define FLOATS "{float32|float16|bfloat16}"
#define DIMS   "{64|64|128|128|80|96|100|112|192|256|576|4|8|10|36|40|7}"
#define GROUPS "quant_group={8|8|16|32|64|128|2|4|6|10|-1|-1} "
#define FORMAT                                                                                     \
    "T3=" FLOATS " {T2=int4 quant_bit=4 " GROUPS "|T2=int4 quant_bit=4 " GROUPS                    \
    "|T2=int4 quant_bit=4 " GROUPS "|T2=int8 quant_bit=8 " GROUPS "|T2=int8 quant_bit=8 " GROUPS   \
    "|T2=int8 quant_bit=8 " GROUPS "|T2=uint8 cache_format={q8_0|q4_0|q5_1}|"                      \
    "T2={float8e4m3fn|float8e5m2}|T2=" FLOATS "|T2=" FLOATS "}"

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
    char value[256];
    say_one_of(a, "T1=" FLOATS " head_dim=" DIMS " " FORMAT, dice);
    mend_format(op->head_dim, &op->quant_bit, &op->quant_group, &op->T2, &op->cache_format);
    if (dice_once_in(dice, 4)) {
        setting_choose("head_dim={0|" DIMS "} " FORMAT, setting_roll, dice, value, sizeof value);
        op->value_differs = 1;
        say_of_values(a, value);
        mend_format(op->value_head_dim ? op->value_head_dim : op->head_dim, &op->value_quant_bit,
                    &op->value_quant_group, &op->value_T2, &op->value_cache_format);
    }
    if (a->which == KEY_VALUE_CACHE && dice_once_in(dice, 10)) {
        attention_say(a, "T1=int8 T2=int8 value_T2=int8 quant_bit=0 value_quant_bit=0");
        attention_say(a, "cache_format=- value_cache_format=-");
    }
}

static void choose_place(struct attention *a, struct dice *dice) {
    static const char *const layouts[] = {
        "cache_layout={0|1}", "{cache_layout={0|1|2|3}|cache_mode=1 cache_layout={0|1|2|3|4}}"};
    a->op.dynamic_batching = (int32_t)dice_range(dice, 0, 1);
    say_one_of(a, layouts[a->op.dynamic_batching], dice);
    say_one_of(a,
               "{num_layer=1|num_layer=2 layer_idx={0|1}|num_layer=3 layer_idx={0|1|2}} "
               "page_size={1|3|16|128} spare_batch={0|1} spare_rows={0|1|5} share_prefix={0|0|1} "
               "decoding_rank={0|1} max_slack={0|0|17}",
               dice);
    a->spread = dice_once_in(dice, 3) && a->op.cache_layout < 4 ? SPREAD : DENSE;
}

static void choose_mask_shape(struct attention *a, struct dice *dice) {
    say_one_of(a,
               a->op.dynamic_batching ? "mask={2|3} mask_padding={0|1|13}"
                                      : "mask={2|3|4} mask_padding={0|1|13} mask_one_batch={0|1}",
               dice);
}

static void choose_sinks(struct attention *a, struct dice *dice) {
    say_one_of(a, "sinks=1 sinks_are_activations={0|1}", dice);
}

static void choose_alibi(struct attention *a, struct dice *dice) {
    say_one_of(a, "is_alibi=1 alibi_scale={0|0|0|0.5} alibi_first={0|1|2|3}", dice);
    if (dice_once_in(dice, 3))
        a->op.alibi_heads = a->op.num_heads + a->op.alibi_first + 1;
    else
        a->op.alibi_first = 0;
}

static void choose_scores(struct attention *a, struct dice *dice) {
    say_one_of(a,
               "is_causal={0|1|1|1} softmax_scale={0|0|0|0|0|0.13} softcap={0|0|0|3} "
               "left_window_size={-1|-1|-1|{0|1|6|63|4095}} math={-|-|f32|f32|fast} "
               "partial={0|0|0|0|0|1} empty_is_nan={0|0|1} query_size={1|1|3|6}",
               dice);
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

/* Plan for `threads` and run on them; NULL when either failed. */
static kvmill_plan *plan_and_run(const struct attention *a, kvmill_plan_options options,
                                 int threads, struct dice *dice) {
    kvmill_plan *plan;
    kvmill_error error;
    options.threads = dice_once_in(dice, 4) ? (int)dice_range(dice, 1, 8) : threads;
    kvmill_status status = attention_plan(a, &options, &plan, &error);
    if (status == KVMILL_OK) {
        seen.threads[threads]++;
        status = attention_run_fenced(a, plan, threads, dice, &error);
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

/* By the number of an element. */
static const char *const type_names[] = {[0] = "float32",
                                         [KVMILL_F32] = "float32",
                                         [KVMILL_F16] = "float16",
                                         [KVMILL_BF16] = "bfloat16",
                                         [KVMILL_I8] = "int8",
                                         [KVMILL_I4] = "int4",
                                         [KVMILL_Q8_0] = "uint8",
                                         [KVMILL_Q4_0] = "uint8",
                                         [KVMILL_Q5_1] = "uint8",
                                         [KVMILL_E4M3] = "float8e4m3fn",
                                         [KVMILL_E5M2] = "float8e5m2"};

static void describe_format(const struct kvmill_format *format, bool raw, char text[160]) {
    int element = format->element, bits = element == KVMILL_I8 ? 8 : element == KVMILL_I4 ? 4 : 0;
    snprintf(text, 160, "head_dim=%d T2=%s T3=%s quant_bit=%d quant_group=%d cache_format=%s",
             (int)format->dim, type_names[element], type_names[format->scale], raw ? 0 : bits,
             (int)format->quant_group,
             element == KVMILL_Q8_0   ? "q8_0"
             : element == KVMILL_Q4_0 ? "q4_0"
             : element == KVMILL_Q5_1 ? "q5_1"
                                      : "-");
}

static bool is_same_format(const struct kvmill_format *a, const struct kvmill_format *b) {
    return a->element == b->element && a->dim == b->dim && a->scale == b->scale &&
           a->quant_group == b->quant_group;
}

static void set_formats(struct attention *a, int activation, const struct kvmill_format *key,
                        const struct kvmill_format *value, struct dice *dice) {
    char text[160];
    a->op.T1 = setting_type(type_names[activation]);
    describe_format(key, activation == KVMILL_I8, text);
    attention_say(a, text);
    if (is_same_format(key, value) && !dice_once_in(dice, 6))
        return;
    describe_format(value, activation == KVMILL_I8, text);
    a->op.value_differs = 1;
    say_of_values(a, text);
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
    whole->op.T1 = (DLDataType){kDLFloat, 32, 1};
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
