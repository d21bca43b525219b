/* Imports the main graph of a message: names become values, in the order of the nodes.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../base/hash.h"
#include "../../defs/dtype.h"
#include "onnx_reader.h"

enum { LAST_DATA_TYPE = 28 };

struct reader {
    struct onnx_model *model;
    const Onnx__Graph *graph;
    const struct onnx_scope *scope;
    struct error *error;
};

static const char *text_of(const char *text) {
    return text ? text : "";
}

static void *allocate(struct reader *reader, size_t count, size_t size) {
    return onnx_allocate(reader->model, count, size, reader->error);
}

/* ---- Names ---- */

static int *slot_of(const struct onnx_model *model, const char *name) {
    size_t at = hash_bytes(HASH_START, name, strlen(name)) % model->slot_count;
    while (model->slots[at] != 0 && strcmp(model->values[model->slots[at] - 1].name, name) != 0)
        at = (at + 1) % model->slot_count;
    return &model->slots[at];
}

static struct onnx_value *find(const struct reader *reader, const char *name) {
    int slot = *slot_of(reader->model, name);
    return slot ? &reader->model->values[slot - 1] : NULL;
}

/* Defines a value of `node` (NULL: of the graph).  Returns NULL, with an error, if the name is
   taken. */
static struct onnx_value *define(struct reader *reader, const struct onnx_node *node,
                                 const char *name) {
    struct onnx_model *model = reader->model;
    int *slot = slot_of(model, name);
    if (*slot != 0 || name[0] == '\0') {
        onnx_fail(reader->error, model, node, "\"%.80s\" is %s; accepted: a new name", name,
                  *slot ? "defined twice" : "no name of a value");
        return NULL;
    }
    struct onnx_value *value = &model->values[model->value_count++];
    *slot = model->value_count;
    value->name = name;
    return value;
}

/* Returns a copy of a value of the graphs around this one, or NULL. */
static struct onnx_value *find_around(struct reader *reader, const char *name) {
    const struct onnx_model *model = reader->model;
    int slot = 0;
    while (slot == 0 && (model = onnx_around(model)) != NULL)
        slot = name[0] != '\0' ? *slot_of(model, name) : 0;
    if (slot == 0)
        return NULL;
    struct onnx_value *copy = define(reader, NULL, name);
    if (copy != NULL)
        *copy = model->values[slot - 1];
    return copy;
}

static int number_of(const struct reader *reader, const struct onnx_value *value) {
    return (int)(value - reader->model->values);
}

/* ---- Types ---- */

static bool set_data_type(struct reader *reader, struct onnx_value *value, int data_type) {
    value->data_type = data_type;
    value->dtype = onnx_dtype(data_type);
    return (data_type >= 0 && data_type <= LAST_DATA_TYPE) ||
           onnx_fail(reader->error, reader->model, NULL,
                     "\"%.80s\" has element type %d; accepted: 1 to %d, as ONNX numbers them",
                     value->name, data_type, (int)LAST_DATA_TYPE);
}

/* Some exporters write -1 for an unknown extent. */
static bool set_shape(struct reader *reader, struct onnx_value *value, const Onnx__Shape *shape) {
    value->has_shape = true;
    value->rank = (int)shape->n_dim;
    value->dims = allocate(reader, shape->n_dim, sizeof *value->dims);
    for (int d = 0; value->dims != NULL && d < value->rank; d++) {
        const Onnx__Dim *dim = shape->dim[d];
        value->dims[d] = dim->has_value && dim->value != -1 ? dim->value : KVMILL_DYNAMIC;
        if (dim->has_value && dim->value < -1)
            return onnx_fail(reader->error, reader->model, NULL,
                             "\"%.80s\" has extent %" PRId64 " along axis %d; accepted: 0 or more, "
                             "or a name",
                             value->name, dim->value, d);
    }
    return value->dims != NULL;
}

