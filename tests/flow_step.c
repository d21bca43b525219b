/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_step.h"

#include "common.h"
#include "oracle/oracle_flow.h"

/* ---- Sizes ---- */

static int64_t page_size(const struct flow_step *step) {
    return step->attention.op.page_size;
}

static int64_t heads(const struct flow_step *step) {
    return step->attention.op.num_heads;
}

static void set_sizes(struct flow_step *step) {
    const kvmill_cache_attention *op = &step->attention.op;
    const char *scope = step->select.scope ? step->select.scope : "kv_head";
    step->kv_heads = op->num_kv_heads ? op->num_kv_heads : op->num_heads;
    step->value_dim = op->value_differs && op->value_head_dim ? op->value_head_dim : op->head_dim;
    step->rows = scope[0] == 'r' ? 1 : scope[0] == 'q' ? op->num_heads : step->kv_heads;
}

int64_t flow_step_pages(const struct flow_step *step, int64_t request) {
    return (step->length[request] + page_size(step) - 1) / page_size(step);
}

int64_t flow_step_block_size(const struct flow_step *step) {
    return step->flow.block_size > 0 ? step->flow.block_size : page_size(step);
}

int64_t flow_step_page_blocks(const struct flow_step *step) {
    return page_size(step) / flow_step_block_size(step);
}

int64_t flow_step_blocks(const struct flow_step *step, int64_t request) {
    int64_t size = flow_step_block_size(step);
    return (step->length[request] + size - 1) / size;
}

int64_t flow_step_block(struct flow_step *step, int64_t request, int64_t block) {
    int64_t first = block * flow_step_block_size(step); /* token */
    int64_t slot = *flow_step_page(step, request, first / page_size(step)) * page_size(step) +
                   first % page_size(step);
    return slot / flow_step_block_size(step);
}

static int64_t cache_pages(const struct flow_step *step) {
    return step->attention.capacity / page_size(step);
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

static const kvmill_flow quest = {
    .struct_size = sizeof quest,
    .field_count = FLOW_STEP_FIELDS,
    .cache = cache_ops,
    .cache_count = sizeof cache_ops / sizeof *cache_ops,
    .index = index_ops,
    .index_count = sizeof index_ops / sizeof *index_ops,
};

static void set_flow(struct flow_step *step) {
    int64_t dim = step->attention.op.head_dim;
    const kvmill_flow_field of_quest[] = {{"kmax", 1, dim, step->field_type},
                                          {"kmin", 1, dim, step->field_type}};
    step->flow = step->own != NULL ? *step->own : quest;
    if (step->flow.field_count > MOST_STEP_FIELDS)
        bail_out("%zu fields", step->flow.field_count);
    memcpy(step->fields, step->own != NULL ? step->own->fields : of_quest,
           step->flow.field_count * sizeof *step->fields);
    step->flow.fields = step->fields;
    step->flow.attention = &step->attention.op;
    step->flow.select = step->select;
    if (step->own == NULL)
        step->flow.block_size = step->block_size;
    step->flow.summary = step->summary;
    if (step->own == NULL) {
        step->flow.field_layout = step->field_layout;
        step->flow.temporaries = step->temporaries;
    }
    step->flow.layers_skip = &step->attention.op.layer_idx;
    step->flow.layers_skip_count = step->skipped;
}

/* ---- Tensors ---- */

struct fenced_tensor *flow_step_tensor(struct flow_step *step, int which) {
    bool own = which >= TENSORS || tensor_is_open(&step->tensor[which]);
    return own ? &step->tensor[which] : &step->attention.tensor[which];
}

void *flow_step_data(struct flow_step *step, int which) {
    const struct fenced_tensor *tensor = flow_step_tensor(step, which);
    return (unsigned char *)tensor->dl.data + tensor->dl.byte_offset;
}

static void open_numbers(struct flow_step *step, int which, DLDataType type, int64_t count,
                         struct dice *dice) {
    tensor_open_aligned(&step->tensor[which], type, 1, &count, dice);
}

static void open_int64s(struct flow_step *step, int which, int64_t count, const int64_t *numbers,
                        struct dice *dice) {
    open_numbers(step, which, i64, count, dice);
    memcpy(flow_step_data(step, which), numbers, (size_t)count * sizeof *numbers);
}

/* Opens (B, H, dim), or without dim; heads may have gaps. */
static void open_rows(struct flow_step *step, int which, DLDataType type, int64_t dim,
                      struct dice *dice) {
    int64_t apart = (dim ? dim : 1) + (dice_once_in(dice, 2) ? dice_range(dice, 0, 3) : 0);
    const int64_t shape[] = {step->attention.sequences, heads(step), dim};
    const int64_t strides[] = {heads(step) * apart + dice_range(dice, 0, 2), apart, 1};
    tensor_open(&step->tensor[which], type, dim ? 3 : 2, shape, strides, dice);
}

static void fill_query(struct flow_step *step, struct dice *dice) {
    const struct fenced_tensor *query = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_QUERY);
    for (int64_t n = 0; n < tensor_count(&query->dl); n++)
        number_put(query->dl.dtype, tensor_element(query, n), (double)dice_range(dice, -3, 3));
}

