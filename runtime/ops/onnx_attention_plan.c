/* Planning ONNX Attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../defs/dtype.h"
#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "../core/plan_words.h"
#include "onnx_attention_plan.h"

static void destroy_onnx_attention(kvmill_plan *base) {
    struct onnx_plan *plan = (struct onnx_plan *)(void *)base;
    for (int v = 0; v < 2; v++)
        kvmill_plan_destroy(plan->scatter[v]);
    free(plan);
}

static const struct plan_op onnx_attention_op = {
    .begin = kvmill_onnx_attention_begin,
    .parts = kvmill_phase_parts,
    .part = kvmill_phase_part,
    .work = kvmill_phase_work,
    .next = kvmill_phase_next,
    .destroy = destroy_onnx_attention,
};

/* ---- Words ---- */

static void say_problem(struct words *words, const struct onnx_plan *onnx) {
    const struct kvmill_attention_geometry *geometry = &onnx->geometry;
    kvmill_words_add(words, "%s-%" PRId64 "%s, %" PRId64 " heads on %" PRId64,
                     geometry->step ? "TensorScatterAttention" : "Attention", onnx->op.opset,
                     geometry->circular ? " circular" : "", geometry->heads, geometry->kv_heads);
    kvmill_words_add(words, ", Q and K %s of %" PRId64 ", V %s of %" PRId64,
                     kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_Q]), geometry->key_dim,
                     kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_V]), geometry->value_dim);
    if (onnx->has[KVMILL_ATTENTION_ATTN_MASK])
        kvmill_words_add(words, ", attn_mask %s",
                         kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_ATTN_MASK]));
}

static void say_kernels(struct onnx_plan *plan) {
    static const char portable[] = " a portable function in float64 (no family of kernels has it)";
    struct words words = {plan->base.description, sizeof plan->base.description};
    say_problem(&words, plan);
    kvmill_words_add(&words, "; attend with");
    if (plan->geometry.is_wide)
        kvmill_words_add(&words, "%s", portable);
    else
        kvmill_describe_tiles(&words, &plan->attend.tiles[plan->has[KVMILL_ATTENTION_ATTN_MASK]]);
    for (int v = 0; v < 2 && plan->scatter[v] != NULL; v++) {
        kvmill_words_add(&words, "; then ");
        kvmill_said(&words, kvmill_plan_describe(plan->scatter[v], words.at, words.left));
    }
    if (plan->geometry.step && plan->scatter[0] == NULL)
        kvmill_words_add(&words, "; then store K and V with a portable copy (without padding)");
    if (plan->has[KVMILL_ATTENTION_QK_MATMUL_OUTPUT])
        kvmill_words_add(&words, "; qk_matmul_output of mode %" PRId64 " with%s",
                         plan->op.qk_matmul_output_mode, portable);
}

/* ---- Plans ---- */

/* What to plan; step is NULL for Attention alone. */
struct source {
    const kvmill_attention *op;
    const kvmill_tensor_scatter_attention *step;
    struct kvmill_attention_geometry geometry;
};

/* A step has all outputs; its prototypes may be missing. */
static bool has_tensor(const struct source *source, const DLTensor *tensor, int which) {
    bool cache = source->step != NULL &&
                 (which == KVMILL_ATTENTION_PRESENT_KEY || which == KVMILL_ATTENTION_PRESENT_VALUE);
    return tensor != NULL || which == KVMILL_ATTENTION_Y || cache;
}

static DLDataType type_of(const struct source *source, const DLTensor *tensor, int which) {
    if (tensor != NULL)
        return tensor->dtype;
    return which == KVMILL_ATTENTION_PRESENT_VALUE ? source->op->V->dtype : source->op->Q->dtype;
}

static void set_onnx(const struct source *source, struct onnx_plan *onnx) {
    const DLTensor *tensors[ALL_ATTENTION_TENSORS];
    kvmill_attention_tensors(source->op, tensors);
    tensors[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES] =
        source->step ? source->step->write_indices : NULL;
    onnx->op = *source->op;
    onnx->geometry = source->geometry;
    for (int i = 0; i < ALL_ATTENTION_TENSORS; i++) {
        onnx->has[i] = has_tensor(source, tensors[i], i);
        onnx->types[i] = type_of(source, tensors[i], i);
    }
}