/* The type of a value that is not a tensor stays unknown. */
static bool set_type(struct reader *reader, struct onnx_value *value, const Onnx__ValueInfo *info) {
    const Onnx__TensorType *type = info->type ? info->type->tensor : NULL;
    return type == NULL || (set_data_type(reader, value, type->elem_type) &&
                            (type->shape == NULL || set_shape(reader, value, type->shape)));
}

/* ---- Constants ---- */

static bool set_tensor(struct reader *reader, struct onnx_value *value,
                       const Onnx__Tensor *tensor) {
    if (!set_data_type(reader, value, tensor->data_type))
        return false;
    value->has_shape = true;
    value->rank = (int)tensor->n_dims;
    value->dims = tensor->dims;
    value->constant = onnx_constant_of(tensor);
    for (int d = 0; d < value->rank; d++)
        if (value->dims[d] < 0)
            return onnx_fail(reader->error, reader->model, NULL,
                             "\"%.80s\" has extent %" PRId64 " along axis %d; accepted: 0 or more",
                             value->name, value->dims[d], d);
    return true;
}

/* Sets a value from a Constant's numbers. */
static void set_numbers(struct onnx_value *value, struct onnx_attribute *attribute) {
    bool list = attribute->kind == ONNX_FLOATS || attribute->kind == ONNX_INTEGERS;
    bool floats = attribute->kind == ONNX_FLOATS || attribute->kind == ONNX_FLOAT;
    const void *numbers = floats ? (const void *)attribute->numbers : attribute->integers;
    const void *number = floats ? (const void *)&attribute->number : &attribute->integer;
    value->data_type = floats ? 1 : 7;
    value->dtype = onnx_dtype(value->data_type);
    value->has_shape = true;
    value->rank = list;
    value->dims = &attribute->count;
    value->constant = (struct onnx_constant){ONNX_HERE, list ? numbers : number,
                                             list ? (size_t)attribute->count : 1, floats ? 4 : 8};
}

static void set_constant(struct onnx_value *value, struct onnx_attribute *attribute) {
    const char *name = value->name;
    switch (attribute->kind) {
    case ONNX_TENSOR:
        *value = *attribute->tensor;
        value->name = name;
        break;
    case ONNX_FLOAT:
    case ONNX_INTEGER:
    case ONNX_FLOATS:
    case ONNX_INTEGERS:
        set_numbers(value, attribute);
        break;
    default: /* strings, sparse tensors: the value stays unknown */
        break;
    }
}

/* ---- Nodes ---- */

/* Before IR version 2 attributes have no type, and the member that is present determines it. */
static int kind_of(const Onnx__Attribute *message) {
    if (message->has_type && message->type != 0)
        return message->type;
    return message->has_i       ? ONNX_INTEGER
           : message->has_f     ? ONNX_FLOAT
           : message->has_s     ? ONNX_STRING
           : message->t         ? ONNX_TENSOR
           : message->has_graph ? ONNX_GRAPH
           : message->n_floats  ? ONNX_FLOATS
           : message->n_ints    ? ONNX_INTEGERS
                                : ONNX_NOTHING;
}

static bool read_tensor(struct reader *reader, const Onnx__Tensor *tensor,
                        struct onnx_attribute *attribute) {
    struct onnx_value *value = allocate(reader, 1, sizeof *value);
    if (value == NULL)
        return false;
    value->name = attribute->name;
    attribute->tensor = value;
    return set_tensor(reader, value, tensor);
}

