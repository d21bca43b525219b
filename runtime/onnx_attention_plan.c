/* Planning ONNX Attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../ops/dtype.h"
#include "../ops/fail.h"
#include "onnx_attention.h"

static void destroy(kvmill_plan *plan) {
    free(((struct cache_plan *)(void *)plan)->onnx);
    free(plan);
}

static const struct op onnx_attention_op = {
    .begin = kvmill_onnx_attention_begin,
    .parts = kvmill_cache_attention_parts,
    .part = kvmill_cache_attention_part,
    .next = kvmill_cache_attention_next,
    .destroy = destroy,
};

static const struct phase *const phases[] = {&kvmill_attend_phase,  &kvmill_merge_phase,
                                             &kvmill_wide_phase,    &kvmill_scores_phase,
                                             &kvmill_present_phase, NULL};

/* ---- Words ---- */

static void say_problem(const struct onnx_plan *onnx, char *text, size_t size) {
    const struct kvmill_attention_geometry *geometry = &onnx->geometry;
    bool masked = onnx->has[KVMILL_ATTENTION_MASK];
    snprintf(text, size,
             "Attention-%" PRId64 ", %" PRId64 " heads on %" PRId64 ", Q and K %s of %" PRId64
             ", V %s of %" PRId64 "%s%s",
             onnx->op.opset, geometry->heads, geometry->kv_heads,
             kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_Q]), geometry->key_dim,
             kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_V]), geometry->value_dim,
             masked ? ", attn_mask " : "",
             masked ? kvmill_dtype_name(onnx->types[KVMILL_ATTENTION_MASK]) : "");
}

static void say_kernels(struct cache_plan *plan) {
    const struct onnx_plan *onnx = plan->onnx;
    char *text = plan->base.description;
    size_t size = sizeof plan->base.description;
    say_problem(onnx, text, size);
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, size - used, "; attend with ");
    if (onnx->geometry.is_wide)
        used += (size_t)snprintf(text + used, size - used,
                                 "a portable function in float64 (no family of kernels has it)");
    else
        used += kvmill_tiles_words(&plan->tiles[onnx->has[KVMILL_ATTENTION_MASK]], text + used,
                                   size - used);
    if (onnx->has[KVMILL_ATTENTION_QK_MATMUL_OUTPUT])
        snprintf(text + used, size - used,
                 "; qk_matmul_output, mode %" PRId64
                 ", with a portable function in float64 (no family of kernels has it)",
                 onnx->op.qk_matmul_output_mode);
}

/* ---- Plans ---- */

static void set_onnx(const kvmill_attention *op, const struct kvmill_attention_geometry *geometry,
                     struct onnx_plan *onnx) {
    const DLTensor *tensors[KVMILL_ATTENTION_TENSORS];
    kvmill_attention_tensors(op, tensors);
    onnx->op = *op;
    onnx->geometry = *geometry;
    for (int i = 0; i < KVMILL_ATTENTION_TENSORS; i++) {
        onnx->has[i] = tensors[i] != NULL || i == KVMILL_ATTENTION_Y;
        onnx->types[i] = tensors[i] != NULL ? tensors[i]->dtype : op->Q->dtype;
    }
}

static struct cache_plan *allocate(const kvmill_attention *op,
                                   const struct kvmill_attention_geometry *geometry, int threads) {
    struct cache_plan *plan = calloc(1, sizeof *plan);
    struct onnx_plan *onnx = calloc(1, sizeof *onnx);
    if (plan == NULL || onnx == NULL) {
        free(plan);
        free(onnx);
        return NULL;
    }
    set_onnx(op, geometry, onnx);
    plan->base.op = &onnx_attention_op;
    plan->onnx = onnx;
    plan->phases = phases;
    plan->threads = threads;
    plan->geometry = kvmill_attention_cache_geometry(op, geometry);
    snprintf(plan->name, sizeof plan->name, "Attention");
    return plan;
}

static void select_kernels(struct cache_plan *plan, const struct shelf *shelf) {
    bool masked = plan->onnx->has[KVMILL_ATTENTION_MASK];
    const struct kvmill_attend_shape wanted = kvmill_attend_shape_of(&plan->geometry, masked);
    if (!plan->onnx->geometry.is_wide)
        kvmill_select_tiles(shelf, &wanted, &plan->tiles[masked]);
    kvmill_attend_lay_out(plan, sizeof(struct onnx_run));
    say_kernels(plan);
}

static kvmill_status make_plan(const kvmill_attention *op, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_attention_geometry geometry;
    struct shelf shelf;
    int threads;
    kvmill_status status = kvmill_attention_check(op, &geometry, error);
    if (status == KVMILL_OK)
        status = kvmill_check_threads(options, &threads, error);
    if (status == KVMILL_OK)
        status = kvmill_open_shelf(options, &shelf, error);
    if (status != KVMILL_OK)
        return status;
    struct cache_plan *made = allocate(op, &geometry, threads);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    select_kernels(made, &shelf);
    *plan = &made->base;
    kvmill_plan_announce(*plan);
    return kvmill_succeed(error);
}

kvmill_status kvmill_plan_attention(const kvmill_attention *op, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error) {
    if (plan == NULL || op == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL", plan == NULL ? "plan" : "op");
    *plan = NULL;
    kvmill_status status = kvmill_plan_check_sizes(op->struct_size, sizeof *op, options, error);
    return status == KVMILL_OK ? make_plan(op, options, plan, error) : status;
}
