/* SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "common.h"
#include "flow_step.h"

/* ---- Steps from settings ---- */

#define AS(name, member) SETTING_OF(struct flow_step, name, member)
#define SELECT(member)   AS(#member, select.member)
#define OF(member)       AS(#member, member)
/* clang-format off */
static const struct wanted_setting wanted[] = {
    SELECT(topk_val), SELECT(reserved_bos), SELECT(reserved_eos), SELECT(ratio_numerator),
    SELECT(ratio_denominator), SELECT(cap), SELECT(dense_below), SELECT(order), SELECT(scope),
    OF(summary), OF(field_layout), OF(temporaries), AS("field", field_type), OF(block_size),
    OF(skipped), OF(few_kinds), OF(topk), AS("sinks", attention.has_sinks),
    AS("tokens", attention.tokens), AS("start", attention.start), {.name = NULL}
};
/* clang-format on */
#undef AS
#undef SELECT
#undef OF

static bool say_one(void *to, const struct setting *setting) {
    struct flow_step *step = to;
    int count = setting_want(setting, wanted, step);
    if (strcmp(setting->name, "start") == 0)
        step->attention.sequences = count;
    if (strcmp(setting->name, "topk") == 0)
        step->has_topk = count > 0;
    return count >= 0 ||
           setting_apply(setting, &kvmill_cache_attention_attributes, &step->attention.op);
}

static void begin(struct flow_step *step) {
    *step = (struct flow_step){.attention.sequences = 0};
    kvmill_cache_attention_init(&step->attention.op, sizeof step->attention.op);
    step->attention.op.dynamic_batching = step->attention.op.cache_mode = 1;
}

void flow_step_set(struct flow_step *step, const char *settings) {
    begin(step);
    setting_say("num_heads=4 num_kv_heads=2 head_dim=32 page_size=16 cache_layout=3 T1=float32 "
                "T2=float32 T3=float32 field=float32 topk_val=3 reserved_eos=1",
                NULL, step, say_one);
    setting_say(settings, NULL, step, say_one);
}

/* ---- Random steps ---- */

/* Formats of a cache, with the activations and fields that they are combined with. */
static const char *const formats[] = {
    "T1=float32 T2=float32 T3=float32 field=float32",
    "T1=float16 T2=float16 T3=float16 field=float16",
    "T1=bfloat16 T2=bfloat16 T3=float32 field=bfloat16",
    "T1=float16 T2=int8 T3=float16 quant_bit=8 quant_group=8 field=bfloat16",
    "T1=float32 T2=int4 T3=float16 quant_bit=4 quant_group=16 field=float16",
    "T1=float16 T2=uint8 T3=float32 cache_format=q8_0 field=float32",
    "T1=bfloat16 T2=uint8 T3=float32 cache_format=q4_0 field=float16",
    "T1=float32 T2=float16 T3=float32 field=bfloat16",
    "T1=bfloat16 T2=int8 T3=float32 quant_bit=8 quant_group=16 field=float32"};

static const char *const head_counts[] = {
    "num_heads=32 num_kv_heads=8", "num_heads=9 num_kv_heads=3", "num_heads=8 num_kv_heads=8",
    "num_heads=5 num_kv_heads=1",  "num_heads=6 num_kv_heads=2", "num_heads=71 num_kv_heads=1",
    "num_heads=4 num_kv_heads=2"};
static const char *const scopes[] = {"scope=kv_head", "scope=query_head", "scope=request"};
static const int64_t dims[] = {32, 64, 80, 96, 112, 128, 256};

static const char all_else[] =
    "page_size={1|5|8|16|32|64|128} {num_layer=1|num_layer=2 layer_idx={0|1}} softcap={0|0|0|3} "
    "partial={0|0|1} is_alibi={0|0|0|1} sinks={0|0|1} few_kinds={0|3} field_layout={-|page|head} "
    "topk_val={0|1|2|3|4} reserved_bos={0|1|2} reserved_eos={1|2} ratio_numerator={0|1} "
    "ratio_denominator=3 cap={0|0|0|{1|2|3|4|5|6}} order={logical|score}";

#define ANY(LIST, NUMBER) ((LIST)[(NUMBER) % (int64_t)COUNT(LIST)])

