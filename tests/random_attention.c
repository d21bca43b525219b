/* SPDX-License-Identifier: Apache-2.0 */
#include "random_attention.h"

#include "attention_scenes.h"
#include "oracle/oracle_cache_attention.h"
#include "settings.h"

/* ---- Types and formats ---- */

/* Sets V's attributes, which have the names of K's in `settings`. */
static void say_of_values(struct attention *a, const char *settings) {
    char text[96];
    for (struct setting setting; setting_next(&settings, &setting);) {
        snprintf(text, sizeof text, "value_%.40s=%.40s", setting.name, setting.value);
        attention_say(a, text);
    }
}

/* Makes a format valid: a group that does not divide a row becomes the row; odd rows get no
   nibbles, and rows without whole blocks no blocks. */
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

const char *const random_kinds[KINDS] = {"decode", "chunks", "prefill", "mixed lengths",
                                         "long caches"};

#define FLOATS "{float32|float16|bfloat16}"
#define DIMS   "{64|64|128|128|80|96|100|112|192|256|576|4|8|10|36|40|7}"
#define GROUPS "quant_group={8|8|16|32|64|128|2|4|6|10|-1|-1} "
#define FORMAT                                                                                     \
    "T3=" FLOATS " {T2=int4 quant_bit=4 " GROUPS "|T2=int4 quant_bit=4 " GROUPS                    \
    "|T2=int4 quant_bit=4 " GROUPS "|T2=int8 quant_bit=8 " GROUPS "|T2=int8 quant_bit=8 " GROUPS   \
    "|T2=int8 quant_bit=8 " GROUPS                                                                 \
    "|T2=uint8 cache_format={q8_0|q4_0|q5_1|q4_1|q5_0|iq4_nl|q6_0|q8_kv}|"                         \
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
    attention_choose(a, "T1=" FLOATS " head_dim=" DIMS " " FORMAT, dice);
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

/* Chooses V as a view of K's rows: whole groups and blocks. */
static void choose_view(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    int64_t unit = op->cache_format != NULL ? 32 : op->quant_bit != 0 ? op->quant_group : 1;
    int64_t units = op->head_dim / unit;
    attention_say(a, "value_T2=none value_T3=none value_quant_bit=0 value_quant_group=0 "
                     "value_cache_format=-");
    op->value_differs = op->value_view = 1;
    op->value_head_dim = unit * PICK(dice, units, (units + 1) / 2, (units * 8 + 8) / 9);
}

static void choose_place(struct attention *a, struct dice *dice) {
    static const char *const layouts[] = {
        "cache_layout={0|1}", "{cache_layout={0|1|2|3}|cache_mode=1 cache_layout={0|1|2|3|4}}"};
    a->op.dynamic_batching = (int32_t)dice_range(dice, 0, 1);
    attention_choose(a, layouts[a->op.dynamic_batching], dice);
    attention_choose(
        a,
        "{num_layer=1|num_layer=2 layer_idx={0|1}|num_layer=3 layer_idx={0|1|2}} "
        "page_size={1|3|16|128} spare_batch={0|1} spare_rows={0|1|5} share_prefix={0|0|1} "
        "lists_of_heads={0|0|1} ring={0|0|0|{1|2|7|16|40|64|130|300}} "
        "decoding_rank={0|1} max_slack={0|0|17}",
        dice);
    a->spread = dice_once_in(dice, 3) && a->op.cache_layout < 4 ? SPREAD : DENSE;
}

/* Places tiles: rows of a head are adjacent, and pages are whole tiles. */
static void set_places_of_tiles(struct attention *a, struct dice *dice) {
    a->op.cache_layout = !a->op.dynamic_batching                          ? 1
                         : a->op.cache_mode == 1 && dice_once_in(dice, 2) ? 4
                                                                          : 3;
    a->op.page_size = PICK(dice, 16, 16, 48, 128);
    a->spread = DENSE;
}

