/* SPDX-License-Identifier: Apache-2.0 */
#include "callers.h"

#include "../defs/op_tables.h"
#include "common.h"

/* ---- Good structs ---- */

#define TENSOR(TYPE, ...)                                                                          \
    {                                                                                              \
        .device = {kDLCPU, 0}, .dtype = TYPE, .shape = (int64_t[]){__VA_ARGS__},                   \
        .ndim = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)                                 \
    }
#define F32                                                                                        \
    { kDLFloat, 32, 1 }
#define I32                                                                                        \
    { kDLInt, 32, 1 }
static DLTensor past = TENSOR(F32, 2, 3, 8, 4), update = TENSOR(F32, 2, 3, 1, 4);
static DLTensor query = TENSOR(F32, 2, 4, 1, 8), key = TENSOR(F32, 2, 4, 3, 8);
static DLTensor fresh = TENSOR(F32, 2, 4, 1, 8), cache = TENSOR(F32, 2, 4, 6, 8);
static DLTensor operand = TENSOR(F32, 3), starts = TENSOR(I32, 2, 1), windows = TENSOR(F32, 2);
static const int64_t axis_0[] = {0}, size_1[] = {1};
static const DLTensor *const inputs[] = {&operand}, *const updates[] = {&windows};
static const kvmill_element_type element = {.dtype = F32};
static const kvmill_element_type arguments[] = {{.dtype = F32}, {.dtype = F32}};
static const kvmill_region_op sum[] = {
    {.name = "add", .element = {.dtype = F32}, .operands = {0, 1, 0}}};
static const int32_t results[] = {2};
static const kvmill_region region = {arguments, sum, 1, results, 0};
static const kvmill_flow_field fields[] = {{"mean", 1, 8, F32}};
static const float one[] = {1};
static const kvmill_flow_constant constants[] = {{"one", 1, 1, 1, one}};
static const kvmill_flow_op cache_program[] = {
    {.op = "Mean", .inputs = {"k"}, .output = "mean", .dims = 1u << 1}};
static const kvmill_flow_op index_program[] = {
    {.op = "GeMM", .inputs = {"q", "mean"}, .output = "scores"},
    {.op = "Max", .inputs = {"scores"}, .output = "score", .dims = 1u << 2},
    {.op = "Multiply", .inputs = {"score", "one"}, .output = "scaled"},
    {.op = "topK", .inputs = {"scaled"}},
};

static kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
static kvmill_pool_options pool_options = {.struct_size = sizeof pool_options};
static kvmill_tensor_scatter tensor_scatter = {
    .struct_size = sizeof tensor_scatter, .axis = -2, .past_cache = &past, .update = &update};
static kvmill_cache_attention cache_attention, flow_attention;
static kvmill_cache_attend cache_attend;
static kvmill_write_rows write_rows;
static kvmill_attention attention, step_attention;
static kvmill_tensor_scatter_attention step = {.struct_size = sizeof step,
                                               .attention = &step_attention};
static kvmill_gather gather = {.struct_size = sizeof gather,
                               .collapsed_slice_dims = {axis_0, 1},
                               .start_index_map = {axis_0, 1},
                               .slice_sizes = {size_1, 1},
                               .index_vector_dim = 1,
                               .operand = &operand,
                               .start_indices = &starts,
                               .result = &windows,
                               .operand_element = &element,
                               .result_element = &element};
static kvmill_scatter scatter = {.struct_size = sizeof scatter,
                                 .inserted_window_dims = {axis_0, 1},
                                 .scatter_dims_to_operand_dims = {axis_0, 1},
                                 .index_vector_dim = 1,
                                 .region = &region,
                                 .count = 1,
                                 .inputs = inputs,
                                 .updates = updates,
                                 .scatter_indices = &starts,
                                 .results = inputs};
static kvmill_flow_layout layout = {.struct_size = sizeof layout};
kvmill_flow callers_flow;
kvmill_flow_limits callers_limits = {
    .struct_size = sizeof callers_limits, .batch = 4, .pages = 4, .cache_pages = 4};

