/* SPDX-License-Identifier: Apache-2.0 */
#include "group_query.h"

#include "blocks.h"
#include "ort_values.h"

_Static_assert((int)KVMILL_GROUP_QUERY_TENSORS <= (int)MOST_TENSORS,
               "a node has room for its tensors");

/* The node as ops/served/group_query_served.h has it. */
static struct kvmill_group_query_node neutral_of(const struct node *node,
                                                 const DLTensor *const *inputs, uint64_t outputs,
                                                 const char *const *formats) {
    return (struct kvmill_group_query_node){.said = &node->attributes.group_query,
                                            .inputs = inputs,
                                            .outputs = outputs,
                                            .formats =
                                                node->op == &cache_group_query_op ? formats : NULL};
}

/* ---- Heads ---- */

kvmill_status group_query_find_heads(const struct node *node, const DLTensor *const *inputs,
                                     uint64_t outputs, struct kvmill_group_query_heads *heads,
                                     kvmill_error *error) {
    const char *const formats[] = {blocks_format(node, 0), blocks_format(node, 1)};
    const struct kvmill_group_query_node neutral = neutral_of(node, inputs, outputs, formats);
    return kvmill_group_query_check(&neutral, heads, error);
}

/* ---- Plans ---- */

static unsigned fixed_group_query(const struct node *node, int tensor, int rank) {
    (void)node, (void)rank;
    return tensor == KVMILL_GROUP_QUERY_QUERY ? 1u << 2 : 0;
}

static kvmill_status plan_group_query(const struct node *node, const DLTensor *const *inputs,
                                      uint64_t outputs, const kvmill_plan_options *options,
                                      kvmill_plan **plan, kvmill_error *error) {
    const char *const formats[] = {blocks_format(node, 0), blocks_format(node, 1)};
    const struct kvmill_group_query_node neutral = neutral_of(node, inputs, outputs, formats);
    struct kvmill_group_query_heads heads;
    *plan = NULL;
    kvmill_status status = kvmill_group_query_check(&neutral, &heads, error);
    if (status != KVMILL_OK)
        return status;
    kvmill_cache_attend op = kvmill_group_query_attend(&neutral, &heads);
    op.math = node->settings.math;
    return kvmill_plan_cache_attend(&op, options, plan, error);
}

/* ---- Outputs ---- */

/* The capacity is known only at run time, from total_sequence_length, unless caches hold a window.
 */
static int64_t capacity(const struct kvmill_group_query *said, const DLTensor *const *inputs) {
    const DLTensor *given = inputs[KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH];
    int64_t rows = group_query_past_rows(inputs);
    if (said->sliding_window_cache != 0)
        return rows;
    if (given == NULL || given->data == NULL)
        return KVMILL_DYNAMIC;
    int64_t total = group_query_integer(given, 0);
    return rows > total ? rows : total;
}

static int shape_group_query(const struct node *node, const DLTensor *const *inputs, int tensor,
                             int64_t dims[MOST_RANK]) {
    const struct kvmill_group_query *said = &node->attributes.group_query;
    const DLTensor *query = inputs[KVMILL_GROUP_QUERY_QUERY];
    const DLTensor *past =
        inputs[tensor == KVMILL_GROUP_QUERY_PRESENT_VALUE ? KVMILL_GROUP_QUERY_PAST_VALUE
                                                          : KVMILL_GROUP_QUERY_PAST_KEY];
    bool packed = inputs[KVMILL_GROUP_QUERY_KEY] == NULL;
    int64_t dim = query->shape[2] / (said->num_heads + (packed ? 2 * said->kv_num_heads : 0));
    dims[0] = query->shape[0];
    dims[1] = tensor == KVMILL_GROUP_QUERY_OUTPUT ? query->shape[1] : said->kv_num_heads;
    dims[2] = tensor == KVMILL_GROUP_QUERY_OUTPUT ? dim * said->num_heads : capacity(said, inputs);
    dims[3] = past != NULL ? value_last_dim(past) : dim;
    return tensor == KVMILL_GROUP_QUERY_OUTPUT ? 3 : 4;
}

int64_t group_query_work(const DLTensor *const *given) {
    return (value_bytes(given[KVMILL_GROUP_QUERY_PRESENT_KEY]) +
            value_bytes(given[KVMILL_GROUP_QUERY_PRESENT_VALUE])) *
           given[KVMILL_GROUP_QUERY_QUERY]->shape[1];
}

static int cache_of(int tensor) {
    bool cache =
        tensor == KVMILL_GROUP_QUERY_PRESENT_KEY || tensor == KVMILL_GROUP_QUERY_PRESENT_VALUE;
    return cache ? tensor - KVMILL_GROUP_QUERY_PRESENT_KEY + KVMILL_GROUP_QUERY_PAST_KEY : -1;
}

/* ---- The ops ---- */

enum {
    REQUIRED = 1u << KVMILL_GROUP_QUERY_QUERY | 1u << KVMILL_GROUP_QUERY_SEQLENS_K |
               1u << KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH
};

#define GROUP_QUERY                                                                                \
    .name = "GroupQueryAttention", .tensors = KVMILL_GROUP_QUERY_TENSORS,                          \
    .inputs = {17,                                                                                 \
               {KVMILL_GROUP_QUERY_QUERY, KVMILL_GROUP_QUERY_KEY, KVMILL_GROUP_QUERY_VALUE,        \
                KVMILL_GROUP_QUERY_PAST_KEY, KVMILL_GROUP_QUERY_PAST_VALUE,                        \
                KVMILL_GROUP_QUERY_SEQLENS_K, KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH,            \
                KVMILL_GROUP_QUERY_COS_CACHE, KVMILL_GROUP_QUERY_SIN_CACHE,                        \
                KVMILL_GROUP_QUERY_POSITION_IDS, KVMILL_GROUP_QUERY_ATTENTION_BIAS,                \
                KVMILL_GROUP_QUERY_HEAD_SINK, KVMILL_GROUP_QUERY_K_SCALE,                          \
                KVMILL_GROUP_QUERY_V_SCALE, KVMILL_GROUP_QUERY_Q_NORM_WEIGHT,                      \
                KVMILL_GROUP_QUERY_K_NORM_WEIGHT, KVMILL_GROUP_QUERY_QUERY_SEQLENS}},              \
    .fixed = fixed_group_query, .plan = plan_group_query, .shape = shape_group_query,              \
    .work = group_query_work, .run = group_query_run

const struct node_op group_query_op = {
    GROUP_QUERY,
    .needs_kernels = true,
    .outputs = {4,
                {KVMILL_GROUP_QUERY_OUTPUT, KVMILL_GROUP_QUERY_PRESENT_KEY,
                 KVMILL_GROUP_QUERY_PRESENT_VALUE, KVMILL_GROUP_QUERY_OUTPUT_QK}},
    .required = REQUIRED,
};

const struct node_op cache_group_query_op = {
    GROUP_QUERY,
    .only_here = true,
    .outputs = {3,
                {KVMILL_GROUP_QUERY_OUTPUT, KVMILL_GROUP_QUERY_PRESENT_KEY,
                 KVMILL_GROUP_QUERY_PRESENT_VALUE}},
    .required = REQUIRED | 1u << KVMILL_GROUP_QUERY_PAST_KEY | 1u << KVMILL_GROUP_QUERY_PAST_VALUE,
    .cache_of = cache_of,
};
