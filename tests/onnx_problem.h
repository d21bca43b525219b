/* Problems of ONNX Attention and TensorScatterAttention for tests.  Settings become tensors in
   fenced memory, with numbers where the op may read and NaN elsewhere.  Runs them, and compares the
   results with the oracle's.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ONNX_PROBLEM_H
#define KVMILL_TESTS_ONNX_PROBLEM_H

#include "elements.h"
#include "oracle/oracle_onnx_attention.h"

enum { ONNX_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS, MOST_ENTRIES = 8 };

struct onnx_problem {
    /* Inputs of onnx_open. */
    kvmill_attention op; /* its attributes */
    DLDataType T1, T2, U;
    /* Some are flags: */
    int64_t step, circular, packed;
    int64_t batch, heads, kv_heads, queries, dim, value_dim;
    int64_t past, keys; /* past: for a step, the capacity */
    int64_t mask_rank;  /* 0: no mask */
    int64_t hidden_in;  /* one in this many elements of the mask is hidden, on average; 0: zero */
    int64_t qk, in_place;
    int64_t grown; /* the past is the first rows of a present that is given, K and V its last */
    int64_t mask_dims[4];
    int64_t spread, present[2], has_nonpad, has_starts; /* flags */
    int64_t nonpad[MOST_ENTRIES], starts[MOST_ENTRIES];

    /* Set by onnx_open.  Numbers are in the oracle's order. */
    struct fenced_tensor tensor[ONNX_TENSORS];
    const DLTensor *given[ONNX_TENSORS];
    struct fenced_tensor before[ONNX_TENSORS];
    double *q, *mask;
    double *k[2], *fresh[2]; /* K and V: all of Attention's, or a step's cache; a step's new rows */

    /* Set by onnx_expect. */
    struct oracle_onnx_result result;
    char words[512];
};

/* Returns a problem with a batch of one, in float32, with as many heads as kv heads, unless the
   settings say more.  Settings are the op's attributes; left and right, its windows; the members
   above by their names; nonpad and starts, for each entry or for all; mask, a number of columns.
   onnx_say takes alternatives, from which dice choose. */
struct onnx_problem onnx_problem(const char *settings);
void onnx_say(struct onnx_problem *problem, const char *settings, struct dice *dice);

/* A test may change a tensor's data after onnx_open by onnx_put; onnx_expect then updates q, mask,
   k and fresh. */
void onnx_open(struct onnx_problem *problem, struct dice *dice);
void onnx_close(struct onnx_problem *problem);

/* Read and write element [b, h, r, d] of Q, K, V, the past, Y, a present or qk_matmul_output. */
double onnx_get(const struct onnx_problem *problem, int tensor, int64_t b, int64_t h, int64_t r,
                int64_t d);
void onnx_put(struct onnx_problem *problem, int tensor, int64_t b, int64_t h, int64_t r, int64_t d,
              double x);

/* Sets element n of the mask. */
void onnx_put_mask(struct onnx_problem *problem, int64_t n, double x);

/* Reads the tensors again, computes the oracle's result, and copies the tensors. */
void onnx_expect(struct onnx_problem *problem, struct dice *dice);

kvmill_status onnx_plan(const struct onnx_problem *problem, const kvmill_plan_options *options,
                        kvmill_plan **plan, kvmill_error *error);

/* Runs the parts of every phase in random order on this many threads; 0: kvmill_run.  Writes to
   inputs trap. */
kvmill_status onnx_run(const struct onnx_problem *problem, const kvmill_plan *plan, int threads,
                       struct dice *dice, kvmill_error *error);

/* Checks that outputs are the oracle's, and everything else is unchanged. */
bool onnx_is_right(struct onnx_problem *problem);

#endif
