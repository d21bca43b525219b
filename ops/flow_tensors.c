/* The tensors of a flow's steps that the flow itself names.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_tensors.h"

#include <stdio.h>
#include <string.h>

#include "../defs/op.h"

bool kvmill_flow_is_appended(const kvmill_flow *flow, int64_t field) {
    return flow->appended >> field & 1;
}

const char *kvmill_flow_scales_of(const kvmill_flow *flow, int64_t field) {
    return flow->field_scales != NULL ? flow->field_scales[field] : NULL;
}

bool kvmill_flow_has_scales_of(const kvmill_flow *flow, int64_t field) {
    for (int64_t i = 0; i < (int64_t)flow->field_count; i++) {
        const char *scales = kvmill_flow_scales_of(flow, i);
        if (scales != NULL && strcmp(scales, flow->fields[field].name) == 0)
            return true;
    }
    return false;
}

static bool is_input(const kvmill_flow *flow, size_t constant) {
    return flow->constants[constant].values == NULL;
}

static int64_t kv_heads_of(const kvmill_flow *flow) {
    const kvmill_cache_attention *op = flow->attention;
    return op->num_kv_heads != 0 ? op->num_kv_heads : op->num_heads;
}

static void set_matrix(struct kvmill_flow_tensor *tensor, const char *name, int64_t rows,
                       int64_t columns) {
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->rank = 4;
    tensor->dims[2] = rows;
    tensor->dims[3] = columns;
}

static int64_t heads_of_field(const kvmill_flow *flow, int field) {
    int64_t heads = flow->field_heads != NULL ? flow->field_heads[field] : 0;
    return heads > 0 ? heads : kv_heads_of(flow);
}

static void set_field(const kvmill_flow *flow, struct kvmill_flow_tensor *tensor) {
    const kvmill_flow_field *field = &flow->fields[tensor->number];
    tensor->dims[1] = heads_of_field(flow, tensor->number);
    set_matrix(tensor, field->name, field->rows, field->columns);
    tensor->dtype = field->dtype;
}

static void set_rows(const kvmill_flow *flow, struct kvmill_flow_tensor *tensor) {
    const kvmill_flow_field *field = &flow->fields[tensor->number];
    snprintf(tensor->name, sizeof tensor->name, "current_%s", field->name);
    tensor->rank = 3;
    tensor->dims[1] = heads_of_field(flow, tensor->number);
    tensor->dims[2] = field->columns;
    tensor->dtype =
        kvmill_flow_scales_of(flow, tensor->number) != NULL ? flow->attention->T1 : field->dtype;
}

static void set_input(const kvmill_flow *flow, struct kvmill_flow_tensor *tensor) {
    const kvmill_flow_constant *constant = &flow->constants[tensor->number];
    set_matrix(tensor, constant->name, constant->rows, constant->columns);
    tensor->dtype = kvmill_float32;
}

/* The n-th number whose bit is set, or -1. */
static int find(const kvmill_flow *flow, size_t count, int n,
                bool (*is_one)(const kvmill_flow *, size_t)) {
    for (size_t i = 0; i < count; i++)
        if (is_one(flow, i) && n-- == 0)
            return (int)i;
    return -1;
}

static bool is_any(const kvmill_flow *flow, size_t i) {
    (void)flow, (void)i;
    return true;
}

static bool is_appended(const kvmill_flow *flow, size_t i) {
    return kvmill_flow_is_appended(flow, (int64_t)i);
}

bool kvmill_flow_tensor_at(const kvmill_flow *flow, int n, struct kvmill_flow_tensor *tensor) {
    static void (*const set[])(const kvmill_flow *,
                               struct kvmill_flow_tensor *) = {set_field, set_rows, set_input};
    const struct {
        size_t count;
        bool (*is_one)(const kvmill_flow *, size_t);
    } lists[] = {{flow->field_count, is_any},
                 {flow->field_count, is_appended},
                 {flow->constant_count, is_input}};
    for (int kind = 0; kind < 3 && n >= 0; kind++) {
        int number = find(flow, lists[kind].count, n, lists[kind].is_one);
        if (number >= 0) {
            *tensor = (struct kvmill_flow_tensor){
                .kind = (enum kvmill_flow_tensor_kind)kind,
                .number = number,
                .dims = {KVMILL_DYNAMIC, kv_heads_of(flow)},
            };
            set[kind](flow, tensor);
            return true;
        }
        for (size_t i = 0; i < lists[kind].count; i++)
            n -= lists[kind].is_one(flow, i);
    }
    return false;
}

/* ---- What steps do with them ---- */

static bool scores(int step) {
    return step == OP_FLOW_DECODE || step == OP_FLOW_INDEX;
}

bool kvmill_flow_step_reads(int step, const struct kvmill_flow_tensor *tensor) {
    switch (tensor->kind) {
    case KVMILL_FLOW_TENSOR_ROWS:
        return step == OP_FLOW_APPEND;
    case KVMILL_FLOW_TENSOR_INPUT:
        return scores(step);
    default:
        return step != OP_FLOW_ATTEND;
    }
}

/* Whether the index program saves a field, so that scoring changes it. */
static bool is_saved(const kvmill_flow *flow, const char *field) {
    for (size_t i = 0; i < flow->index_count; i++) {
        const kvmill_flow_op *op = &flow->index[i];
        if (strcmp(op->op, "Save") == 0 && op->output && strcmp(op->output, field) == 0)
            return true;
    }
    return false;
}

bool kvmill_flow_step_writes(const kvmill_flow *flow, int step,
                             const struct kvmill_flow_tensor *tensor) {
    if (tensor->kind != KVMILL_FLOW_TENSOR_FIELD)
        return false;
    bool grows = kvmill_flow_is_appended(flow, tensor->number) ||
                 kvmill_flow_has_scales_of(flow, tensor->number);
    return step == OP_FLOW_APPEND || (step == OP_FLOW_SUMMARISE && !grows) ||
           (scores(step) && is_saved(flow, tensor->name));
}
