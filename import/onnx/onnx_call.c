/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/element.h"
#include "../../spec/spec_keys.h"

/* ---- Nodes ---- */

static struct onnx_value *value_at(const struct onnx_call *call, const int *numbers, int count,
                                   int i) {
    return i < count && numbers[i] != ONNX_ABSENT ? &call->model->values[numbers[i]] : NULL;
}

struct onnx_value *onnx_input(const struct onnx_call *call, int i) {
    return value_at(call, call->node->inputs, call->node->input_count, i);
}

struct onnx_value *onnx_output(const struct onnx_call *call, int i) {
    return value_at(call, call->node->outputs, call->node->output_count, i);
}

static bool is_complete_value(const struct onnx_call *call, const struct onnx_value *value, int i) {
    bool typed = value->has_shape && value->dtype.bits != 0;
    if (call->op->open)
        return typed && (call->op->knows == NULL || call->op->knows(value, i));
    return typed && onnx_is_known(value) && kvmill_kind_of(value->dtype) != KVMILL_NO_KIND;
}

const struct op *onnx_spec_op(const struct onnx_call *call) {
    return call->op->spec != NULL ? kvmill_op_by_name(call->op->spec)
                                  : call->op->spec_op(call->node);
}

const struct op_tensor *onnx_input_of(const struct op *op, int i) {
    return kvmill_op_source_tensor(op, false, i);
}

const struct op_tensor *onnx_output_of(const struct op *op, int i) {
    return kvmill_op_source_tensor(op, true, i);
}

static const char *name_of(const struct op_tensor *tensor) {
    return tensor != NULL ? tensor->name : NULL;
}

const char *onnx_input_name(const struct onnx_call *call, int i) {
    return name_of(onnx_input_of(onnx_spec_op(call), i));
}

const char *onnx_output_name(const struct onnx_call *call, int i) {
    return name_of(onnx_output_of(onnx_spec_op(call), i));
}

bool onnx_is_updated(const struct onnx_call *call, int i) {
    const struct op *op = onnx_spec_op(call);
    const struct op_tensor *tensor = onnx_input_of(op, i);
    return tensor != NULL && (tensor->out & kvmill_op_bit(op)) != 0;
}

static int count_tensors(const struct op *op, bool out) {
    int count = 0;
    while (kvmill_op_source_tensor(op, out, count) != NULL)
        count++;
    return count;
}

int onnx_count_inputs(const struct op *op) {
    return count_tensors(op, false);
}

bool onnx_is_complete(const struct onnx_call *call, char *words, size_t size) {
    struct onnx_type_text type;
    if (call->op->is_complete != NULL)
        return call->op->is_complete(call, words, size);
    for (int i = 0; onnx_input_of(onnx_spec_op(call), i) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        if (value == NULL || is_complete_value(call, value, i))
            continue;
        snprintf(words, size, "\"%.60s\" is %s; accepted: a known type and %s", value->name,
                 onnx_type_words(value, &type), call->op->known);
        return false;
    }
    return true;
}

struct spec *onnx_begin_spec(const struct onnx_call *call, struct spec_list *list,
                             struct error *error) {
    char name[192];
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL)
        return NULL;
    onnx_name_node(call->model, call->node, name, sizeof name);
    snprintf(spec->where, sizeof spec->where, "%.120s: %s", call->model->file, name);
    return spec;
}

/* ---- Specs as JSON, in the standard's words ---- */

static json_t *dims_of(const struct onnx_value *value) {
    json_t *dims = json_array();
    for (int d = 0; d < value->rank; d++)
        json_array_append_new(dims, value->dims[d] == KVMILL_DYNAMIC
                                        ? json_string("?")
                                        : json_integer(value->dims[d]));
    return dims;
}

/* Whether a tensor is used: some are only if an attribute is not 0. */
static bool is_used(const struct op *op, const struct op_tensor *tensor, const json_t *object) {
    const char *name = tensor->used.names[0];
    const json_t *value = name != NULL ? json_object_get(object, name) : NULL;
    if (name == NULL || value != NULL)
        return name == NULL || json_integer_value(value) != 0;
    return kvmill_op_member(op->parts[0], name)->initial != 0;
}

