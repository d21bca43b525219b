/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/flow.h"
#include "tap.h"

static const DLDataType int64 = {kDLInt, 64, 1}, int32 = {kDLInt, 32, 1},
                        float32 = {kDLFloat, 32, 1};

static void *take(int64_t count, size_t bytes) {
    void *memory = calloc((size_t)count + 1, bytes);
    if (memory == NULL)
        bail_out("out of memory");
    return memory;
}

/* ---- Any step ---- */

/* What a cache may hold, for which activations and fields. */
static const struct format {
    DLDataType activation, cache, scale, field;
    int64_t bits, group;
    const char *blocks;
} formats[] = {
    {{kDLFloat, 32, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 0, 0, NULL},
    {{kDLFloat, 16, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, 0, 0, NULL},
    {{kDLBfloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, 0, 0, NULL},
    {{kDLFloat, 16, 1}, {kDLInt, 8, 1}, {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, 8, 8, NULL},
    {{kDLFloat, 32, 1}, {kDLInt, 4, 1}, {kDLFloat, 16, 1}, {kDLFloat, 16, 1}, 4, 16, NULL},
    {{kDLFloat, 16, 1}, {kDLUInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 0, 0, "q8_0"},
    {{kDLBfloat, 16, 1}, {kDLUInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 16, 1}, 0, 0, "q4_0"},
    {{kDLFloat, 32, 1}, {kDLFloat, 16, 1}, {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, 0, 0, NULL},
    {{kDLBfloat, 16, 1}, {kDLInt, 8, 1}, {kDLFloat, 32, 1}, {kDLFloat, 32, 1}, 8, 16, NULL},
};

static const int64_t head_counts[][2] = {{32, 8}, {9, 3}, {8, 8}, {5, 1}, {6, 2}, {71, 1}, {4, 2}};
static const int64_t dims[] = {32, 64, 80, 96, 112, 128, 256};
static const int64_t page_sizes[] = {1, 5, 8, 16, 32, 64, 128};
static const char *const scopes[] = {"kv_head", "query_head", "request"};

#define COUNT(LIST) ((int64_t)(sizeof(LIST) / sizeof *(LIST)))

static void set_format(kvmill_cache_attention *op, const struct format *format) {
    op->T1 = format->activation;
    op->T2 = format->cache;
    op->T3 = format->scale;
    op->quant_bit = format->bits;
    op->quant_group = format->bits ? format->group : 8;
    op->cache_format = format->blocks;
}

/* V of another size. */
static void set_value(kvmill_cache_attention *op, const struct format *format, int64_t dim) {
    op->value_differs = 1;
    op->value_head_dim = dim;
    op->value_quant_bit = format->bits;
    op->value_quant_group = format->group;
    op->value_T2 = format->cache;
    op->value_T3 = format->scale;
    op->value_cache_format = format->blocks;
}

/* Blocks are of 32. */
static int64_t dim_for(const struct format *format, int64_t number) {
    int64_t dim = dims[number % COUNT(dims)];
    return format->blocks != NULL ? (dim + 31) / 32 * 32 : dim;
}

static void choose_attention(kvmill_cache_attention *op, int64_t number, struct dice *dice) {
    const struct format *format = &formats[number % COUNT(formats)];
    kvmill_cache_attention_init(op, sizeof *op);
    set_format(op, format);
    op->dynamic_batching = op->cache_mode = 1;
    op->num_heads = head_counts[number % COUNT(head_counts)][0];
    op->num_kv_heads = head_counts[number % COUNT(head_counts)][1];
    op->head_dim = dim_for(format, number / 2);
    op->page_size = page_sizes[dice_range(dice, 0, COUNT(page_sizes) - 1)];
    op->cache_layout = number % 5;
    op->num_layer = dice_range(dice, 1, 2);
    op->layer_idx = dice_range(dice, 0, op->num_layer - 1);
    op->left_window_size = dice_once_in(dice, 3) ? dice_range(dice, 0, 6 * op->page_size - 1) : -1;
    op->softcap = dice_once_in(dice, 4) ? 3 : 0;
    op->partial = dice_once_in(dice, 3);
    if (dice_once_in(dice, 5))
        set_value(op, format, dim_for(format, dice_range(dice, 0, COUNT(dims) - 1)));
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
    select->scope = scopes[number % COUNT(scopes)];
    step->few_kinds = dice_once_in(dice, 2) ? 3 : 0;
    step->skipped = dice_once_in(dice, 12);
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
    *step = (struct flow_step){.field_type = formats[number % COUNT(formats)].field};
    choose_attention(&a->op, number, dice);
    choose_select(step, number, dice);
    a->sequences = a->op.num_heads * a->op.head_dim > 3000 ? 2 : dice_range(dice, 1, 5);
    a->has_sinks = dice_once_in(dice, 3);
    a->spread = dice_once_in(dice, 3) && a->op.cache_layout < 4 ? SPREAD : DENSE;
    a->spare_rows = dice_range(dice, 0, 2 * a->op.page_size);
    for (int64_t b = 0; b < a->sequences; b++)
        a->start[b] = choose_length(a->op.page_size, dice);
}

/* ---- Sizes ---- */

static int64_t page_size(const struct flow_step *step) {
    return step->attention.op.page_size;
}

static int64_t heads(const struct flow_step *step) {
    return step->attention.op.num_heads;
}

static int64_t kv_heads(const struct flow_step *step) {
    int64_t given = step->attention.op.num_kv_heads;
    return given ? given : heads(step);
}

static int64_t value_dim(const struct flow_step *step) {
    const kvmill_cache_attention *op = &step->attention.op;
    return op->value_differs && op->value_head_dim ? op->value_head_dim : op->head_dim;
}

int64_t flow_step_pages(const struct flow_step *step, int64_t request) {
    return (step->length[request] + page_size(step) - 1) / page_size(step);
}

static int64_t cache_pages(const struct flow_step *step) {
    return step->attention.capacity / page_size(step);
}

static int64_t rows_for(const struct flow_step *step) {
    const char *scope = step->select.scope ? step->select.scope : "kv_head";
    return strcmp(scope, "request") == 0 ? 1 : scope[0] == 'q' ? heads(step) : kv_heads(step);
}

/* The row of a request that a query head attends along, and the kv head it belongs to. */
static int64_t row_of_head(const struct flow_step *step, int64_t head) {
    return head * step->rows / heads(step);
}

static int64_t kv_head_of(const struct flow_step *step, int64_t head) {
    return head * kv_heads(step) / heads(step);
}

/* ---- The flow ---- */

static const kvmill_flow_op cache_ops[] = {
    {.op = "Max", .inputs = {"k"}, .output = "kmax", .dims = 2},
    {.op = "Min", .inputs = {"k"}, .output = "kmin", .dims = 2},
};

static const kvmill_flow_op index_ops[] = {
    {.op = "Multiply", .inputs = {"q", "kmax"}, .output = "a"},
    {.op = "Multiply", .inputs = {"q", "kmin"}, .output = "b"},
    {.op = "Maximum", .inputs = {"a", "b"}, .output = "c"},
    {.op = "Sum", .inputs = {"c"}, .output = "d", .dims = 4},
    {.op = "Max", .inputs = {"d"}, .output = "e", .dims = 2},
    {.op = "topK", .inputs = {"e"}},
};

static void set_flow(struct flow_step *step) {
    static const char *const names[FLOW_STEP_FIELDS] = {"kmax", "kmin"};
    for (int i = 0; i < FLOW_STEP_FIELDS; i++)
        step->fields[i] =
            (kvmill_flow_field){names[i], 1, step->attention.op.head_dim, step->field_type};
    step->flow = (kvmill_flow){
        .struct_size = sizeof step->flow,
        .attention = &step->attention.op,
        .fields = step->fields,
        .field_count = FLOW_STEP_FIELDS,
        .cache = cache_ops,
        .cache_count = sizeof cache_ops / sizeof *cache_ops,
        .index = index_ops,
        .index_count = sizeof index_ops / sizeof *index_ops,
        .select = step->select,
        .summary = step->summary,
        .layers_skip = &step->attention.op.layer_idx,
        .layers_skip_count = step->skipped,
    };
}

/* ---- Tensors ---- */

struct fenced_tensor *flow_step_tensor(struct flow_step *step, int which) {
    bool own = which >= TENSORS || step->tensor[which].fence.pages != NULL;
    return own ? &step->tensor[which] : &step->attention.tensor[which];
}

static bool is_open(const struct fenced_tensor *tensor) {
    return tensor->fence.pages != NULL;
}

void *flow_step_data(struct flow_step *step, int which) {
    const struct fenced_tensor *tensor = flow_step_tensor(step, which);
    return (unsigned char *)tensor->dl.data + tensor->dl.byte_offset;
}

/* Integers are at multiples of their size, other than that anywhere. */
static void open_numbers(struct flow_step *step, int which, DLDataType type, int64_t count,
                         struct dice *dice) {
    struct fenced_tensor *tensor = &step->tensor[which];
    tensor_open(tensor, type, 1, &count, NULL, dice);
    while ((uintptr_t)flow_step_data(step, which) % (type.bits / 8) != 0) {
        tensor_close(tensor);
        tensor_open(tensor, type, 1, &count, NULL, dice);
    }
}

static void open_int64s(struct flow_step *step, int which, int64_t count, const int64_t *numbers,
                        struct dice *dice) {
    open_numbers(step, which, int64, count, dice);
    memcpy(flow_step_data(step, which), numbers, (size_t)count * sizeof *numbers);
}

/* (B, H, dim), or without dim; heads may be apart. */
static void open_rows(struct flow_step *step, int which, DLDataType type, int64_t dim,
                      struct dice *dice) {
    int64_t apart = (dim ? dim : 1) + (dice_once_in(dice, 2) ? dice_range(dice, 0, 3) : 0);
    const int64_t shape[] = {step->attention.sequences, heads(step), dim};
    const int64_t strides[] = {heads(step) * apart + dice_range(dice, 0, 2), apart, 1};
    tensor_open(&step->tensor[which], type, dim ? 3 : 2, shape, strides, dice);
}

/* Where element i of head h of request b is in memory. */
static unsigned char *element_at(struct flow_step *step, int which, int64_t b, int64_t h,
                                 int64_t i) {
    const struct fenced_tensor *tensor = flow_step_tensor(step, which);
    int64_t number = b * tensor->strides[0] + h * tensor->strides[1] + i;
    return (unsigned char *)flow_step_data(step, which) + number * tensor->dl.dtype.bits / 8;
}

static void fill_query(struct flow_step *step, struct dice *dice) {
    enum oracle_type type = attention_type(step->attention.op.T1);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t h = 0; h < heads(step); h++)
            for (int64_t i = 0; i < step->attention.op.head_dim; i++)
                oracle_put(type, element_at(step, KVMILL_CACHE_ATTENTION_QUERY, b, h, i), 0,
                           (double)dice_range(dice, -3, 3));
}

static void open_scores(struct flow_step *step, struct dice *dice) {
    const kvmill_cache_attention *op = &step->attention.op;
    open_rows(step, KVMILL_CACHE_ATTENTION_QUERY, op->T1, op->head_dim, dice);
    open_rows(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, op->partial ? float32 : op->T1,
              value_dim(step), dice);
    if (op->partial)
        open_rows(step, KVMILL_CACHE_ATTENTION_LSE, float32, 0, dice);
    fill_query(step, dice);
}

/* ---- Requests ---- */

/* The numbers of pages follow from where the attention's are. */
int32_t *flow_step_page(struct flow_step *step, int64_t request, int64_t page) {
    return (int32_t *)flow_step_data(step, KVMILL_FLOW_PAGE_IDS) + step->indptr[request] + page;
}

static void fill_page_ids(struct flow_step *step) {
    const struct attention *a = &step->attention;
    const int64_t *table =
        (const int64_t *)(const void *)a->dense[KVMILL_CACHE_ATTENTION_CACHESTARTS];
    for (int64_t b = 0; b < a->sequences; b++)
        for (int64_t p = 0; p < flow_step_pages(step, b); p++)
            *flow_step_page(step, b, p) = (int32_t)(table[b * a->pages + p] / page_size(step));
}

static void set_limits(struct flow_step *step) {
    int64_t most = 0;
    for (int64_t b = 0; b < step->attention.sequences; b++)
        most = flow_step_pages(step, b) > most ? flow_step_pages(step, b) : most;
    step->limits = (kvmill_flow_limits){sizeof step->limits, step->attention.sequences, most,
                                        cache_pages(step)};
}

static void open_requests(struct flow_step *step, struct dice *dice) {
    const struct attention *a = &step->attention;
    for (int64_t b = 0; b < a->sequences; b++) {
        step->length[b] = a->start[b] + a->tokens[b];
        step->indptr[b + 1] = step->indptr[b] + flow_step_pages(step, b);
    }
    int64_t pages = step->indptr[a->sequences], rows = a->sequences * step->rows;
    open_int64s(step, KVMILL_FLOW_SEQ_LEN, a->sequences, step->length, dice);
    open_int64s(step, KVMILL_CACHE_ATTENTION_SEQSTARTS, a->sequences + 1, a->seqstarts, dice);
    open_int64s(step, KVMILL_FLOW_PAGE_INDPTR, a->sequences + 1, step->indptr, dice);
    open_numbers(step, KVMILL_FLOW_PAGE_IDS, int32, pages + dice_range(dice, 0, 3), dice);
    fill_page_ids(step);
    open_numbers(step, KVMILL_FLOW_SEL_INDPTR, int64, rows + 1, dice);
    open_numbers(step, KVMILL_FLOW_SEL, int32, pages * step->rows + dice_range(dice, 0, 3), dice);
    open_numbers(step, KVMILL_FLOW_BLOCK_IDS, int32, pages * step->rows + dice_range(dice, 0, 3),
                 dice);
    set_limits(step);
}

/* ---- New tokens ---- */

/* Each token to its row, in order; some requests are padding. */
static void open_slots(struct flow_step *step, struct dice *dice) {
    struct attention *a = &step->attention;
    const struct oracle_attention problem = attention_problem(a);
    open_numbers(step, KVMILL_FLOW_SLOT_MAPPING, int64, a->seqstarts[a->sequences], dice);
    int64_t *slot = flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING);
    for (int64_t b = 0; b < a->sequences; b++) {
        bool padding = dice_once_in(dice, 5);
        for (int64_t t = 0; t < a->tokens[b]; t++)
            *slot++ = padding ? -1 : oracle_slot(&problem, b, a->start[b] + t);
    }
}

/* ---- Fields ---- */

static bool is_candidate(const struct flow_step *step, int64_t request, int64_t page) {
    return page >= step->select.reserved_bos &&
           page < flow_step_pages(step, request) - step->select.reserved_eos;
}

static unsigned char *field_at(struct flow_step *step, int i, int64_t page, int64_t kv_head) {
    const struct fenced_tensor *tensor = &step->tensor[KVMILL_FLOW_FIELDS + i];
    int64_t number = (page * kv_heads(step) + kv_head) * step->fields[i].columns;
    return (unsigned char *)flow_step_data(step, KVMILL_FLOW_FIELDS + i) +
           number * tensor->dl.dtype.bits / 8;
}

static void fill_page(struct flow_step *step, int64_t page, struct dice *dice) {
    enum oracle_type type = attention_type(step->field_type);
    int64_t most = step->few_kinds > 0 ? step->few_kinds - 1 : 9;
    for (int64_t h = 0; h < kv_heads(step); h++) {
        int64_t kind = dice_range(dice, 0, most);
        for (int64_t i = 0; i < step->fields[0].columns; i++) {
            double high = (double)((kind * (i + 1) + i) % 5 - 1);
            oracle_put(type, field_at(step, 0, page, h), i, high);
            oracle_put(type, field_at(step, 1, page, h), i, high - (double)((kind + i) % 3));
        }
    }
}

/* NaN but for pages that are scored. */
static void open_fields(struct flow_step *step, struct dice *dice) {
    for (int i = 0; i < FLOW_STEP_FIELDS; i++) {
        struct fenced_tensor *tensor = &step->tensor[KVMILL_FLOW_FIELDS + i];
        const int64_t shape[] = {cache_pages(step), kv_heads(step), 1, step->fields[i].columns};
        tensor_open(tensor, step->field_type, 4, shape, NULL, dice);
        memset(tensor->fence.data, 0xff, tensor->fence.size);
    }
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t p = 0; p < flow_step_pages(step, b); p++)
            if (is_candidate(step, b, p))
                fill_page(step, *flow_step_page(step, b, p), dice);
}

/* ---- All tensors ---- */

void flow_step_open(struct flow_step *step, struct dice *dice) {
    step->attention.which = MULTI_HEAD_CACHE_ATTENTION;
    step->attention.whole_pages = true;
    step->attention.decoding_rank = 1;
    attention_open(&step->attention, dice);
    step->rows = rows_for(step);
    set_flow(step);
    open_requests(step, dice);
    open_slots(step, dice);
    open_scores(step, dice);
    open_fields(step, dice);
}

/* ---- Tensors of a run ---- */

/* What the steps take, and what with lists. */
static const struct {
    int which;
    unsigned kinds, with_lists;
} uses[] = {{KVMILL_CACHE_ATTENTION_QUERY, 0xe, 0},
            {KVMILL_CACHE_ATTENTION_CURRENT_KEY, 1, 0},
            {KVMILL_CACHE_ATTENTION_CURRENT_VALUE, 1, 0},
            {KVMILL_CACHE_ATTENTION_CACHE, 0xf, 0},
            {KVMILL_CACHE_ATTENTION_SCALE, 0xf, 0},
            {KVMILL_CACHE_ATTENTION_VALUE_CACHE, 0xf, 0},
            {KVMILL_CACHE_ATTENTION_VALUE_SCALE, 0xf, 0},
            {KVMILL_CACHE_ATTENTION_SINKS, 0xc, 0},
            {KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, 0xc, 0},
            {KVMILL_CACHE_ATTENTION_LSE, 0xc, 0},
            {KVMILL_FLOW_SEQ_LEN, 0xe, 0},
            {KVMILL_FLOW_PAGE_INDPTR, 0xe, 0},
            {KVMILL_FLOW_PAGE_IDS, 0xe, 0},
            {KVMILL_FLOW_SLOT_MAPPING, 1, 0},
            {KVMILL_FLOW_SEL_INDPTR, 2, 0xc},
            {KVMILL_FLOW_SEL, 2, 0xc},
            {KVMILL_FLOW_BLOCK_IDS, 2, 8},
            {KVMILL_FLOW_FIELDS, 0xb, 0},
            {KVMILL_FLOW_FIELDS + 1, 0xb, 0}};

void flow_step_give(struct flow_step *step, enum flow_step_kind kind, bool lists) {
    memset(step->given, 0, sizeof step->given);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        struct fenced_tensor *tensor = flow_step_tensor(step, uses[i].which);
        unsigned kinds = uses[i].kinds | (lists ? uses[i].with_lists : 0);
        if (kinds >> kind & 1 && is_open(tensor))
            step->given[uses[i].which] = &tensor->dl;
    }
}

static bool is_output(enum flow_step_kind kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    bool is_list = which >= KVMILL_FLOW_SEL_INDPTR && which <= KVMILL_FLOW_BLOCK_IDS;
    if (kind == STEP_APPEND)
        return is_cache || which >= KVMILL_FLOW_FIELDS;
    if (is_list)
        return kind != STEP_ATTEND;
    return which == KVMILL_CACHE_ATTENTION_ATTN_OUTPUT || which == KVMILL_CACHE_ATTENTION_LSE;
}

/* ---- Running ---- */

kvmill_status flow_step_plan(const struct flow_step *step, enum flow_step_kind kind,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error) {
    kvmill_status (*const plans[])(const kvmill_flow *, const kvmill_flow_limits *,
                                   const kvmill_plan_options *, kvmill_plan **, kvmill_error *) = {
        kvmill_plan_flow_append, kvmill_plan_flow_index, kvmill_plan_flow_attend,
        kvmill_plan_flow_decode};
    return plans[kind](&step->flow, &step->limits, options, plan, error);
}

static void protect_inputs(struct flow_step *step, enum flow_step_kind kind, bool read_only) {
    for (int i = 0; i < FLOW_STEP_TENSORS; i++)
        if (is_open(flow_step_tensor(step, i)) && !is_output(kind, i))
            fence_protect(&flow_step_tensor(step, i)->fence, read_only);
}

static bool is_intact(struct flow_step *step) {
    int64_t where;
    for (int i = 0; i < FLOW_STEP_TENSORS; i++)
        if (is_open(flow_step_tensor(step, i)) &&
            !fence_is_intact(&flow_step_tensor(step, i)->fence, &where)) {
            diag("byte %" PRId64 " is outside of tensor %d, but was written", where, i);
            return false;
        }
    return true;
}

static kvmill_status run_plan(struct flow_step *step, enum flow_step_kind kind,
                              const kvmill_plan *plan, int threads, struct dice *dice,
                              kvmill_error *error) {
    struct fence room;
    int64_t where;
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    fence_open(&room, size, 0, FENCE_ABOVE, dice);
    unsigned char *workspace = step->workspace ? step->workspace : room.data;
    fence_explain_traps(step->attention.words);
    protect_inputs(step, kind, true);
    kvmill_status status = run_in_parts(plan, step->given, workspace, threads, dice, error);
    protect_inputs(step, kind, false);
    if (!fence_is_intact(&room, &where))
        bail_out("the workspace was left, at %" PRId64 " of %zu: %s", where, size,
                 step->attention.words);
    fence_close(&room);
    return status;
}

kvmill_status flow_step_run(struct flow_step *step, enum flow_step_kind kind,
                            const kvmill_plan_options *options, int threads, struct dice *dice,
                            kvmill_error *error) {
    kvmill_plan *plan;
    kvmill_status status = flow_step_plan(step, kind, options, &plan, error);
    if (status != KVMILL_OK)
        return status;
    status = run_plan(step, kind, plan, threads, dice, error);
    kvmill_plan_destroy(plan);
    return status;
}

bool flow_step_runs(struct flow_step *step, enum flow_step_kind kind,
                    const kvmill_plan_options *options, int threads, struct dice *dice) {
    kvmill_error error;
    kvmill_status status = flow_step_run(step, kind, options, threads, dice, &error);
    if (status != KVMILL_OK)
        diag("%s: %s; %s", kvmill_status_name(status), error.message, step->attention.words);
    return status == KVMILL_OK && is_intact(step);
}

/* ---- Which lists ---- */

/* What a row is scored with: rows of "q" of a kv head or of a query head. */
struct scorer {
    int64_t request, kv_head, first_head, group;
};

static double *query_of(struct flow_step *step, const struct scorer *scorer) {
    int64_t dim = step->attention.op.head_dim;
    double *query = take(scorer->group * dim, sizeof *query);
    for (int64_t g = 0; g < scorer->group; g++)
        for (int64_t i = 0; i < dim; i++)
            query[g * dim + i] = oracle_get(attention_type(step->attention.op.T1),
                                            element_at(step, KVMILL_CACHE_ATTENTION_QUERY,
                                                       scorer->request, scorer->first_head + g, i),
                                            0);
    return query;
}

static double *fields_of(struct flow_step *step, const struct scorer *scorer, int field) {
    int64_t pages = flow_step_pages(step, scorer->request), dim = step->fields[field].columns;
    double *numbers = take(pages * dim, sizeof *numbers);
    for (int64_t p = 0; p < pages; p++)
        for (int64_t i = 0; i < dim; i++)
            numbers[p * dim + i] = oracle_get(
                attention_type(step->field_type),
                field_at(step, field, *flow_step_page(step, scorer->request, p), scorer->kv_head),
                i);
    return numbers;
}

/* Add the scores of all pages of a request; what is no candidate's is not looked at. */
static void add_scores(struct flow_step *step, const struct scorer *scorer, float *sums) {
    int64_t pages = flow_step_pages(step, scorer->request);
    double *query = query_of(step, scorer), *scores = take(pages, sizeof *scores);
    double *fields[] = {fields_of(step, scorer, 0), fields_of(step, scorer, 1)};
    double *const saved[] = {NULL, NULL};
    oracle_score(&step->flow, scorer->group, pages, query, NULL, NULL, fields, scores, saved);
    for (int64_t p = 0; p < pages; p++)
        sums[p] += (float)scores[p];
    free(fields[1]);
    free(fields[0]);
    free(scores);
    free(query);
}

/* Row r of a request: its first head, as many kv heads as share it. */
static void score_row(struct flow_step *step, int64_t request, int64_t r, float *scores) {
    int64_t ratio = heads(step) / kv_heads(step), first = r * heads(step) / step->rows;
    int64_t kinds = step->rows < kv_heads(step) ? kv_heads(step) : 1;
    int64_t group = step->rows > kv_heads(step) ? 1 : ratio;
    for (int64_t n = 0; n < kinds; n++) {
        const struct scorer scorer = {request, kv_head_of(step, first) + n, first + n * ratio,
                                      group};
        add_scores(step, &scorer, scores);
    }
}

static int64_t list_all(int64_t pages, int32_t *list) {
    for (int64_t p = 0; p < pages; p++)
        list[p] = (int32_t)p;
    return pages;
}

static int64_t list_row(struct flow_step *step, int64_t request, int64_t r, bool dense,
                        int32_t *list) {
    int64_t pages = flow_step_pages(step, request);
    if (dense || step->skipped || step->length[request] < step->select.dense_below)
        return list_all(pages, list);
    float *scores = take(pages, sizeof *scores);
    if (oracle_selected(&step->select, pages) < pages)
        score_row(step, request, r, scores);
    int64_t count = oracle_select(&step->select, pages, scores, list);
    free(scores);
    return count;
}

static void expect_lists(struct flow_step *step, bool dense) {
    int64_t rows = step->attention.sequences * step->rows;
    step->starts = take(rows + 1, sizeof *step->starts);
    step->list = take(step->indptr[step->attention.sequences] * step->rows, sizeof *step->list);
    for (int64_t row = 0; row < rows; row++)
        step->starts[row + 1] =
            step->starts[row] + list_row(step, row / step->rows, row % step->rows, dense,
                                         step->list + step->starts[row]);
}

void flow_step_put_lists(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->rows;
    memcpy(flow_step_data(step, KVMILL_FLOW_SEL_INDPTR), step->starts,
           (size_t)(rows + 1) * sizeof *step->starts);
    memcpy(flow_step_data(step, KVMILL_FLOW_SEL), step->list,
           (size_t)step->starts[rows] * sizeof *step->list);
}

/* ---- What comes of them ---- */

/* Cache rows that the query heads of a row see, [sequences, most], and how many. */
struct seen {
    int64_t most, *rows, starts[MOST_SEQUENCES + 1];
};

static bool is_in_window(const struct flow_step *step, int64_t request, int64_t token) {
    int64_t window = step->attention.op.left_window_size + 1;
    return window == 0 || token >= step->length[request] - window;
}

static int64_t see_request(struct flow_step *step, int64_t request, int64_t r, int64_t *rows) {
    int64_t row = request * step->rows + r, size = page_size(step), count = 0;
    for (int64_t i = step->starts[row]; i < step->starts[row + 1]; i++)
        for (int64_t j = 0; j < size; j++) {
            int64_t token = step->list[i] * size + j;
            if (token < step->length[request] && is_in_window(step, request, token))
                rows[count++] = *flow_step_page(step, request, step->list[i]) * size + j;
        }
    return count;
}

static void see(struct flow_step *step, int64_t r, struct seen *seen) {
    *seen = (struct seen){.most = step->limits.pages * page_size(step) + 1};
    seen->rows = take(step->attention.sequences * seen->most, sizeof *seen->rows);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        seen->starts[b + 1] =
            seen->starts[b] + see_request(step, b, r, seen->rows + b * seen->most);
}

/* One kv head alone: its rows are where the first head's are, that many rows further. */
static void move_to_head(const struct oracle_cache *cache, int64_t layer, int64_t kv_head,
                         struct oracle_side *side) {
    int64_t rows =
        oracle_row(cache, 0, layer, 0, 0, kv_head) - oracle_row(cache, 0, layer, 0, 0, 0);
    side->data += oracle_bytes(side->type, rows * side->dim);
    if (side->group != 0)
        side->scale += oracle_bytes(side->scale_type, rows * side->dim / side->group);
}

/* A query head of all requests: pages of a row each. */
static struct oracle_attention head_problem(struct flow_step *step, int64_t head,
                                            const struct seen *seen) {
    static const int64_t one_each[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct oracle_attention problem = attention_problem(&step->attention);
    move_to_head(&problem.cache, problem.layer, kv_head_of(step, head), &problem.key);
    move_to_head(&problem.cache, problem.layer, kv_head_of(step, head), &problem.value);
    problem.heads = problem.kv_heads = 1;
    problem.sinks =
        problem.sinks == NULL ? NULL : problem.sinks + oracle_bytes(problem.sinks_type, head);
    problem.seqstarts = one_each;
    problem.kvstarts = seen->starts;
    problem.cachestarts = seen->rows;
    problem.pages = seen->most;
    problem.page_size = 1;
    problem.decoding = step->attention.sequences;
    problem.window = 0;
    return problem;
}

static unsigned char *gather_query(struct flow_step *step, int64_t head) {
    int64_t batch = step->attention.sequences, dim = step->attention.op.head_dim;
    enum oracle_type type = attention_type(step->attention.op.T1);
    unsigned char *query = take(oracle_bytes(type, batch * dim), 1);
    for (int64_t b = 0; b < batch; b++)
        memcpy(query + oracle_bytes(type, b * dim),
               element_at(step, KVMILL_CACHE_ATTENTION_QUERY, b, head, 0),
               (size_t)oracle_bytes(type, dim));
    return query;
}

/* The results of a head, [sequences, dim], among those of all. */
static void expect_head(struct flow_step *step, int64_t head) {
    int64_t batch = step->attention.sequences, dim = value_dim(step);
    double *numbers = take(2 * batch * (dim + 1), sizeof *numbers);
    const struct oracle_result result = {numbers, numbers + batch * dim, numbers + 2 * batch * dim,
                                         numbers + batch * (2 * dim + 1)};
    struct seen seen;
    see(step, row_of_head(step, head), &seen);
    struct oracle_attention problem = head_problem(step, head, &seen);
    unsigned char *query = gather_query(step, head);
    problem.query = query;
    oracle_attend(&problem, &result);
    for (int64_t b = 0; b < batch; b++) {
        int64_t row = b * heads(step) + head;
        memcpy(step->result.output + row * dim, result.output + b * dim, (size_t)dim * 8);
        memcpy(step->result.output_error + row * dim, result.output_error + b * dim,
               (size_t)dim * 8);
        step->result.lse[row] = result.lse[b];
        step->result.lse_error[row] = result.lse_error[b];
    }
    free(query);
    free(seen.rows);
    free(numbers);
}

static void forget_result(struct flow_step *step) {
    free(step->result.output);
    free(step->result.output_error);
    free(step->result.lse);
    free(step->result.lse_error);
    step->result = (struct oracle_result){0};
}

void flow_step_expect_output(struct flow_step *step) {
    int64_t rows = step->attention.sequences * heads(step), numbers = rows * value_dim(step);
    forget_result(step);
    step->result =
        (struct oracle_result){take(numbers, 8), take(numbers, 8), take(rows, 8), take(rows, 8)};
    for (int64_t h = 0; h < heads(step); h++)
        expect_head(step, h);
}

static void forget(struct flow_step *step) {
    free(step->starts);
    free(step->list);
    step->starts = NULL;
    step->list = NULL;
    forget_result(step);
}

void flow_step_expect(struct flow_step *step, bool dense) {
    forget(step);
    expect_lists(step, dense);
    flow_step_expect_output(step);
}

void flow_step_close(struct flow_step *step) {
    for (int i = 0; i < FLOW_STEP_TENSORS; i++) {
        tensor_close(&step->tensor[i]);
        tensor_close(&step->before[i]);
    }
    forget(step);
    attention_close(&step->attention);
    *step = (struct flow_step){0};
}

/* ---- Judging ---- */

static bool is_list_right(struct flow_step *step, int64_t row) {
    const int32_t *list = flow_step_data(step, KVMILL_FLOW_SEL);
    const int32_t *ids = flow_step_data(step, KVMILL_FLOW_BLOCK_IDS);
    int64_t request = row / step->rows;
    int64_t kv_head = row % step->rows * kv_heads(step) / step->rows;
    for (int64_t i = step->starts[row]; i < step->starts[row + 1]; i++) {
        int64_t id = *flow_step_page(step, request, step->list[i]) * kv_heads(step) + kv_head;
        if (list[i] != step->list[i] || ids[i] != id) {
            diag("sel[%" PRId64 "] of row %" PRId64 " is %d, id %d, wanted %d, %" PRId64 "; %s", i,
                 row, (int)list[i], (int)ids[i], (int)step->list[i], id, step->attention.words);
            return false;
        }
    }
    return true;
}

bool flow_step_lists_are_right(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->rows;
    bool right = memcmp(flow_step_data(step, KVMILL_FLOW_SEL_INDPTR), step->starts,
                        (size_t)(rows + 1) * sizeof *step->starts) == 0;
    if (!right)
        diag("sel_indptr; %s", step->attention.words);
    for (int64_t row = 0; right && row < rows; row++)
        right = is_list_right(step, row);
    return right;
}

/* NaN and infinities are themselves. */
static bool is_close(struct flow_step *step, int which, const int64_t place[3], double want,
                     double error) {
    DLDataType type = flow_step_tensor(step, which)->dl.dtype;
    double have =
        oracle_get(attention_type(type), element_at(step, which, place[0], place[1], place[2]), 0);
    bool close = isfinite(want)
                     ? fabs(have - want) <= error + attention_rounding(type, fabs(want) + error)
                 : isnan(want) ? isnan(have)
                               : have == want;
    if (!close)
        diag("%s of request %" PRId64 ", head %" PRId64 ", %" PRId64
             ": %.9g, wanted %.9g +- %.3g; %s",
             attention_tensor_name(which), place[0], place[1], place[2], have, want, error,
             step->attention.words);
    return close;
}

bool flow_step_output_is_right(struct flow_step *step) {
    int64_t dim = value_dim(step);
    for (int64_t row = 0; row < step->attention.sequences * heads(step); row++) {
        int64_t place[] = {row / heads(step), row % heads(step), 0};
        if (step->attention.op.partial &&
            !is_close(step, KVMILL_CACHE_ATTENTION_LSE, place, step->result.lse[row],
                      step->result.lse_error[row]))
            return false;
        for (; place[2] < dim; place[2]++)
            if (!is_close(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, place,
                          step->result.output[row * dim + place[2]],
                          step->result.output_error[row * dim + place[2]]))
                return false;
    }
    return true;
}

/* ---- What was there before ---- */

void flow_step_keep(struct flow_step *step, struct dice *dice) {
    for (int i = 0; i < FLOW_STEP_TENSORS; i++) {
        tensor_close(&step->before[i]);
        if (is_open(flow_step_tensor(step, i)))
            tensor_open_copy(&step->before[i], flow_step_tensor(step, i), dice);
    }
}

bool flow_step_is_same(struct flow_step *step, int which) {
    int64_t where;
    return !is_open(&step->before[which]) ||
           tensor_is_equal(flow_step_tensor(step, which), &step->before[which], &where);
}

bool flow_step_is_kept(struct flow_step *step) {
    for (int i = 0; i < FLOW_STEP_TENSORS; i++)
        if (!flow_step_is_same(step, i)) {
            diag("tensor %d has changed; %s", i, step->attention.words);
            return false;
        }
    return is_intact(step);
}

void flow_step_restore(struct flow_step *step) {
    for (int i = 0; i < FLOW_STEP_TENSORS; i++)
        if (is_open(&step->before[i]))
            memcpy(flow_step_tensor(step, i)->fence.data, step->before[i].fence.data,
                   step->before[i].fence.size);
}