static struct onnx_plan *allocate(const struct source *source, int threads) {
    const struct kvmill_cache_geometry geometry =
        kvmill_attention_cache_geometry(source->op, &source->geometry);
    struct onnx_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    set_onnx(source, plan);
    plan->base.op = &onnx_attention_op;
    plan->base.tensor_count = source->step ? ALL_ATTENTION_TENSORS : KVMILL_ATTENTION_TENSORS;
    plan->base.threads = threads;
    plan->name = source->step ? "TensorScatterAttention" : "Attention";
    plan->attend = kvmill_attend_plan_of(&geometry, threads);
    plan->attend.converts = plan->has[KVMILL_ATTENTION_ATTN_MASK];
    return plan;
}

/* In a ring, padding would replace keys that queries still see. */
static kvmill_status plan_scatters(const struct source *source, const kvmill_plan_options *options,
                                   struct onnx_plan *onnx, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    bool padded = source->geometry.circular && onnx->has[KVMILL_ATTENTION_NONPAD_KV_SEQLEN];
    for (int v = 0; status == KVMILL_OK && source->step != NULL && !padded && v < 2; v++) {
        const kvmill_tensor_scatter scatter = kvmill_attention_scatter(source->step, v);
        status = kvmill_plan_tensor_scatter(&scatter, options, &onnx->scatter[v], error);
    }
    return status;
}

/* Ops for which no family has kernels lack one in any pack. */
static void need_kernels(struct onnx_plan *plan, const struct kernel_search *search) {
    struct kernel_search none = *search;
    none.portable_reason = "no family of kernels has it";
    if (plan->geometry.is_wide)
        kvmill_need(&plan->base.needs, &none, EVERY_RUN, "attend in float64", NULL);
    else
        kvmill_need_tiles(&plan->base.needs, search, EVERY_RUN,
                          &plan->attend.tiles[plan->has[KVMILL_ATTENTION_ATTN_MASK]]);
    if (plan->has[KVMILL_ATTENTION_QK_MATMUL_OUTPUT])
        kvmill_need(&plan->base.needs, &none, EVERY_RUN, "write qk_matmul_output", NULL);
    if (plan->geometry.step && plan->scatter[0] == NULL)
        kvmill_need(&plan->base.needs, &none, EVERY_RUN, "store rows without padding", NULL);
}

static void select_kernels(struct onnx_plan *plan, const struct kernel_search *search) {
    bool masked = plan->has[KVMILL_ATTENTION_ATTN_MASK];
    const struct kvmill_cache_geometry geometry =
        kvmill_attention_cache_geometry(&plan->op, &plan->geometry);
    const struct kvmill_attend_shape wanted = kvmill_attend_shape_of(&geometry, masked);
    if (!plan->geometry.is_wide)
        kvmill_select_tiles(search, &wanted, &plan->attend.tiles[masked]);
    need_kernels(plan, search);
    plan->base.workspace_size = kvmill_attend_lay_out(&plan->attend) + sizeof(struct onnx_run);
    say_kernels(plan);
}

static kvmill_status make_plan(const struct source *source, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct kernel_search search;
    kvmill_status status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    struct onnx_plan *made = allocate(source, options->threads);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    status = plan_scatters(source, options, made, error);
    if (status != KVMILL_OK) {
        destroy_onnx_attention(&made->base);
        return status;
    }
    select_kernels(made, &search);
    return kvmill_plan_finish(&made->base, plan, error);
}

kvmill_status kvmill_plan_attention(const kvmill_attention *given,
                                    const kvmill_plan_options *options, kvmill_plan **plan,
                                    kvmill_error *error) {
    kvmill_attention op;
    struct source source = {.op = &op};
    struct plan_call call = {
        .part = kvmill_attention_ops[0].parts[0], .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status == KVMILL_OK)
        status = kvmill_attention_check(&op, &source.geometry, error);
    return status == KVMILL_OK ? make_plan(&source, &call.options, plan, error) : status;
}

kvmill_status kvmill_plan_tensor_scatter_attention(const kvmill_tensor_scatter_attention *given,
                                                   const kvmill_plan_options *options,
                                                   kvmill_plan **plan, kvmill_error *error) {
    kvmill_attention attention;
    kvmill_tensor_scatter_attention op;
    struct source source = {.op = &attention, .step = &op};
    struct plan_call call = {.part = &kvmill_step_struct, .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status == KVMILL_OK)
        status = kvmill_take_struct(kvmill_attention_ops[0].parts[0], "op.attention", op.attention,
                                    &attention, error);
    op.attention = &attention;
    if (status == KVMILL_OK)
        status = kvmill_attention_step_check(&op, &source.geometry, error);
    return status == KVMILL_OK ? make_plan(&source, &call.options, plan, error) : status;
}