static void open_scores(struct flow_step *step, struct dice *dice) {
    const kvmill_cache_attention *op = &step->attention.op;
    open_rows(step, KVMILL_CACHE_ATTENTION_QUERY, op->T1, op->head_dim, dice);
    open_rows(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT, op->partial ? f32 : op->T1, step->value_dim,
              dice);
    if (op->partial)
        open_rows(step, KVMILL_CACHE_ATTENTION_LSE, f32, 0, dice);
    fill_query(step, dice);
}

/* ---- Requests ---- */

/* The ids of pages follow from the places of the attention's pages. */
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
    int64_t listed = pages * flow_step_page_blocks(step) * step->rows;
    open_int64s(step, KVMILL_FLOW_SEQ_LEN, a->sequences, step->length, dice);
    open_int64s(step, KVMILL_CACHE_ATTENTION_SEQSTARTS, a->sequences + 1, a->seqstarts, dice);
    open_int64s(step, KVMILL_FLOW_PAGE_INDPTR, a->sequences + 1, step->indptr, dice);
    open_numbers(step, KVMILL_FLOW_PAGE_IDS, i32, pages + dice_range(dice, 0, 3), dice);
    fill_page_ids(step);
    open_numbers(step, KVMILL_FLOW_SEL_INDPTR, i64, rows + 1, dice);
    open_numbers(step, KVMILL_FLOW_SEL, i32, listed + dice_range(dice, 0, 3), dice);
    const int64_t ids[] = {listed + dice_range(dice, 0, 3), 1, 1};
    tensor_open_aligned(&step->tensor[KVMILL_FLOW_BLOCK_IDS], dice_once_in(dice, 2) ? i32 : i64,
                        dice_once_in(dice, 2) ? 1 : 3, ids, dice);
    open_numbers(step, KVMILL_FLOW_SCORES, f32, listed + dice_range(dice, 0, 3), dice);
    if (step->has_topk)
        open_int64s(step, KVMILL_FLOW_TOPK_VALS, a->sequences, step->topk, dice);
    set_limits(step);
}

/* ---- New tokens ---- */

/* Gives each token its slot, in order; some requests are padding. */
static void open_slots(struct flow_step *step, struct dice *dice) {
    struct attention *a = &step->attention;
    const struct oracle_attention problem = attention_problem(a);
    open_numbers(step, KVMILL_FLOW_SLOT_MAPPING, i64, a->seqstarts[a->sequences], dice);
    int64_t *slot = flow_step_data(step, KVMILL_FLOW_SLOT_MAPPING);
    for (int64_t b = 0; b < a->sequences; b++) {
        bool padding = step->own == NULL && dice_once_in(dice, 5);
        for (int64_t t = 0; t < a->tokens[b]; t++)
            *slot++ = padding ? -1 : oracle_slot(&problem, b, 0, a->start[b] + t);
    }
}

/* ---- Fields ---- */

static bool is_candidate(const struct flow_step *step, int64_t request, int64_t block) {
    return block >= step->select.reserved_bos &&
           block < flow_step_blocks(step, request) - step->select.reserved_eos;
}

int64_t flow_step_field_heads(const struct flow_step *step, int field) {
    int64_t heads = step->flow.field_heads != NULL ? step->flow.field_heads[field] : 0;
    return heads > 0 ? heads : step->kv_heads;
}

int64_t flow_step_matrix(const struct flow_step *step, int field, int64_t block, int64_t kv_head) {
    int64_t heads = flow_step_field_heads(step, field);
    return block * heads + kv_head / (step->kv_heads / heads);
}

unsigned char *flow_step_field(const struct flow_step *step, int i, int64_t block,
                               int64_t kv_head) {
    const kvmill_flow_field *field = &step->fields[i];
    int64_t number = flow_step_matrix(step, i, block, kv_head) * field->rows * field->columns;
    const DLTensor *tensor = &step->tensor[KVMILL_FLOW_FIELDS + i].dl;
    return (unsigned char *)tensor->data + tensor->byte_offset + number * field->dtype.bits / 8;
}

/* Makes scores of a block NaN or infinite. */
static void spoil(struct flow_step *step, int64_t block, int64_t kv_head, struct dice *dice) {
    static const double rare[] = {NAN, INFINITY, -INFINITY};
    oracle_put(attention_type(step->field_type),
               flow_step_field(step, (int)dice_range(dice, 0, 1), block, kv_head),
               dice_range(dice, 0, step->fields[0].columns - 1), rare[dice_range(dice, 0, 2)]);
}

static void fill_block(struct flow_step *step, int64_t block, struct dice *dice) {
    enum oracle_type type = attention_type(step->field_type);
    int64_t most = step->few_kinds > 0 ? step->few_kinds - 1 : 9;
    for (int64_t h = 0; h < step->kv_heads; h++) {
        int64_t kind = dice_range(dice, 0, most);
        for (int64_t i = 0; i < step->fields[0].columns; i++) {
            double high = (double)((kind * (i + 1) + i) % 5 - 1);
            oracle_put(type, flow_step_field(step, 0, block, h), i, high);
            oracle_put(type, flow_step_field(step, 1, block, h), i,
                       high - (double)((kind + i) % 3));
        }
        if (dice_once_in(dice, 30))
            spoil(step, block, h, dice);
    }
}

