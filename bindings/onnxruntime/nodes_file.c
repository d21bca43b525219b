/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_values.h"
#include "pmx.h"

/* ---- Protocol buffers ---- */

/* A message, which must not move after `begin`.  bad: writing failed. */
struct message {
    FILE *stream;
    char *data;
    size_t size;
    bool bad;
};

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static void begin(struct message *message) {
    *message = (struct message){0};
    message->stream = open_memstream(&message->data, &message->size);
    message->bad = message->stream == NULL;
}

static void put(struct message *message, const void *bytes, size_t size) {
    if (!message->bad && size > 0)
        message->bad = fwrite(bytes, 1, size, message->stream) != size;
}

static void put_varint(struct message *message, uint64_t value) {
    unsigned char bytes[10];
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    put(message, bytes, count);
}

static void put_key(struct message *message, int field, int wire) {
    put_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

static void put_integer(struct message *message, int field, int64_t value) {
    put_key(message, field, WIRE_VARINT);
    put_varint(message, (uint64_t)value);
}

static void put_bytes(struct message *message, int field, const void *bytes, size_t size) {
    put_key(message, field, WIRE_BYTES);
    put_varint(message, size);
    put(message, bytes, size);
}

static void put_text(struct message *message, int field, const char *text) {
    put_bytes(message, field, text, strlen(text));
}

static void put_float(struct message *message, int field, float number) {
    put_key(message, field, WIRE_FIXED32);
    put(message, &number, sizeof number);
}

static void end(struct message *message) {
    if (message->stream != NULL && fclose(message->stream) != 0)
        message->bad = true;
}

/* Ends a part, and adds it to the whole as a field. */
static void put_message(struct message *whole, int field, struct message *part) {
    end(part);
    if (part->bad)
        whole->bad = true;
    else
        put_bytes(whole, field, part->data, part->size);
    free(part->data);
}

/* ---- ONNX: numbers of fields ---- */

enum { MODEL_IR_VERSION = 1, MODEL_GRAPH = 7, MODEL_OPSET = 8, IR_VERSION = 11 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_VALUE = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F = 2, ATTRIBUTE_I = 3, ATTRIBUTE_S = 4, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INTEGER = 2, TYPE_STRING = 3 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1 };

static void put_shape(struct message *tensor, const struct known_tensor *known) {
    struct message shape;
    begin(&shape);
    for (int d = 0; d < known->rank; d++) {
        struct message dim;
        begin(&dim);
        if (known->dims[d] >= 0)
            put_integer(&dim, DIM_VALUE, known->dims[d]);
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_message(tensor, TENSOR_SHAPE, &shape);
}

/* Writes a value's type and shape, if the type is known. */
static void put_value(struct message *graph, int field, const OrtValueInfo *value) {
    struct message info, type, tensor;
    struct known_tensor known;
    if (!problem_known(value, &known) || known.type.bits == 0)
        return;
    begin(&tensor);
    put_integer(&tensor, TENSOR_ELEMENT, value_type_number(known.type));
    if (known.rank >= 0)
        put_shape(&tensor, &known);
    begin(&type);
    put_message(&type, TYPE_TENSOR, &tensor);
    begin(&info);
    put_text(&info, VALUE_NAME, problem_value_name(value));
    put_message(&info, VALUE_TYPE, &type);
    put_message(graph, field, &info);
}

static void put_attribute(void *node, const char *name, unsigned kind, const void *value) {
    struct message attribute;
    begin(&attribute);
    put_text(&attribute, ATTRIBUTE_NAME, name);
    if (kind == ORT_ATTRIBUTE_INTEGER) {
        put_integer(&attribute, ATTRIBUTE_I, *(const int64_t *)value);
        put_integer(&attribute, ATTRIBUTE_TYPE, TYPE_INTEGER);
    } else if (kind == ORT_ATTRIBUTE_FLOAT) {
        put_float(&attribute, ATTRIBUTE_F, *(const float *)value);
        put_integer(&attribute, ATTRIBUTE_TYPE, TYPE_FLOAT);
    } else {
        put_text(&attribute, ATTRIBUTE_S, value);
        put_integer(&attribute, ATTRIBUTE_TYPE, TYPE_STRING);
    }
    put_message(node, NODE_ATTRIBUTE, &attribute);
}

static void put_names(struct message *message, int field, const struct values *values) {
    for (size_t i = 0; i < values->count; i++)
        put_text(message, field, problem_value_name(values->items[i]));
}

static void put_node(struct message *graph, const OrtNode *node, const struct values *inputs,
                     const struct values *outputs) {
    const struct attribute_source source = attributes_of_node(node);
    struct message message;
    begin(&message);
    put_names(&message, NODE_INPUT, inputs);
    put_names(&message, NODE_OUTPUT, outputs);
    put_text(&message, NODE_OP, problem_node_op(node));
    attributes_each(&source, pmx_bit(problem_op_of(node)), put_attribute, &message);
    put_text(&message, NODE_DOMAIN, problem_node_domain(node));
    put_message(graph, GRAPH_NODE, &message);
}

/* ---- Values, each written once ---- */

struct names {
    const char **items;
    size_t count, room;
};

static bool is_new(struct names *names, const OrtValueInfo *value) {
    const char *name = problem_value_name(value);
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return false;
    if (*name == '\0' || names->count == names->room)
        return false;
    names->items[names->count++] = name;
    return true;
}

static void put_values(struct message *graph, int field, const struct values *values,
                       struct names *names) {
    for (size_t i = 0; i < values->count; i++)
        if (is_new(names, values->items[i]))
            put_value(graph, field, values->items[i]);
}

/* ---- The graph ---- */

struct sides {
    struct values inputs, outputs;
};

/* Outputs come first, because an output of a node is not an input of the graph. */
static void put_graph(struct message *model, const OrtNode *const *nodes, const struct sides *sides,
                      size_t count, struct names *names) {
    struct message graph;
    begin(&graph);
    for (size_t i = 0; i < count; i++)
        put_node(&graph, nodes[i], &sides[i].inputs, &sides[i].outputs);
    put_text(&graph, GRAPH_NAME, "nodes");
    for (size_t i = 0; i < count; i++)
        put_values(&graph, GRAPH_VALUE, &sides[i].outputs, names);
    for (size_t i = 0; i < count; i++)
        put_values(&graph, GRAPH_INPUT, &sides[i].inputs, names);
    put_message(model, MODEL_GRAPH, &graph);
}

enum { MOST_OPSETS = 64 };

static void put_opsets(struct message *model, const OrtGraph *graph) {
    const char *domains[MOST_OPSETS];
    int64_t versions[MOST_OPSETS];
    size_t count = 0;
    bool told = runtime_succeeded(ort->Graph_GetNumOperatorSets(graph, &count)) &&
                count <= MOST_OPSETS &&
                runtime_succeeded(ort->Graph_GetOperatorSets(graph, domains, versions, count));
    model->bad = model->bad || !told;
    for (size_t i = 0; told && i < count; i++) {
        struct message opset;
        begin(&opset);
        put_text(&opset, OPSET_DOMAIN, domains[i]);
        put_integer(&opset, OPSET_VERSION, versions[i]);
        put_message(model, MODEL_OPSET, &opset);
    }
}

static void put_model(struct message *model, const OrtGraph *graph, const OrtNode *const *nodes,
                      const struct sides *sides, size_t count) {
    struct names names = {.room = 1};
    for (size_t i = 0; i < count; i++)
        names.room += sides[i].inputs.count + sides[i].outputs.count;
    names.items = calloc(names.room, sizeof *names.items);
    model->bad = model->bad || names.items == NULL;
    put_integer(model, MODEL_IR_VERSION, IR_VERSION);
    put_opsets(model, graph);
    if (names.items != NULL)
        put_graph(model, nodes, sides, count, &names);
    free(names.items);
}

struct nodes_file nodes_file_of(const OrtGraph *graph, const OrtNode *const *nodes, size_t count) {
    struct sides *sides = calloc(count + 1, sizeof *sides);
    struct message model;
    begin(&model);
    for (size_t i = 0; sides != NULL && i < count; i++)
        sides[i] = (struct sides){problem_inputs_of(nodes[i]), problem_outputs_of(nodes[i])};
    if (sides != NULL)
        put_model(&model, graph, nodes, sides, count);
    end(&model);
    for (size_t i = 0; sides != NULL && i < count; i++) {
        free(sides[i].inputs.items);
        free(sides[i].outputs.items);
    }
    if (model.bad || sides == NULL) {
        free(model.data);
        model.data = NULL;
    }
    free(sides);
    return (struct nodes_file){(unsigned char *)model.data, model.size};
}