/* Places transposed pages, which have rows of one head. */
static void set_places_of_transposed(struct attention *a, int64_t page_size, struct dice *dice) {
    a->op.dynamic_batching = a->op.cache_mode = 1;
    a->op.cache_layout = PICK(dice, 3, 4);
    a->op.page_size = page_size;
    a->spread = DENSE;
}

static bool can_be_transposed(const kvmill_cache_attention *op) {
    return op->cache_format == NULL && op->quant_bit == 0 && op->T2.bits >= 16;
}

static bool can_be_tiles(int64_t dim, int64_t bits, int64_t group) {
    return bits > 0 && dim % (128 / bits) == 0 && group % (32 / bits) == 0;
}

static void choose_overflow(kvmill_cache_attention *op, struct dice *dice) {
    if (op->quant_bit != 0 && dice_once_in(dice, 2))
        op->scale_overflow = dice_once_in(dice, 2) ? "saturate" : "infinite";
}

/* Sometimes chooses tiles, if the cache can have them. */
static void choose_order(struct attention *a, struct dice *dice) {
    kvmill_cache_attention *op = &a->op;
    int64_t value_dim = op->value_head_dim ? op->value_head_dim : op->head_dim;
    choose_overflow(op, dice);
    if (!dice_once_in(dice, 3))
        return;
    if (can_be_transposed(op)) {
        op->cache_format = "transposed";
        set_places_of_transposed(a, PICK(dice, 1, 5, 16, 48, 128), dice);
        return;
    }
    if (op->cache_format == NULL && can_be_tiles(op->head_dim, op->quant_bit, op->quant_group))
        op->cache_format = "tiles";
    if (op->value_cache_format == NULL && op->value_differs &&
        can_be_tiles(value_dim, op->value_quant_bit, op->value_quant_group))
        op->value_cache_format = "tiles";
    if (has_tiles(a))
        set_places_of_tiles(a, dice);
}

static void choose_mask_shape(struct attention *a, struct dice *dice) {
    attention_choose(a,
                     a->op.dynamic_batching
                         ? "mask={2|3} mask_padding={0|1|13}"
                         : "mask={2|3|4} mask_padding={0|1|13} mask_one_batch={0|1}",
                     dice);
}

static void choose_sinks(struct attention *a, struct dice *dice) {
    attention_choose(a, "sinks=1 sinks_are_activations={0|1}", dice);
}

static void choose_alibi(struct attention *a, struct dice *dice) {
    attention_choose(a, "is_alibi=1 alibi_scale={0|0|0|0.5} alibi_first={0|1|2|3}", dice);
    if (dice_once_in(dice, 3))
        a->op.alibi_heads = a->op.num_heads + a->op.alibi_first + 1;
    else
        a->op.alibi_first = 0;
}