void callers_open(void) {
#define HEADS "num_heads=4 num_kv_heads=2 head_dim=8 T1=float32 T2=float32"
    setting_fill(&kvmill_cache_attention_attributes, &cache_attention, HEADS, NULL);
    setting_fill(&kvmill_cache_attention_attributes, &flow_attention,
                 HEADS " cache_mode=1 page_size=4", NULL);
    flow_attention.dynamic_batching = 1;
    setting_fill(kvmill_cache_attend_op.parts[0], &cache_attend,
                 "num_heads=4 key_head_dim=8 T1=float32 key_T2=float32", NULL);
    setting_fill(kvmill_write_rows_op.parts[0], &write_rows, "head_dim=8 T1=float32 T2=float32",
                 NULL);
    setting_fill(kvmill_attention_ops[0].parts[0], &attention, "", NULL);
    step_attention = attention;
    attention.Q = step_attention.Q = &query;
    attention.K = attention.V = &key;
    step_attention.K = step_attention.V = &fresh;
    step_attention.past_key = step_attention.past_value = &cache;
    step_attention.present_key = step_attention.present_value = &cache;
    setting_fill(kvmill_flow_op_def.parts[0], &callers_flow, "", NULL);
    callers_flow.attention = &flow_attention;
    callers_flow.fields = fields;
    callers_flow.constants = constants;
    callers_flow.cache = cache_program;
    callers_flow.field_count = callers_flow.constant_count = callers_flow.cache_count = 1;
    callers_flow.index = index_program;
    callers_flow.index_count = COUNT(index_program);
    callers_flow.select.topk_val = callers_flow.select.reserved_eos = 1;
}

/* ---- Calls by struct ---- */

static void finish(kvmill_plan *plan, struct answer *answer) {
    kvmill_plan_describe(plan, answer->text, sizeof answer->text);
    kvmill_plan_destroy(plan);
}

/* Defines the call of kvmill_plan_NAME with its other arguments; it plans and describes the
   plan. */
#define PLAN(NAME, ...)                                                                            \
    static kvmill_status plan_##NAME(const void *op, const kvmill_plan_options *with,              \
                                     kvmill_plan **plan, kvmill_error *error) {                    \
        return kvmill_plan_##NAME(op, __VA_ARGS__ with, plan, error);                              \
    }                                                                                              \
    static void call_##NAME(const void *given, struct answer *answer) {                            \
        kvmill_plan *plan = NULL;                                                                  \
        answer->status = plan_##NAME(given, &options, &plan, &answer->error);                      \
        finish(plan, answer);                                                                      \
    }
#define LIMITS &callers_limits,
PLAN(tensor_scatter, )
PLAN(key_value_cache, )
PLAN(multi_head_attention, )
PLAN(multi_head_cache_attention, )
PLAN(cache_attend, )
PLAN(write_rows, )
PLAN(attention, )
PLAN(tensor_scatter_attention, )
PLAN(gather, )
PLAN(scatter, )
PLAN(flow_append, LIMITS)
PLAN(flow_index, LIMITS)
PLAN(flow_attend, LIMITS)
PLAN(flow_decode, LIMITS)
PLAN(flow_summarise, LIMITS)

static void call_options(const void *given, struct answer *answer) {
    kvmill_plan *plan = NULL;
    answer->status = kvmill_plan_tensor_scatter(&tensor_scatter, given, &plan, &answer->error);
    finish(plan, answer);
}

static void call_pool(const void *given, struct answer *answer) {
    kvmill_pool *pool;
    answer->status = kvmill_pool_create(2, given, &pool, &answer->error);
    snprintf(answer->text, sizeof answer->text, "%d", kvmill_pool_threads(pool));
    kvmill_pool_destroy(pool);
}

static void call_step_attention(const void *given, struct answer *answer) {
    kvmill_tensor_scatter_attention bent = step;
    bent.attention = given;
    call_tensor_scatter_attention(&bent, answer);
}

static void call_flow_attention(const void *given, struct answer *answer) {
    kvmill_flow bent = callers_flow;
    bent.attention = given;
    call_flow_append(&bent, answer);
}

static void call_limits(const void *given, struct answer *answer) {
    kvmill_plan *plan = NULL;
    answer->status = kvmill_plan_flow_decode(&callers_flow, given, &options, &plan, &answer->error);
    finish(plan, answer);
}

static void tell_layout(const kvmill_flow *flow, void *given, struct answer *answer) {
    const kvmill_flow_layout *told = given;
    answer->status = kvmill_flow_describe(flow, given, &answer->error);
    if (given != NULL && answer->status == KVMILL_OK && told->struct_size >= sizeof layout)
        snprintf(answer->text, sizeof answer->text, "%" PRId64 " %" PRId64, told->page_bytes,
                 told->ratio_fields.denominator);
}

static void call_layout(const void *given, struct answer *answer) {
    tell_layout(&callers_flow, (void *)(uintptr_t)given, answer);
}

static void call_describe(const void *given, struct answer *answer) {
    kvmill_flow_layout told = layout;
    tell_layout(given, &told, answer);
}

static void call_field_at(const void *given, struct answer *answer) {
    kvmill_flow_field field = {0};
    if (kvmill_flow_field_at(given, 0, &field))
        snprintf(answer->text, sizeof answer->text, "%s %" PRId64, field.name, field.columns);
    kvmill_flow_describe(given, NULL, &answer->error);
    answer->status = kvmill_flow_describe(given, NULL, NULL);
}