static bool read_attribute(struct reader *reader, struct onnx_node *node,
                           const Onnx__Attribute *message, struct onnx_attribute *attribute) {
    *attribute = (struct onnx_attribute){
        .name = text_of(message->name),
        .kind = kind_of(message),
        .number = message->f,
        .integer = message->i,
        .text = (const char *)message->s.data,
        .length = message->s.len,
        .count = (int64_t)message->n_ints,
        .integers = message->ints,
        .numbers = message->floats,
    };
    if (attribute->kind == ONNX_FLOATS)
        attribute->count = (int64_t)message->n_floats;
    if (attribute->kind == ONNX_GRAPH) {
        attribute->graph = message->graph.data;
        attribute->graph_size = message->graph.len;
    }
    if (attribute->kind != ONNX_TENSOR)
        return true;
    return message->t != NULL
               ? read_tensor(reader, message->t, attribute)
               : onnx_fail(reader->error, reader->model, node,
                           "%.60s has no tensor; accepted: one, as its type says", attribute->name);
}

/* Reads an attribute with the value of one of the function's, which the call or the function's
   defaults may set; drops it if neither does. */
static bool read_reference(struct reader *reader, struct onnx_node *node,
                           const Onnx__Attribute *message, struct onnx_attribute *attribute) {
    const Onnx__Attribute *otherwise = NULL;
    const struct onnx_attribute *given =
        onnx_given_attribute(reader->model, message->ref_attr_name, &otherwise);
    if (given != NULL)
        *attribute = *given;
    else if (otherwise == NULL)
        node->attribute_count--;
    else if (!read_attribute(reader, node, otherwise, attribute))
        return false;
    attribute->name = text_of(message->name);
    return true;
}

static bool read_attributes(struct reader *reader, const Onnx__Node *message,
                            struct onnx_node *node) {
    node->attributes = allocate(reader, message->n_attribute, sizeof *node->attributes);
    bool done = node->attributes != NULL;
    for (size_t i = 0; done && i < message->n_attribute; i++) {
        const Onnx__Attribute *attribute = message->attribute[i];
        bool refers = text_of(attribute->ref_attr_name)[0] != '\0';
        done = (refers ? read_reference : read_attribute)(
            reader, node, attribute, &node->attributes[node->attribute_count++]);
    }
    return done;
}

/* A node may only read values that are defined before it, so the graph has no cycles. */
static bool read_inputs(struct reader *reader, const Onnx__Node *message, struct onnx_node *node) {
    node->input_count = (int)message->n_input;
    node->inputs = allocate(reader, message->n_input, sizeof *node->inputs);
    for (int i = 0; node->inputs != NULL && i < node->input_count; i++) {
        const struct onnx_value *value = find(reader, message->input[i]);
        if (value == NULL)
            value = find_around(reader, message->input[i]);
        node->inputs[i] = value && !value->is_absent ? number_of(reader, value) : ONNX_ABSENT;
        if (value == NULL && message->input[i][0] != '\0')
            return onnx_fail(reader->error, reader->model, node,
                             "input \"%.80s\" has no value yet; accepted: inputs of the graph, "
                             "initialisers, outputs of the nodes before",
                             message->input[i]);
    }
    return node->inputs != NULL;
}

static bool read_outputs(struct reader *reader, const Onnx__Node *message, struct onnx_node *node) {
    node->output_count = (int)message->n_output;
    node->outputs = allocate(reader, message->n_output, sizeof *node->outputs);
    for (int i = 0; node->outputs != NULL && i < node->output_count; i++) {
        node->outputs[i] = ONNX_ABSENT;
        if (message->output[i][0] == '\0')
            continue;
        struct onnx_value *value = define(reader, node, message->output[i]);
        if (value == NULL)
            return false;
        value->is_made = true;
        node->outputs[i] = number_of(reader, value);
    }
    return node->outputs != NULL;
}

static bool gives_constant(const struct onnx_node *node) {
    return onnx_is_constant(node) && node->output_count == 1 && node->attribute_count == 1 &&
           node->outputs[0] != ONNX_ABSENT;
}

