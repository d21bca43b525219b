/* SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "common.h"
#include "flow_step.h"
#include "settings.h"

/* ---- By settings ---- */

static const char *word_of(const char *value) {
    static const char *const words[] = {"kv_head", "query_head",  "request",     "logical",
                                        "score",   "incremental", "on_complete", "page",
                                        "head",    "bfloat16"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(words[i], value) == 0)
            return words[i];
    bail_out("a step of a flow does not know %s", value);
}

static void set_one(struct flow_step *step, const struct setting *setting) {
#define PAGES(NAME) WANTED(kvmill_flow_select, NAME)
    static const struct wanted_setting select[] = {
        PAGES(topk_val),          PAGES(reserved_bos), PAGES(reserved_eos), PAGES(ratio_numerator),
        PAGES(ratio_denominator), PAGES(cap),          PAGES(dense_below),  {.name = NULL}};
    static const struct wanted_setting blocks[] = {WANTED(struct flow_step, block_size),
                                                   {.name = NULL}};
    struct attention *a = &step->attention;
    if (strcmp(setting->name, "start") == 0)
        a->sequences = setting_integers(setting->value, a->start, MOST_SEQUENCES);
    else if (strcmp(setting->name, "tokens") == 0)
        setting_integers(setting->value, a->tokens, MOST_SEQUENCES);
    else if (strcmp(setting->name, "topk") == 0)
        step->has_topk = setting_integers(setting->value, step->topk, MOST_SEQUENCES) > 0;
    else if (strcmp(setting->name, "scope") == 0)
        step->select.scope = word_of(setting->value);
    else if (strcmp(setting->name, "order") == 0)
        step->select.order = word_of(setting->value);
    else if (strcmp(setting->name, "summary") == 0)
        step->summary = word_of(setting->value);
    else if (strcmp(setting->name, "field_layout") == 0)
        step->field_layout = word_of(setting->value);
    else if (strcmp(setting->name, "temporaries") == 0)
        step->temporaries = word_of(setting->value);
    else if (strcmp(setting->name, "field") == 0)
        step->field_type = setting_type(setting->value);
    else if (strcmp(setting->name, "skipped") == 0)
        step->skipped = true;
    else if (strcmp(setting->name, "sinks") == 0)
        a->has_sinks = true;
    else if (!setting_want(setting, select, &step->select) &&
             !setting_want(setting, blocks, step) &&
             !setting_apply(setting, &kvmill_cache_attention_attributes, &a->op))
        bail_out("a step of a flow has no %s", setting->name);
}

void flow_step_set(struct flow_step *step, const char *settings) {
    kvmill_cache_attention *op = &step->attention.op;
    *step = (struct flow_step){.field_type = f32, .select = {.topk_val = 3, .reserved_eos = 1}};
    kvmill_cache_attention_init(op, sizeof *op);
    op->dynamic_batching = op->cache_mode = 1;
    op->num_heads = 4;
    op->num_kv_heads = 2;
    op->head_dim = 32;
    op->page_size = 16;
    op->cache_layout = 3;
    op->T1 = op->T2 = op->T3 = f32;
    for (struct setting setting; setting_next(&settings, &setting);)
        set_one(step, &setting);
}

/* ---- By dice ---- */

/* What a cache may hold, for which activations and fields. */
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

static const int64_t head_counts[][2] = {{32, 8}, {9, 3}, {8, 8}, {5, 1}, {6, 2}, {71, 1}, {4, 2}};
static const int64_t dims[] = {32, 64, 80, 96, 112, 128, 256};
static const int64_t page_sizes[] = {1, 5, 8, 16, 32, 64, 128};
static const char *const scopes[] = {"kv_head", "query_head", "request"};

#define ANY(LIST, NUMBER) ((LIST)[(NUMBER) % (int64_t)COUNT(LIST)])