/* The first tensor of a type determines it in the spec. */
static void write_type(const struct op *op, const struct op_tensor *tensor,
                       const struct onnx_value *value, json_t *object) {
    const char *type = tensor->type;
    bool known = value->dtype.bits != 0 && is_used(op, tensor, object);
    if (known && kvmill_op_member(kvmill_op_types(op), type) && !json_object_get(object, type))
        json_object_set_new(object, type, json_string(kvmill_dtype_name(value->dtype)));
}

/* Specs without shapes say whether an optional tensor is present. */
static void write_shape(const struct op *op, const struct op_tensor *tensor,
                        const struct onnx_value *value, json_t *object) {
    bool has_shapes = spec_family_for(op)->tensor != NULL;
    const struct op_member *own = kvmill_op_member(op->parts[0], tensor->name);
    if (!has_shapes && own != NULL)
        json_object_set_new(object, tensor->name,
                            json_boolean(value != NULL && !onnx_is_empty(value)));
    else if (has_shapes && value != NULL)
        json_object_set_new(object, tensor->name, dims_of(value));
}

static void write_tensors(const struct onnx_call *call, const struct op *op, json_t *object) {
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = onnx_input_of(op, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        write_shape(op, tensor, value, object);
        if (value != NULL)
            write_type(op, tensor, value, object);
    }
    for (int i = 0; (tensor = onnx_output_of(op, i)) != NULL; i++)
        if (onnx_output(call, i) != NULL)
            write_type(op, tensor, onnx_output(call, i), object);
}

static json_t *attribute_as_json(const struct onnx_attribute *attribute) {
    switch (attribute->kind) {
    case ONNX_INTEGER:
        return json_integer(attribute->integer);
    case ONNX_FLOAT:
        return json_real((double)attribute->number);
    case ONNX_STRING:
        return json_stringn(attribute->text, attribute->length);
    default:
        return NULL;
    }
}

static bool write_attributes(const struct onnx_call *call, json_t *object, struct error *error) {
    for (int i = 0; i < call->node->attribute_count; i++) {
        const struct onnx_attribute *attribute = &call->node->attributes[i];
        json_t *value = attribute_as_json(attribute);
        if (value == NULL && json_lacked())
            return out_of_memory(error);
        if (value == NULL)
            return onnx_fail(error, call->model, call->node,
                             "%s is neither a number nor a word; accepted: either",
                             attribute->name);
        json_object_set_new(object, attribute->name, value);
    }
    return true;
}

int64_t onnx_meaning_opset(const struct onnx_model *model) {
    return model->opset < 25 ? model->opset : 25;
}