static bool read_node(struct reader *reader, const Onnx__Node *message, struct onnx_node *node) {
    node->name = text_of(message->name);
    node->op = text_of(message->op_type);
    node->domain = text_of(message->domain);
    node->overload = text_of(message->overload);
    if (strcmp(node->domain, "ai.onnx") == 0)
        node->domain = "";
    if (node->op[0] == '\0')
        return onnx_fail(reader->error, reader->model, node, "has no op; accepted: an op_type");
    if (!read_attributes(reader, message, node) || !read_inputs(reader, message, node) ||
        !read_outputs(reader, message, node))
        return false;
    if (gives_constant(node))
        set_constant(&reader->model->values[node->outputs[0]], &node->attributes[0]);
    return true;
}

static bool read_nodes(struct reader *reader) {
    struct onnx_model *model = reader->model;
    model->nodes = allocate(reader, reader->graph->n_node, sizeof *model->nodes);
    bool done = model->nodes != NULL;
    for (size_t i = 0; done && i < reader->graph->n_node; i++)
        done = read_node(reader, reader->graph->node[i], &model->nodes[model->node_count++]);
    return done;
}

/* ---- Inputs, initialisers, outputs ---- */

/* The inputs of a function have the values of the call's. */
static bool read_bindings(struct reader *reader) {
    for (size_t i = 0; i < reader->scope->name_count; i++) {
        const struct onnx_value *given = onnx_given_value(reader->model, (int)i);
        const char *name = text_of(reader->scope->names[i]);
        struct onnx_value *value = define(reader, NULL, name);
        if (value == NULL)
            return false;
        *value = given != NULL ? *given : (struct onnx_value){.is_absent = true};
        value->name = name;
        value->is_made = false;
    }
    return true;
}

static bool read_graph_inputs(struct reader *reader) {
    struct onnx_model *model = reader->model;
    model->inputs = allocate(reader, reader->graph->n_input, sizeof *model->inputs);
    for (size_t i = 0; model->inputs != NULL && i < reader->graph->n_input; i++) {
        const Onnx__ValueInfo *info = reader->graph->input[i];
        struct onnx_value *value = define(reader, NULL, text_of(info->name));
        if (value == NULL || !set_type(reader, value, info))
            return false;
        model->inputs[model->input_count++] = number_of(reader, value);
    }
    return model->inputs != NULL;
}

/* An initialiser may be the default of an input with the same name, and then has its type. */
static bool read_initialiser(struct reader *reader, const Onnx__Tensor *tensor) {
    const char *name = text_of(tensor->name);
    struct onnx_value *value = find(reader, name);
    if (value == NULL || value->constant.place != ONNX_NOWHERE)
        value = define(reader, NULL, name);
    else if (value->data_type != 0 && value->data_type != tensor->data_type)
        return onnx_fail(reader->error, reader->model, NULL,
                         "initialiser \"%.80s\" has type %d, as an input it has %d; accepted: one "
                         "type",
                         name, tensor->data_type, value->data_type);
    return value != NULL && set_tensor(reader, value, tensor);
}

static bool read_initialisers(struct reader *reader) {
    const Onnx__Graph *graph = reader->graph;
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (!read_initialiser(reader, graph->initializer[i]))
            return false;
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__Tensor *tensor = graph->sparse_initializer[i]->values;
        if (define(reader, NULL, tensor ? text_of(tensor->name) : "") == NULL)
            return false;
    }
    return true;
}

/* Sets the type of a node's output. */
static bool read_info(struct reader *reader, const Onnx__ValueInfo *info) {
    struct onnx_value *value = find(reader, text_of(info->name));
    bool open = value != NULL && value->is_made && value->data_type == 0;
    return !open || set_type(reader, value, info);
}

static bool read_infos(struct reader *reader) {
    const Onnx__Graph *graph = reader->graph;
    for (size_t i = 0; i < graph->n_value_info; i++)
        if (!read_info(reader, graph->value_info[i]))
            return false;
    for (size_t i = 0; i < graph->n_output; i++)
        if (!read_info(reader, graph->output[i]))
            return false;
    return true;
}

