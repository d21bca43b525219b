/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_bodies.h"

#include <stdio.h>
#include <string.h>

#include "onnx_reader.h"

/* A limit: functions that call themselves would have no last level. */
enum { MOST_LEVELS = 32 };

static bool begin(struct onnx_body *body, struct onnx_model *opened, size_t size,
                  struct error *error) {
    const struct onnx_model *model = body->model;
    body->depth = model->body != NULL ? model->body->depth + 1 : 1;
    *opened = (struct onnx_model){
        .file = model->file, .opset = model->opset, .functions = model->functions, .body = body};
    return body->depth <= MOST_LEVELS
               ? onnx_memory_begin(opened, size, error)
               : onnx_fail(error, model, body->node,
                           "is more than %d levels deep; accepted: fewer bodies and functions "
                           "inside each other",
                           (int)MOST_LEVELS);
}

bool onnx_open_graph(const struct onnx_model *model, const struct onnx_node *node,
                     const struct onnx_attribute *attribute, struct onnx_body *body,
                     struct onnx_model *opened, struct error *error) {
    char name[128];
    *body = (struct onnx_body){.model = model, .node = node};
    onnx_name_node(model, node, name, sizeof name);
    snprintf(body->words, sizeof body->words, "%.28s of %s", attribute->name, name);
    if (!begin(body, opened, attribute->graph_size, error))
        return false;
    ProtobufCAllocator allocator = {onnx_memory_take, onnx_memory_give_back, opened->memory};
    const struct onnx_scope scope = {
        .graph = onnx__graph__unpack(&allocator, attribute->graph_size, attribute->graph)};
    if (scope.graph != NULL)
        return onnx_read_graph(opened, &scope, error);
    return opened->memory->exhausted
               ? onnx_memory_fail(opened, error)
               : onnx_fail(error, model, node, "%.60s is damaged; accepted: a graph",
                           attribute->name);
}

bool onnx_open_function(const struct onnx_model *model, const struct onnx_node *node,
                        struct onnx_body *body, struct onnx_model *opened, struct error *error) {
    *body =
        (struct onnx_body){.model = model, .node = node, .function = onnx_function_of(model, node)};
    const Onnx__Function *function = body->function;
    Onnx__Graph graph = ONNX__GRAPH__INIT;
    onnx_name_node(model, node, body->words, sizeof body->words);
    graph.node = function->node;
    graph.n_node = function->n_node;
    graph.value_info = function->value_info;
    graph.n_value_info = function->n_value_info;
    const struct onnx_scope scope = {.graph = &graph,
                                     .names = function->input,
                                     .name_count = function->n_input,
                                     .opsets = function->opset_import,
                                     .opset_count = function->n_opset_import};
    if (!begin(body, opened, 0, error))
        return false;
    opened->opset = 0;
    return onnx_read_graph(opened, &scope, error);
}