/* Checks that inputs have the types of the spec and its op. */
static bool check_types(const struct onnx_call *call, struct spec *spec, struct error *error) {
    const struct spec_family *family = spec->family;
    const struct op_tensor *tensor;
    const void *base = family->part(spec, 0),
               *types = family->part(spec, kvmill_op_types(spec->op) != spec->op->parts[0]);
    for (int i = 0; (tensor = onnx_input_of(spec->op, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        DLDataType type = kvmill_op_type(spec->op, base, types, tensor);
        bool ignored = kvmill_op_presence(spec->op, base, tensor) == OP_IGNORED;
        if (value != NULL && !ignored && value->dtype.bits != 0 && type.bits != 0 &&
            !kvmill_dtype_equal(value->dtype, type))
            return onnx_fail(error, call->model, call->node, "%s is %s; accepted: %s", tensor->name,
                             kvmill_dtype_name(value->dtype), kvmill_dtype_name(type));
    }
    return true;
}

bool onnx_read_node(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    const struct op *op = onnx_spec_op(call);
    struct json_place place = {.file = call->model->file, .value = json_object()};
    onnx_name_node(call->model, call->node, place.path, sizeof place.path);
    json_object_set_new(place.value, "op", json_string(op->name));
    if (kvmill_op_member(op->parts[0], "opset") != NULL)
        json_object_set_new(place.value, "opset", json_integer(onnx_meaning_opset(call->model)));
    bool done = write_attributes(call, place.value, error);
    write_tensors(call, op, place.value);
    done = done && spec_read(&place, list, error) &&
           check_types(call, &list->items[list->count - 1], error);
    json_decref(place.value);
    return done;
}

DLTensor onnx_tensor_of(const struct onnx_value *value) {
    bool known = value != NULL && value->has_shape;
    return known ? (DLTensor){.ndim = value->rank, .shape = value->dims, .dtype = value->dtype}
                 : (DLTensor){0};
}

/* ---- Checks ---- */

static bool check_inputs(const struct onnx_call *call, struct error *error) {
    const struct op *op = onnx_spec_op(call);
    int most = onnx_count_inputs(op);
    if (call->node->input_count > most)
        return onnx_fail(error, call->model, call->node, "%d inputs; accepted: at most %d",
                         call->node->input_count, most);
    for (int i = 0; i < most; i++) {
        const struct op_tensor *tensor = onnx_input_of(op, i);
        if (onnx_input(call, i) == NULL && kvmill_op_source_needs(op, tensor))
            return onnx_fail(error, call->model, call->node,
                             "input %d is not there; accepted: one that is, %s", i, tensor->name);
    }
    return true;
}

static bool check_outputs(const struct onnx_call *call, struct error *error) {
    int most = count_tensors(onnx_spec_op(call), true);
    return (call->node->output_count <= most && onnx_output(call, 0) != NULL) ||
           onnx_fail(error, call->model, call->node,
                     "%d outputs; accepted: 1 to %d, the first with a name",
                     call->node->output_count, most);
}

static bool check_opset(const struct onnx_call *call, struct error *error) {
    return call->model->opset >= call->op->first_opset ||
           onnx_fail(error, call->model, call->node,
                     "the model imports opset %" PRId64 " (0: none); accepted: %d to %d",
                     call->model->opset, call->op->first_opset, (int)ONNX_LAST_OPSET);
}

enum { MOST_ATTRIBUTES = 32 };

/* Returns the attributes of the op's source, except the opset, which comes from the model. */
static const char *const *attributes_of(const struct onnx_call *call,
                                        const char *names[MOST_ATTRIBUTES + 1]) {
    const struct op *op = onnx_spec_op(call);
    int count = 0;
    for (int i = 0; i < op->parts[0]->member_count && count < MOST_ATTRIBUTES; i++) {
        const struct op_member *member = &op->parts[0]->members[i];
        if (kvmill_op_source_has(op, member) && strcmp(member->name, "opset") != 0)
            names[count++] = member->name;
    }
    names[count] = NULL;
    return call->op->attributes != NULL ? call->op->attributes : names;
}

bool onnx_check_call(const struct onnx_call *call, struct error *error) {
    const char *names[MOST_ATTRIBUTES + 1];
    return check_opset(call, error) && check_inputs(call, error) && check_outputs(call, error) &&
           onnx_only_attributes(call->model, call->node, attributes_of(call, names), error);
}

/* ---- Specs, each once ---- */

/* A limit, because a spec may take several KiB. */
enum { MOST_SPECS = 512 };

bool onnx_specs_begin(struct onnx_specs *specs, struct spec_list *list, struct error *error) {
    *specs = (struct onnx_specs){list, json_object()};
    return specs->seen != NULL || out_of_memory(error);
}

void onnx_specs_end(struct onnx_specs *specs) {
    json_decref(specs->seen);
}

static char *text_of(const struct spec *spec) {
    json_watch();
    json_t *object = spec_write(spec);
    char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(object);
    if (!json_lacked())
        return text;
    free(text);
    return NULL;
}

/* Sets the place of the list's last spec.  If an earlier spec is equal, drops the last one and sets
   the place of the earlier. */
static bool place_last(struct onnx_specs *specs, int *place, struct error *error) {
    char *text = text_of(&specs->list->items[specs->list->count - 1]);
    const json_t *known = text ? json_object_get(specs->seen, text) : NULL;
    *place = (int)specs->list->count - 1;
    bool done = text != NULL;
    if (known != NULL) {
        *place = (int)json_integer_value(known);
        spec_list_drop(specs->list);
    } else if (done) {
        done = json_object_set_new(specs->seen, text, json_integer(*place)) == 0;
    }
    free(text);
    return done || out_of_memory(error);
}

bool onnx_specs_add(struct onnx_specs *specs, const struct onnx_call *call, int *place,
                    struct error *error) {
    return call->op->add(call, specs->list, error) && place_last(specs, place, error) &&
           (specs->list->count <= MOST_SPECS ||
            onnx_fail(error, call->model, call->node,
                      "needs one spec too many; accepted: %d different ones", (int)MOST_SPECS));
}