/* Opens fields with NaN, except for blocks that are scored; a test's own flow has numbers
   everywhere. */
static void open_fields(struct flow_step *step, struct dice *dice) {
    for (size_t i = 0; i < step->flow.field_count; i++) {
        const kvmill_flow_field *field = &step->fields[i];
        struct fenced_tensor *tensor = &step->tensor[KVMILL_FLOW_FIELDS + i];
        const int64_t shape[] = {cache_pages(step) * flow_step_page_blocks(step),
                                 flow_step_field_heads(step, (int)i), field->rows, field->columns};
        tensor_open(tensor, field->dtype, 4, shape, NULL, dice);
        memset(tensor->fence.data, 0xff, tensor->fence.size);
    }
    for (int64_t b = 0; step->own == NULL && b < step->attention.sequences; b++)
        for (int64_t n = 0; n < flow_step_blocks(step, b); n++)
            if (is_candidate(step, b, n))
                fill_block(step, flow_step_block(step, b, n), dice);
}

/* ---- New rows for fields; inputs ---- */

/* Returns the tensor of a field's new rows, or of a constant. */
static int rows_tensor(const struct flow_step *step, int field) {
    return FLOW_STEP_EXTRAS +
           __builtin_popcountll((uint64_t)step->flow.appended & ((1ull << field) - 1));
}

int flow_step_first_input(const struct flow_step *step) {
    return FLOW_STEP_EXTRAS + __builtin_popcountll((uint64_t)step->flow.appended);
}

static int input_tensor(const struct flow_step *step, size_t constant) {
    int tensor = flow_step_first_input(step);
    for (size_t i = 0; i < constant; i++)
        tensor += step->flow.constants[i].values == NULL;
    return tensor;
}

DLDataType flow_step_row_type(const struct flow_step *step, int field) {
    return oracle_scales_field(&step->flow, (size_t)field) < 0 ? step->fields[field].dtype
                                                               : step->attention.op.T1;
}

const unsigned char *flow_step_new_row(struct flow_step *step, int field, int64_t t, int64_t h) {
    const kvmill_flow_field *known = &step->fields[field];
    return (unsigned char *)flow_step_data(step, rows_tensor(step, field)) +
           flow_step_matrix(step, field, t, h) * known->columns *
               flow_step_row_type(step, field).bits / 8;
}

const float *flow_step_input(struct flow_step *step, size_t constant, int64_t request, int64_t h) {
    const kvmill_flow_constant *known = &step->flow.constants[constant];
    return (const float *)flow_step_data(step, input_tensor(step, constant)) +
           (request * step->kv_heads + h) * known->rows * known->columns;
}

/* Opens a tensor of small multiples of a power of two, so that sums are exact. */
static void open_extra(struct flow_step *step, int which, DLDataType type, int rank,
                       const int64_t *shape, double unit, struct dice *dice) {
    struct fenced_tensor *tensor = &step->tensor[which];
    tensor_open_aligned(tensor, type, rank, shape, dice);
    for (int64_t i = 0; i < tensor_count(&tensor->dl); i++)
        oracle_put(attention_type(type), flow_step_data(step, which), i,
                   unit * (double)dice_range(dice, -8, 8));
}

static void open_extras(struct flow_step *step, struct dice *dice) {
    const struct attention *a = &step->attention;
    for (size_t i = 0; i < step->flow.field_count; i++) {
        const int64_t shape[] = {a->seqstarts[a->sequences], flow_step_field_heads(step, (int)i),
                                 step->fields[i].columns};
        if (step->flow.appended >> i & 1)
            open_extra(step, rows_tensor(step, (int)i), flow_step_row_type(step, (int)i), 3, shape,
                       0.125, dice);
    }
    for (size_t i = 0; i < step->flow.constant_count; i++) {
        const kvmill_flow_constant *known = &step->flow.constants[i];
        const int64_t shape[] = {a->sequences, step->kv_heads, known->rows, known->columns};
        if (known->values == NULL)
            open_extra(step, input_tensor(step, i), f32, 4, shape, 0.25, dice);
    }
}

/* ---- All tensors ---- */

void flow_step_open(struct flow_step *step, struct dice *dice) {
    step->attention.which = MULTI_HEAD_CACHE_ATTENTION;
    step->attention.whole_pages = true;
    step->attention.decoding_rank = 1;
    attention_open(&step->attention, dice);
    set_sizes(step);
    set_flow(step);
    open_requests(step, dice);
    open_slots(step, dice);
    open_scores(step, dice);
    open_fields(step, dice);
    open_extras(step, dice);
}

void flow_step_close(struct flow_step *step) {
    tensors_close(step->tensor, FLOW_STEP_MOST);
    tensors_close(step->before, FLOW_STEP_MOST);
    flow_step_forget(step);
    free(step->scores);
    free(step->second);
    attention_close(&step->attention);
    *step = (struct flow_step){0};
}
