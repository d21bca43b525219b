/* What ONNX Attention-23, 24 and 25 and TensorScatterAttention mean, number by number.  Their plans
   are judged by it.

   Arithmetic is double.  Numbers are doubles in arrays without gaps, for all types and ranks of the
   tensors.  Shares no code with what it judges; its only aim is to be obvious.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_ONNX_ATTENTION_H
#define KVMILL_TESTS_ORACLE_ORACLE_ONNX_ATTENTION_H

#include "oracle_numbers.h"

/* A mask as the op gets it: its dims are the last of [batch, heads, queries, keys]. */
struct oracle_mask {
    int rank; /* 0: none */
    int64_t dims[4];
    bool is_bool; /* numbers are 0 and 1 */
    const double *numbers;
};

struct oracle_onnx {
    int64_t batch, heads, kv_heads, queries, dim, value_dim;
    int64_t past, keys;    /* rows of the past, and rows after it */
    const int64_t *nonpad; /* NULL: all */
    const double *q;       /* [batch, heads, queries, dim] */
    const double *k, *v;   /* [batch, kv_heads, past + keys, dim or value_dim] */
    struct oracle_mask mask;
    bool is_causal;
    int64_t left, right; /* -1: unbounded */
    double scale, softcap;
    int qk_mode;
    enum oracle_type type; /* T1, unless `wide`: float64 */
    bool wide;
    double unit; /* unit of the judged arithmetic: 2^-24, or 2^-53 */
};

/* Arrays of [batch, heads, queries, value_dim] and [batch, heads, queries, past + keys].  The
   errors bound the error of that arithmetic before results are rounded. */
struct oracle_onnx_result {
    double *y, *y_error, *qk, *qk_error;
};

void oracle_onnx_attend(const struct oracle_onnx *problem, const struct oracle_onnx_result *result);

/* A step: `keys` rows of new_k and new_v, [batch, kv_heads, keys, ...], and as many queries.  k and
   v are caches of `past` slots, which the step updates.  No qk. */
struct oracle_step {
    struct oracle_onnx attention;
    bool circular;
    const int64_t *starts; /* NULL: 0 */
    const double *new_k, *new_v;
    double *k, *v;
};

void oracle_onnx_step(const struct oracle_step *step, const struct oracle_onnx_result *result);

#endif
