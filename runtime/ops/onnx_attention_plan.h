/* ONNX Attention: sequences of different lengths, keys in two pieces of memory, masks of many
   forms. onnx_attention_plan.c creates plans, onnx_attention_check.c checks runs,
   onnx_attention_view.c makes the view for attention, onnx_attention_wide.c computes what no kernel
   computes, and onnx_attention_copy.c copies tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_ONNX_ATTENTION_PLAN_H
#define KVMILL_RUNTIME_OPS_ONNX_ATTENTION_PLAN_H

#include "../../ops/onnx_attention.h"
#include "../attend/engine.h"
#include "../core/check.h"
#include "../core/phase.h"

/* ---- Plans ---- */

enum { ALL_ATTENTION_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

struct onnx_plan {
    kvmill_plan base;
    struct attend_plan attend;
    const char *name;
    kvmill_attention op; /* without its tensors */
    struct kvmill_attention_geometry geometry;
    DLDataType types[ALL_ATTENTION_TENSORS];
    bool has[ALL_ATTENTION_TENSORS];
    kvmill_plan *scatter[2]; /* for a step: K and V; NULL if padding is left out */
};

/* ---- Runs ---- */

/* The source of a present tensor's rows. */
struct present_view {
    struct token_rows rows; /* data NULL: it is not wanted */
    int64_t row_bytes;
};

/* The data of a run, in the workspace. */
struct onnx_run {
    const struct onnx_plan *plan;
    struct kvmill_attention_geometry geometry; /* without open dims */
    struct index_array lengths;                /* nonpad_kv_seqlen, if given */
    struct index_array starts;                 /* write_indices, if given */
    struct token_rows fresh[2];                /* K and V */
    struct present_view present[2];
    struct token_rows scores; /* qk_matmul_output */
    kvmill_call scatter[2];   /* of a step */
};

struct onnx_call {
    struct attend_call base;
    struct onnx_run *run;
};

_Static_assert(sizeof(struct onnx_call) <= sizeof(kvmill_call), "kvmill_call is too small");

static inline const struct onnx_plan *onnx_plan_of(const struct onnx_call *call) {
    return (const struct onnx_plan *)(const void *)call->base.base.base.plan;
}

static inline const struct onnx_call *onnx_call_of(const struct call *call) {
    return (const struct onnx_call *)(const void *)call;
}

/* The number of valid keys of a batch entry. */
int64_t kvmill_onnx_length(const struct onnx_run *run, int64_t b);

/* The number of the first key in the second piece of memory. */
int64_t kvmill_onnx_joint(const struct onnx_run *run, int64_t b);

/* Set what attention needs of a run, except for tensors. */
void kvmill_onnx_set_view(struct onnx_call *call);

/* ---- Plans and their phases ---- */

/* Validate a run and fill the call; op.begin. */
kvmill_status kvmill_onnx_attention_begin(struct call *call, const DLTensor *const *tensors,
                                          kvmill_error *error);

/* All phases of a run (onnx_attention_phases.c); those that it does not need have no parts. */
extern const struct phase *const kvmill_onnx_phases[];

extern const struct phase kvmill_wide_phase;   /* Y in float64 */
extern const struct phase kvmill_scores_phase; /* qk_matmul_output */
extern const struct phase kvmill_present_phase;
extern const struct phase kvmill_scatter_phase; /* of a step: K and V into the caches */
extern const struct phase kvmill_ring_phase;    /* the same, without padding */

#endif
