/* What is around a graph: the model's functions, the body's model, the call of a function.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx_bodies.h"
#include "onnx_reader.h"

static bool is_same(const char *text, const char *other) {
    return strcmp(text != NULL ? text : "", other) == 0;
}

/* ---- The model's own functions ---- */

bool onnx_read_functions(struct onnx_model *model, const Onnx__Model *message,
                         struct error *error) {
    ProtobufCAllocator allocator = {onnx_memory_take, onnx_memory_give_back, model->memory};
    struct onnx_functions *all = onnx_allocate(model, 1, sizeof *all, error);
    if (all == NULL)
        return false;
    all->items = onnx_allocate(model, message->n_functions, sizeof *all->items, error);
    for (size_t i = 0; all->items != NULL && i < message->n_functions; i++) {
        const ProtobufCBinaryData *bytes = &message->functions[i];
        all->items[i] = onnx__function__unpack(&allocator, bytes->len, bytes->data);
        if (all->items[i] == NULL)
            return model->memory->exhausted
                       ? onnx_memory_fail(model, error)
                       : onnx_fail(error, model, NULL,
                                   "function %zu is damaged; accepted: a function", i);
        all->count++;
    }
    model->functions = all;
    return all->items != NULL;
}

const void *onnx_function_of(const struct onnx_model *model, const struct onnx_node *node) {
    for (int i = 0; model->functions != NULL && i < model->functions->count; i++) {
        const Onnx__Function *function = model->functions->items[i];
        if (is_same(function->name, node->op) && is_same(function->domain, node->domain) &&
            is_same(function->overload, node->overload))
            return function;
    }
    return NULL;
}

/* ---- What is around a body ---- */

const struct onnx_model *onnx_around(const struct onnx_model *model) {
    return model->body != NULL && model->body->function == NULL ? model->body->model : NULL;
}

const struct onnx_value *onnx_given_value(const struct onnx_model *model, int input) {
    const struct onnx_node *node = model->body->node;
    int number = input < node->input_count ? node->inputs[input] : ONNX_ABSENT;
    return number != ONNX_ABSENT ? &model->body->model->values[number] : NULL;
}

/* Returns the call of the function that a node is in, or NULL. */
static const struct onnx_body *call_of(const struct onnx_model *model) {
    while (model->body != NULL && model->body->function == NULL)
        model = model->body->model;
    return model->body;
}

const struct onnx_attribute *onnx_given_attribute(const struct onnx_model *model, const char *name,
                                                  const Onnx__Attribute **otherwise) {
    const struct onnx_body *call = call_of(model);
    const Onnx__Function *function = call != NULL ? call->function : NULL;
    *otherwise = NULL;
    for (int i = 0; call != NULL && i < call->node->attribute_count; i++)
        if (strcmp(call->node->attributes[i].name, name) == 0)
            return &call->node->attributes[i];
    for (size_t i = 0; function != NULL && i < function->n_attribute_proto; i++)
        if (is_same(function->attribute_proto[i]->name, name))
            *otherwise = function->attribute_proto[i];
    return NULL;
}