/* Gives V another size. */
static void set_value(kvmill_cache_attention *op, int64_t dim) {
    op->value_differs = 1;
    op->value_head_dim = dim;
    op->value_quant_bit = op->quant_bit;
    op->value_quant_group = op->quant_bit ? op->quant_group : 0;
    op->value_T2 = op->T2;
    op->value_T3 = op->T3;
    op->value_cache_format = is_transposed(op->cache_format) ? NULL : op->cache_format;
}

/* Whether to transpose keys: every other time that it is possible. */
static bool wants_transposed(const kvmill_cache_attention *op, int64_t number) {
    bool floats = op->cache_format == NULL && op->quant_bit == 0;
    return floats && op->cache_layout >= 3 && number / 5 % 2 != 0;
}

/* Returns a dim; blocks need multiples of 32. */
static int64_t dim_for(const kvmill_cache_attention *op, int64_t number) {
    int64_t dim = ANY(dims, number);
    bool blocks = op->cache_format != NULL && !is_transposed(op->cache_format);
    return blocks ? (dim + 31) / 32 * 32 : dim;
}

static void choose_attention(kvmill_cache_attention *op, int64_t number, struct dice *dice) {
    op->head_dim = dim_for(op, number / 2);
    op->cache_layout = number % 5;
    if (wants_transposed(op, number))
        op->cache_format = "transposed";
    op->left_window_size = dice_once_in(dice, 3) ? dice_range(dice, 0, 6 * op->page_size - 1) : -1;
    op->alibi_heads = dice_once_in(dice, 2) ? op->num_heads + 3 : 0;
    op->alibi_first = op->alibi_heads ? dice_range(dice, 0, 3) : 0;
    if (dice_once_in(dice, 5))
        set_value(op, dim_for(op, dice_range(dice, 0, 6)));
}

/* Returns a divisor of the page size for three of each six numbers, so that cases with and without
   packs have blocks; 0 for the others. */
static int64_t choose_block(int64_t page_size, int64_t number, struct dice *dice) {
    int64_t block = dice_range(dice, 1, page_size);
    while (page_size % block != 0)
        block++;
    return number / 3 % 2 != 0 ? 0 : page_size > 8 && block < 4 ? 4 : block;
}

/* Returns a length: around the ends of pages, one page, zero, or many pages. */
static int64_t choose_length(int64_t page_size, struct dice *dice) {
    int64_t most = page_size < 32 ? 24 : 12, pages = dice_range(dice, 2, most);
    switch (dice_range(dice, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return dice_range(dice, 1, page_size);
    case 2:
        return pages * page_size;
    case 3:
        return pages * page_size + 1;
    default:
        return pages * page_size - dice_range(dice, 0, page_size - 1);
    }
}

void flow_step_choose(struct flow_step *step, int64_t number, struct dice *dice) {
    struct attention *a = &step->attention;
    begin(step);
    setting_say(ANY(formats, number), NULL, step, say_one);
    setting_say(ANY(head_counts, number), NULL, step, say_one);
    setting_say(ANY(scopes, number), NULL, step, say_one);
    setting_say(all_else, dice, step, say_one);
    choose_attention(&a->op, number, dice);
    step->block_size = choose_block(a->op.page_size, number, dice);
    step->select.dense_below = dice_once_in(dice, 3) ? 9 * a->op.page_size : 0;
    if (a->op.left_window_size >= 0)
        step->select.order = "logical";
    if (dice_once_in(dice, 4)) {
        step->select.reserved_eos = 0;
        step->summary = "incremental";
    }
    step->skipped = number % 8 == 5;
    a->sequences = a->op.num_heads * a->op.head_dim > 3000 ? 2 : dice_range(dice, 1, 5);
    bool is_dense = a->op.cache_layout >= 4 || is_transposed(a->op.cache_format);
    a->spread = dice_once_in(dice, 3) && !is_dense ? SPREAD : DENSE;
    a->spare_rows = dice_range(dice, 0, 2 * a->op.page_size);
    for (int64_t b = 0; b < a->sequences; b++)
        a->start[b] = choose_length(a->op.page_size, dice);
}

void flow_step_choose_topk(struct flow_step *step, struct dice *dice) {
    step->has_topk = dice_once_in(dice, 2);
    step->select.ratio_numerator = step->has_topk ? 2 : step->select.ratio_numerator; /* of 3 */
    for (int64_t b = 0; b < step->attention.sequences; b++) {
        const int64_t any[] = {-1, 0, KVMILL_FLOW_ALL, dice_range(dice, 1, 6)};
        step->topk[b] = any[dice_range(dice, 0, 3)];
    }
}