/* V of another size. */
static void set_value(kvmill_cache_attention *op, int64_t dim) {
    op->value_differs = 1;
    op->value_head_dim = dim;
    op->value_quant_bit = op->quant_bit;
    op->value_quant_group = op->quant_bit ? op->quant_group : 0;
    op->value_T2 = op->T2;
    op->value_T3 = op->T3;
    op->value_cache_format = op->cache_format;
}

/* Blocks are of 32. */
static int64_t dim_for(const kvmill_cache_attention *op, int64_t number) {
    int64_t dim = ANY(dims, number);
    return op->cache_format != NULL ? (dim + 31) / 32 * 32 : dim;
}

static void choose_attention(struct flow_step *step, int64_t number, struct dice *dice) {
    kvmill_cache_attention *op = &step->attention.op;
    const char *format = ANY(formats, number);
    kvmill_cache_attention_init(op, sizeof *op);
    for (struct setting setting; setting_next(&format, &setting);)
        set_one(step, &setting);
    op->dynamic_batching = op->cache_mode = 1;
    op->num_heads = ANY(head_counts, number)[0];
    op->num_kv_heads = ANY(head_counts, number)[1];
    op->head_dim = dim_for(op, number / 2);
    op->page_size = ANY(page_sizes, dice_range(dice, 0, 6));
    op->cache_layout = number % 5;
    op->num_layer = dice_range(dice, 1, 2);
    op->layer_idx = dice_range(dice, 0, op->num_layer - 1);
    op->left_window_size = dice_once_in(dice, 3) ? dice_range(dice, 0, 6 * op->page_size - 1) : -1;
    op->softcap = dice_once_in(dice, 4) ? 3 : 0;
    op->partial = dice_once_in(dice, 3);
    op->is_alibi = dice_once_in(dice, 4);
    op->alibi_heads = dice_once_in(dice, 2) ? op->num_heads + 3 : 0;
    op->alibi_first = op->alibi_heads ? dice_range(dice, 0, 3) : 0;
    if (dice_once_in(dice, 5))
        set_value(op, dim_for(op, dice_range(dice, 0, 6)));
}

/* A divisor of the page, often without a word. */
static int64_t choose_block(int64_t page_size, struct dice *dice) {
    int64_t block = dice_range(dice, 1, page_size);
    while (page_size % block != 0)
        block++;
    return dice_once_in(dice, 2) ? 0 : page_size > 8 && block < 4 ? 4 : block;
}

static void choose_select(struct flow_step *step, int64_t number, struct dice *dice) {
    kvmill_flow_select *select = &step->select;
    bool by_score = step->attention.op.left_window_size < 0 && dice_once_in(dice, 2);
    select->topk_val = dice_once_in(dice, 5) ? 0 : dice_range(dice, 1, 4);
    select->reserved_bos = dice_range(dice, 0, 2);
    select->reserved_eos = dice_range(dice, 1, 2);
    select->ratio_numerator = dice_range(dice, 0, 1);
    select->ratio_denominator = 3;
    select->cap = dice_once_in(dice, 4) ? dice_range(dice, 1, 6) : 0;
    select->dense_below = dice_once_in(dice, 3) ? 9 * step->attention.op.page_size : 0;
    select->order = by_score ? "score" : "logical";
    select->scope = ANY(scopes, number);
    step->few_kinds = dice_once_in(dice, 2) ? 3 : 0;
    step->skipped = number % 8 == 5;
}

/* Pages' ends, one page, none, and many. */
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
    static const char *const layouts[] = {NULL, "page", "head"};
    *step = (struct flow_step){.field_layout = layouts[dice_range(dice, 0, 2)]};
    choose_attention(step, number, dice);
    step->block_size = choose_block(a->op.page_size, dice);
    choose_select(step, number, dice);
    a->sequences = a->op.num_heads * a->op.head_dim > 3000 ? 2 : dice_range(dice, 1, 5);
    a->has_sinks = dice_once_in(dice, 3);
    a->spread = dice_once_in(dice, 3) && a->op.cache_layout < 4 ? SPREAD : DENSE;
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
