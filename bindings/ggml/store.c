/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <string.h>

#include "ggml_plans.h"
#include "ggml_rows.h"

enum { ROWS, SLOTS }; /* sources of a node */

/* The size of the kernels' rows: they divide ggml's row, which has all heads of a token. */
enum { DIM = 64 };

/* ---- Nodes that kvmill takes ---- */

/* Rows of several caches may share slots: dims 2 and 3 of the rows are multiples of those of the
   slots. */
static bool takes_slots(const struct ggml_tensor *slots, const struct ggml_tensor *rows) {
    return slots != NULL && (slots->type == GGML_TYPE_I64 || slots->type == GGML_TYPE_I32) &&
           has_rows(slots) && slots->ne[0] == rows->ne[1] && slots->ne[3] == 1 &&
           slots->ne[1] > 0 && slots->ne[2] > 0 && rows->ne[2] % slots->ne[1] == 0 &&
           rows->ne[3] % slots->ne[2] == 0;
}

/* Copies, and conversions of many values to float16, are limited by memory: ggml is as fast. */
enum { MOST_HALVES = 48 * 512 };

static bool is_as_fast_there(const struct ggml_tensor *node) {
    const struct ggml_tensor *rows = node->src[ROWS];
    return node->type == GGML_TYPE_F32 ||
           (node->type == GGML_TYPE_F16 && rows->ne[0] * rows->ne[1] > MOST_HALVES);
}

static bool takes_tensors(const struct ggml_tensor *node) {
    const struct ggml_tensor *rows = node->src[ROWS], *slots = node->src[SLOTS];
    return has_type(rows, GGML_TYPE_F32) && takes_slots(slots, rows) && has_rows(node) &&
           !is_as_fast_there(node) && rows->ne[0] % DIM == 0 && rows->ne[0] == node->ne[0] &&
           rows->ne[2] == node->ne[2] && rows->ne[3] == node->ne[3];
}

const kvmill_plan *store_plan(const struct ggml_tensor *node) {
    kvmill_write_rows op;
    if (!takes_tensors(node))
        return NULL;
    memset(&op, 0, sizeof op);
    kvmill_write_rows_init(&op, sizeof op);
    op.head_dim = DIM;
    op.T1 = float32;
    op.T2 = row_type_of(node).element;
    op.cache_format = row_type_of(node).format;
    return plans_find_store(&op);
}

/* ---- A run ---- */

/* Dims: rows, pieces of DIM values, elements of a piece. */
struct pieces {
    int64_t shape[3], strides[3];
};

static DLTensor pieces_of(const struct ggml_tensor *tensor, void *data, struct pieces *pieces) {
    const struct row_type type = row_type_of(tensor);
    int64_t bytes = type.element.bits / 8, piece = DIM / type.values * (type.bytes / bytes);
    *pieces = (struct pieces){{tensor->ne[1], tensor->ne[0] / DIM, piece},
                              {(int64_t)tensor->nb[1] / bytes, piece, 1}};
    return (DLTensor){data, {kDLCPU, 0}, 3, type.element, pieces->shape, pieces->strides, 0};
}

/* Returns the address of a tensor's place in two of its dims, which are repeated. */
static void *place(const struct ggml_tensor *tensor, int dim, int64_t i, int64_t j) {
    return (char *)tensor->data + (size_t)(i % tensor->ne[dim]) * tensor->nb[dim] +
           (size_t)(j % tensor->ne[dim + 1]) * tensor->nb[dim + 1];
}

static kvmill_status store_one(const struct ggml_tensor *node, int64_t i, int64_t j,
                               const kvmill_plan *plan, void *workspace, kvmill_pool *pool,
                               kvmill_error *error) {
    struct ggml_tensor *numbers = node->src[SLOTS];
    uint8_t bits = numbers->type == GGML_TYPE_I64 ? 64 : 32;
    struct pieces from, to;
    DLTensor rows = pieces_of(node->src[ROWS], place(node->src[ROWS], 2, i, j), &from);
    DLTensor cache = pieces_of(node, place(node, 2, i, j), &to);
    DLTensor slots = {
        place(numbers, 1, i, j), {kDLCPU, 0}, 1, {kDLInt, bits, 1}, numbers->ne, NULL, 0};
    const DLTensor *tensors[KVMILL_WRITE_ROWS_TENSORS] = {[KVMILL_WRITE_ROWS_ROWS] = &rows,
                                                          [KVMILL_WRITE_ROWS_SLOTS] = &slots,
                                                          [KVMILL_WRITE_ROWS_CACHE] = &cache};
    if (pool == NULL)
        return kvmill_run(plan, tensors, KVMILL_WRITE_ROWS_TENSORS, workspace, error);
    return kvmill_run_on(plan, pool, tensors, KVMILL_WRITE_ROWS_TENSORS, workspace, error);
}

kvmill_status store_run(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                        kvmill_pool *pool, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (int64_t j = 0; j < node->ne[3]; j++)
        for (int64_t i = 0; status == KVMILL_OK && i < node->ne[2]; i++)
            status = store_one(node, i, j, plan, workspace, pool, error);
    return status;
}
