/* SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

static const DLDataType bytes = {kDLUInt, 8, 1}, integer = {kDLInt, 64, 1};

const char *blocks_format(const struct node *node, int side) {
    const struct attributes *said = &node->attributes;
    return side ? said->value_cache_format : said->key_cache_format;
}

/* ---- Plans ---- */

static kvmill_status plan_store(const struct node *node, const DLTensor *const *inputs, int side,
                                const kvmill_plan_options *options, kvmill_plan **plan,
                                kvmill_error *error) {
    kvmill_write_rows op;
    kvmill_write_rows_init(&op, sizeof op);
    op.head_dim = value_last_dim(inputs[KVMILL_WRITE_ROWS_ROWS]);
    op.T1 = inputs[KVMILL_WRITE_ROWS_ROWS]->dtype;
    op.T2 = bytes;
    op.cache_format = blocks_format(node, side);
    return kvmill_plan_write_rows(&op, options, plan, error);
}

#define PLAN_STORE(SIDE, NUMBER)                                                                   \
    static kvmill_status plan_store_##SIDE(const struct node *node, const DLTensor *const *inputs, \
                                           uint64_t outputs, const kvmill_plan_options *options,   \
                                           kvmill_plan **plan, kvmill_error *error) {              \
        (void)outputs;                                                                             \
        return plan_store(node, inputs, NUMBER, options, plan, error);                             \
    }
PLAN_STORE(key, 0)
PLAN_STORE(value, 1)
#undef PLAN_STORE

static unsigned fixed_blocks(const struct node *node, int tensor, int rank) {
    (void)node;
    return tensor == KVMILL_WRITE_ROWS_ROWS ? 1u << (rank - 1) : 0;
}

static int64_t work_blocks(const DLTensor *const *given) {
    return value_bytes(given[KVMILL_WRITE_ROWS_ROWS]) * 4;
}

#define STORE                                                                                      \
    .name = "WriteRows", .tensors = KVMILL_WRITE_ROWS_TENSORS, .fixed = fixed_blocks,              \
    .work = work_blocks
static const struct node_op stores[BLOCKS_SIDES] = {{STORE, .plan = plan_store_key},
                                                    {STORE, .plan = plan_store_value}};

/* ---- Storing ---- */

enum { RANK = 3 };

static DLTensor tensor_of(void *data, DLDataType type, int rank, int64_t *shape) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = type, .shape = shape};
}

OrtStatus *blocks_store(const struct node_run *run, int side, const struct block_rows *rows,
                        const struct block_cache *cache) {
    int64_t from[RANK] = {rows->count, 1, rows->dim}, to[RANK] = {cache->rows, 1, cache->bytes};
    DLTensor flat = tensor_of((void *)(uintptr_t)rows->data, rows->type, RANK, from),
             slots = tensor_of((void *)(uintptr_t)rows->slots, integer, 1, from),
             cells = tensor_of(cache->data, bytes, RANK, to);
    const DLTensor *const given[KVMILL_WRITE_ROWS_TENSORS] = {[KVMILL_WRITE_ROWS_ROWS] = &flat,
                                                              [KVMILL_WRITE_ROWS_SLOTS] = &slots,
                                                              [KVMILL_WRITE_ROWS_CACHE] = &cells};
    return node_run_op(run, &stores[side], given);
}
