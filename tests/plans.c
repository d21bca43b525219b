/* SPDX-License-Identifier: Apache-2.0 */
#include "plans.h"

#include "../defs/op.h"

const char *plan_text(const kvmill_plan *plan) {
    static char text[16384];
    kvmill_plan_describe(plan, text, sizeof text);
    return text;
}

bool plan_says(const kvmill_plan *plan, const char *words) {
    return strstr(plan_text(plan), words) != NULL;
}

kvmill_status plan_rows(DLDataType type, int64_t rows, int64_t columns, int64_t count,
                        kvmill_plan **plan, kvmill_error *error) {
    static const int64_t axis[] = {0}, offset[] = {1};
    int64_t shape[] = {rows, columns}, vectors[] = {count, 1}, size[] = {1, columns};
    const DLTensor operand = dense_tensor(type, 2, shape, NULL);
    const DLTensor indices = dense_tensor((DLDataType){kDLInt, 32, 1}, 2, vectors, NULL);
    const kvmill_gather op = {.struct_size = sizeof op,
                              .offset_dims = {offset, 1},
                              .collapsed_slice_dims = {axis, 1},
                              .start_index_map = {axis, 1},
                              .slice_sizes = {size, 2},
                              .index_vector_dim = 1,
                              .operand = &operand,
                              .start_indices = &indices};
    return kvmill_plan_gather(&op, NULL, plan, error);
}

kvmill_status plan_flow_step(int step, const kvmill_flow *flow, const kvmill_flow_limits *limits,
                             const kvmill_plan_options *options, kvmill_plan **plan,
                             kvmill_error *error) {
    static kvmill_status (*const plans[])(const kvmill_flow *, const kvmill_flow_limits *,
                                          const kvmill_plan_options *, kvmill_plan **,
                                          kvmill_error *) = {
        [OP_FLOW_DECODE] = kvmill_plan_flow_decode,
        [OP_FLOW_APPEND] = kvmill_plan_flow_append,
        [OP_FLOW_INDEX] = kvmill_plan_flow_index,
        [OP_FLOW_ATTEND] = kvmill_plan_flow_attend,
        [OP_FLOW_SUMMARISE] = kvmill_plan_flow_summarise,
    };
    return plans[step](flow, limits, options, plan, error);
}