static bool read_graph_outputs(struct reader *reader) {
    struct onnx_model *model = reader->model;
    model->outputs = allocate(reader, reader->graph->n_output, sizeof *model->outputs);
    for (size_t i = 0; model->outputs != NULL && i < reader->graph->n_output; i++) {
        const char *name = text_of(reader->graph->output[i]->name);
        const struct onnx_value *value = find(reader, name);
        if (value == NULL)
            value = find_around(reader, name);
        if (value == NULL)
            return onnx_fail(
                reader->error, model, NULL,
                "output \"%.80s\" of the graph is computed by no node; accepted: the name "
                "of a value",
                name);
        model->outputs[model->output_count++] = number_of(reader, value);
    }
    return model->outputs != NULL;
}

/* ---- All parts ---- */

/* The most values: those that the graph defines, and those of graphs around it that it reads. */
static size_t count_names(const struct reader *reader) {
    const Onnx__Graph *graph = reader->graph;
    bool inside = onnx_around(reader->model) != NULL;
    size_t count = graph->n_input + graph->n_initializer + graph->n_sparse_initializer +
                   reader->scope->name_count + (inside ? graph->n_output : 0);
    for (size_t i = 0; i < graph->n_node; i++)
        count += graph->node[i]->n_output + (inside ? graph->node[i]->n_input : 0);
    return count;
}

static bool make_tables(struct reader *reader) {
    struct onnx_model *model = reader->model;
    size_t count = count_names(reader);
    if (count > INT32_MAX / 2)
        return onnx_fail(reader->error, model, NULL, "%zu values; accepted: at most 2 to the 30",
                         count);
    model->slot_count = 2 * count + 1;
    model->values = allocate(reader, count, sizeof *model->values);
    model->slots = allocate(reader, model->slot_count, sizeof *model->slots);
    return model->values != NULL && model->slots != NULL;
}

static bool read_opset(struct reader *reader) {
    struct onnx_model *model = reader->model;
    for (size_t i = 0; i < reader->scope->opset_count; i++) {
        const char *domain = text_of(reader->scope->opsets[i]->domain);
        int64_t version = reader->scope->opsets[i]->version;
        if (domain[0] != '\0' && strcmp(domain, "ai.onnx") != 0)
            continue;
        if (version < 1 || version > ONNX_LAST_OPSET ||
            (model->opset != 0 && model->opset != version))
            return onnx_fail(reader->error, model, NULL,
                             "imports opset %" PRId64 " of ONNX's ops; accepted: one of 1 to %d",
                             version, (int)ONNX_LAST_OPSET);
        model->opset = version;
    }
    return true;
}

bool onnx_read_graph(struct onnx_model *model, const struct onnx_scope *scope,
                     struct error *error) {
    struct reader reader = {.model = model, .graph = scope->graph, .scope = scope, .error = error};
    return read_opset(&reader) && make_tables(&reader) && read_bindings(&reader) &&
           read_graph_inputs(&reader) && read_initialisers(&reader) && read_nodes(&reader) &&
           read_infos(&reader) && read_graph_outputs(&reader);
}

static bool read_main(struct onnx_model *model, const Onnx__Model *message, struct error *error) {
    const struct onnx_scope scope = {.graph = message->graph,
                                     .opsets = message->opset_import,
                                     .opset_count = message->n_opset_import};
    if (message->graph == NULL)
        return onnx_fail(error, model, NULL, "has no graph; accepted: an ONNX model");
    return onnx_read_functions(model, message, error) && onnx_read_graph(model, &scope, error);
}

bool onnx_read_message(const char *file, struct onnx_model *model, Onnx__Model **message,
                       struct error *error) {
    *model = (struct onnx_model){.file = file};
    *message = onnx_unpack(model, error);
    return *message != NULL && read_main(model, *message, error);
}

bool onnx_read(const char *file, struct onnx_model *model, struct error *error) {
    Onnx__Model *message;
    return onnx_read_message(file, model, &message, error);
}