static void call_count(const void *given, struct answer *answer) {
    const int64_t lengths[] = {0, 40};
    int64_t starts[2 * 64 + 1] = {0};
    answer->status = kvmill_flow_count(given, 2, lengths, NULL, starts, &answer->error);
    snprintf(answer->text, sizeof answer->text, "%" PRId64, starts[2]);
}

#define INIT(NAME)                                                                                 \
    static void init_##NAME(void *given, size_t size) {                                            \
        kvmill_##NAME##_init(given, size);                                                         \
    }
INIT(plan_options)
INIT(pool_options)
INIT(tensor_scatter)
INIT(cache_attention)
INIT(cache_attend)
INIT(write_rows)
INIT(attention)
INIT(tensor_scatter_attention)
INIT(gather)
INIT(scatter)
INIT(flow)
INIT(flow_layout)
INIT(flow_limits)

/* A plan function and its struct. */
#define FUNCTION(NAME, WHAT, GOOD, INIT, ...)                                                      \
    {                                                                                              \
        .name = "kvmill_plan_" #NAME, .what = (WHAT), .good = (GOOD), .call = call_##NAME,         \
        .plan = plan_##NAME, .init = init_##INIT, __VA_ARGS__                                      \
    }
/* Another function and its struct. */
#define OTHER(NAME, WHAT, GOOD, CALL, INIT, ...)                                                   \
    {                                                                                              \
        .name = (NAME), .what = (WHAT), .good = (GOOD), .call = (CALL), .init = init_##INIT,       \
        __VA_ARGS__                                                                                \
    }
#define CACHE     .own = &kvmill_cache_attention_attributes
#define FLOW      .op = &kvmill_flow_op_def
#define ATTENTION .op = &kvmill_attention_ops[0]
const struct caller callers[] = {
    OTHER("options", "options", &options, call_options, plan_options,
          .own = &kvmill_plan_options_struct, .may_be_null = true),
    OTHER("kvmill_pool_create", "options", &pool_options, call_pool, pool_options,
          .own = &kvmill_pool_options_struct, .may_be_null = true),
    FUNCTION(tensor_scatter, "op", &tensor_scatter, tensor_scatter, .op = NULL),
    FUNCTION(key_value_cache, "op", &cache_attention, cache_attention, CACHE),
    FUNCTION(multi_head_attention, "op", &cache_attention, cache_attention, CACHE),
    FUNCTION(multi_head_cache_attention, "op", &cache_attention, cache_attention, CACHE),
    FUNCTION(cache_attend, "op", &cache_attend, cache_attend, .op = &kvmill_cache_attend_op),
    FUNCTION(write_rows, "op", &write_rows, write_rows, .op = &kvmill_write_rows_op),
    FUNCTION(attention, "op", &attention, attention, ATTENTION),
    FUNCTION(tensor_scatter_attention, "op", &step, tensor_scatter_attention,
             .own = &kvmill_step_struct),
    OTHER("the attention of a step", "op.attention", &step_attention, call_step_attention,
          attention, ATTENTION),
    FUNCTION(gather, "op", &gather, gather, .op = &kvmill_gather_op),
    FUNCTION(scatter, "op", &scatter, scatter, .op = &kvmill_scatter_op),
    OTHER("kvmill_flow_describe", "flow", &callers_flow, call_describe, flow, FLOW),
    OTHER("kvmill_flow_field_at", "flow", &callers_flow, call_field_at, flow, FLOW),
    OTHER("kvmill_flow_count", "flow", &callers_flow, call_count, flow, FLOW),
    FUNCTION(flow_append, "flow", &callers_flow, flow, FLOW),
    FUNCTION(flow_index, "flow", &callers_flow, flow, FLOW),
    FUNCTION(flow_attend, "flow", &callers_flow, flow, FLOW),
    FUNCTION(flow_decode, "flow", &callers_flow, flow, FLOW),
    FUNCTION(flow_summarise, "flow", &callers_flow, flow, FLOW),
    OTHER("the attention of a flow", "flow.attention", &flow_attention, call_flow_attention,
          cache_attention, CACHE),
    OTHER("limits", "limits", &callers_limits, call_limits, flow_limits,
          .own = &kvmill_flow_limits_struct),
    OTHER("a layout", "layout", &layout, call_layout, flow_layout,
          .own = &kvmill_flow_layout_struct, .may_be_null = true, .is_result = true),
    {.name = NULL},
};

const struct op_struct *caller_part(const struct caller *caller) {
    if (caller->own != NULL)
        return caller->own;
    return (caller->op != NULL ? caller->op : kvmill_op_of(OP_TENSOR_SCATTER, 0))->parts[0];
}