static void choose_scores(struct attention *a, struct dice *dice) {
    attention_choose(a,
                     "is_causal={0|1|1|1} softmax_scale={0|0|0|0|0|0.13} softcap={0|0|0|3} "
                     "left_window_size={-1|-1|-1|{0|1|6|63|4095}} math={-|-|f32|near|fast} "
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

/* Returns the multiplications of the oracle. */
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

/* Makes the problem smaller until the oracle is fast. */
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

void random_lengths(struct attention *a, enum kind kind, struct dice *dice) {
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
    make_affordable(a);
}

void random_attention(struct attention *a, enum kind kind, struct dice *dice) {
    a->which =
        (enum cache_op)PICK(dice, KEY_VALUE_CACHE, MULTI_HEAD_ATTENTION, MULTI_HEAD_CACHE_ATTENTION,
                            MULTI_HEAD_CACHE_ATTENTION, MULTI_HEAD_CACHE_ATTENTION);
    kvmill_cache_attention_init(&a->op, sizeof a->op);
    choose_place(a, dice);
    choose_types(a, dice);
    if (a->which == MULTI_HEAD_CACHE_ATTENTION && dice_once_in(dice, 6))
        choose_view(a, dice);
    else if (a->which != MULTI_HEAD_ATTENTION)
        choose_order(a, dice);
    choose_heads(a, dice);
    if (a->which != KEY_VALUE_CACHE)
        choose_scores(a, dice);
    random_lengths(a, kind, dice);
}

/* ---- Problems for kernels ---- */

/* Names of types by the number of the element. */
static const char *const type_names[] = {[0] = "float32",
                                         [KVMILL_F32] = "float32",
                                         [KVMILL_F16] = "float16",
                                         [KVMILL_BF16] = "bfloat16",
                                         [KVMILL_I8] = "int8",
                                         [KVMILL_I4] = "int4",
                                         [KVMILL_I8KT] = "int8",
                                         [KVMILL_I4KT] = "int4",
                                         [KVMILL_I8VT] = "int8",
                                         [KVMILL_I4VT] = "int4",
                                         [KVMILL_E4M3] = "float8e4m3fn",
                                         [KVMILL_E5M2] = "float8e5m2",
                                         [KVMILL_F32T] = "float32",
                                         [KVMILL_F16T] = "float16",
                                         [KVMILL_BF16T] = "bfloat16"};

static void describe_format(const struct kvmill_format *format, bool raw, char text[160]) {
    int element = format->element;
    const char *word = oracle_word_of_blocks(oracle_of_element(element));
    int bits = oracle_of_element(element) == ORACLE_I8   ? 8
               : oracle_of_element(element) == ORACLE_I4 ? 4
                                                         : 0;
    snprintf(text, 160, "head_dim=%d T2=%s T3=%s quant_bit=%d quant_group=%d cache_format=%s",
             (int)format->dim, word != NULL ? "uint8" : type_names[element],
             type_names[format->scale], raw ? 0 : bits, (int)format->quant_group,
             word != NULL                       ? word
             : oracle_is_transposed(format)     ? "transposed"
             : oracle_tiles_of(format).rows > 0 ? "tiles"
                                                : "-");
}

static bool is_same_format(const struct kvmill_format *a, const struct kvmill_format *b) {
    return a->element == b->element && a->dim == b->dim && a->scale == b->scale &&
           a->quant_group == b->quant_group;
}

/* Returns the format of V for a transposed K. */
static struct kvmill_format without_pages(const struct kvmill_format *format) {
    struct kvmill_format plain = *format;
    if (oracle_is_transposed(format)) {
        plain.element += KVMILL_F32 - KVMILL_F32T;
        plain.quant_group = 0;
    }
    return plain;
}

static void set_formats(struct attention *a, int activation, const struct kvmill_format *key,
                        const struct kvmill_format *value, struct dice *dice) {
    const struct kvmill_format of_key = without_pages(key), of_value = without_pages(value);
    char text[160];
    a->op.T1 = setting_type(type_names[activation]);
    describe_format(key, activation == KVMILL_I8, text);
    attention_say(a, text);
    if (oracle_is_transposed(key))
        set_places_of_transposed(a, key->quant_group, dice);
    else if (oracle_tiles_of(key).rows > 0 || oracle_tiles_of(value).rows > 0)
        set_places_of_tiles(a, dice);
    if (is_same_format(&of_key, &of_value) && !dice_once_in(dice, 6))
        return;
    describe_format(&of_value, activation == KVMILL_I8, text);
    a->op.value_differs = 1;
    say_of_values(a, text);
}

/* Chooses heads and tokens: a call's rows are the query heads of one token, or fewer heads of more
   tokens. */
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
    a->op.math = shape->math == KVMILL_MATH_FAST   ? "fast"
                 : shape->math == KVMILL_MATH_NEAR ? "near"
                                                   : NULL;
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

void random_fit(struct attention *a, const struct kvmill_kernel *kernel, struct dice *dice) {
    kvmill_cache_attention_init(&a->op, sizeof a->op);
    choose_place(a, dice);
    if (kernel->family == KVMILL_ATTEND)
        fit_attend(a, kernel->shape, dice);
    else
        fit_convert(a, kernel->shape, dice);
}
