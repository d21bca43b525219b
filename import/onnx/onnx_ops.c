/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/element.h"

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

static const struct op *spec_op_of(const struct onnx_call *call) {
    return kvmill_op_by_name(call->op->spec);
}

/* Input or output number i of its nodes; NULL: they have no more. */
static const struct op_tensor *tensor_at(const struct op *op, bool out, int i) {
    for (int t = 0; t < op->tensor_count; t++) {
        const struct op_tensor *tensor = &op->tensors[t];
        if (((out ? tensor->out : tensor->in) & kvmill_op_bit(op)) != 0 && i-- == 0)
            return tensor;
    }
    return NULL;
}

static const char *name_of(const struct op_tensor *tensor) {
    return tensor != NULL ? tensor->name : NULL;
}

const char *onnx_input_name(const struct onnx_call *call, int i) {
    return name_of(tensor_at(spec_op_of(call), false, i));
}

const char *onnx_output_name(const struct onnx_call *call, int i) {
    return name_of(tensor_at(spec_op_of(call), true, i));
}

static int count_tensors(const struct op *op, bool out) {
    int count = 0;
    while (tensor_at(op, out, count) != NULL)
        count++;
    return count;
}

bool onnx_is_complete(const struct onnx_call *call, char *words, size_t size) {
    struct onnx_type_text type;
    for (int i = 0; tensor_at(spec_op_of(call), false, i) != NULL; i++) {
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

/* Shapes; the first tensor of a type that specs say says it. */
static void write_tensors(const struct onnx_call *call, const struct op *op, json_t *object) {
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = tensor_at(op, false, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        const char *type = tensor->type;
        if (value == NULL)
            continue;
        json_object_set_new(object, tensor->name, dims_of(value));
        if (kvmill_op_member(kvmill_op_types(op), type) && !json_object_get(object, type))
            json_object_set_new(object, type, json_string(kvmill_dtype_name(value->dtype)));
    }
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
        if (value == NULL)
            return onnx_fail(error, call->model, call->node,
                             "%s is no number and no word; accepted: one", attribute->name);
        json_object_set_new(object, attribute->name, value);
    }
    return true;
}

/* No meaning has changed since 25. */
static int64_t meaning_opset(const struct onnx_model *model) {
    return model->opset < 25 ? model->opset : 25;
}

/* The node as the spec of its op would say it. */
static bool read_node(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    const struct op *op = spec_op_of(call);
    struct json_place place = {.file = call->model->file, .value = json_object()};
    onnx_name_node(call->model, call->node, place.path, sizeof place.path);
    json_object_set_new(place.value, "op", json_string(op->name));
    if (kvmill_op_member(op->parts[0], "opset") != NULL)
        json_object_set_new(place.value, "opset", json_integer(meaning_opset(call->model)));
    write_tensors(call, op, place.value);
    bool done = write_attributes(call, place.value, error) && spec_read(&place, list, error);
    json_decref(place.value);
    return done;
}

/* ---- TensorScatter ---- */

static bool check_types(const struct onnx_call *call, struct error *error) {
    const struct onnx_value *past = onnx_input(call, 0), *update = onnx_input(call, 1);
    const struct onnx_value *indices = onnx_input(call, 2);
    if (!kvmill_dtype_equal(past->dtype, update->dtype))
        return onnx_fail(error, call->model, call->node, "update is %s; accepted: past_cache's, %s",
                         kvmill_dtype_name(update->dtype), kvmill_dtype_name(past->dtype));
    return indices == NULL || kvmill_dtype_equal(indices->dtype, (DLDataType){kDLInt, 64, 1}) ||
           onnx_fail(error, call->model, call->node, "write_indices is %s; accepted: int64",
                     kvmill_dtype_name(indices->dtype));
}

static bool add_tensor_scatter(const struct onnx_call *call, struct spec_list *list,
                               struct error *error) {
    const struct onnx_value *past = onnx_input(call, 0);
    struct onnx_value *present = onnx_output(call, 0);
    return check_types(call, error) && read_node(call, list, error) &&
           (present == NULL ||
            onnx_learn(call->model, present, past->dtype, past->rank, past->dims, error));
}

/* ---- Attention ---- */

/* Kernels are made for numbers and sizes of heads; of K and V the rest follows. */
static bool knows_heads(const struct onnx_value *value, int input) {
    static const unsigned apart[] = {1 << 1 | 1 << 3, 1 << 1, 1 << 3},
                          packed[] = {1 << 2, 0, 1 << 2};
    bool known = true;
    for (int d = 0; input < 3 && (value->rank == 3 || value->rank == 4) && d < value->rank; d++)
        if ((value->rank == 4 ? apart : packed)[input] >> d & 1)
            known = known && value->dims[d] != KVMILL_DYNAMIC;
    return known;
}

static bool learn_attention(const struct onnx_call *call, const struct spec *spec,
                            struct error *error) {
    struct kvmill_attention_geometry geometry;
    if (!onnx_attention_geometry(spec, &geometry, error))
        return false;
    for (int i = 0; i < call->node->output_count; i++) {
        int64_t dims[4];
        struct onnx_value *value = onnx_output(call, i);
        int tensor = KVMILL_ATTENTION_Y + i, rank = kvmill_attention_shape(&geometry, tensor, dims);
        DLDataType type = spec->onnx_attention.tensor[tensor].dtype;
        if (value != NULL && !onnx_learn(call->model, value, type, rank, dims, error))
            return false;
    }
    return true;
}

static bool add_attention(const struct onnx_call *call, struct spec_list *list,
                          struct error *error) {
    return read_node(call, list, error) &&
           learn_attention(call, &list->items[list->count - 1], error);
}

/* ---- The table ---- */

static const char *const axis_alone[] = {"axis", NULL};
static const char *const batch_dims[] = {"batch_dims", NULL};
static const char *const axis_and_reduction[] = {"axis", "reduction", NULL};
static const char *const reduction_alone[] = {"reduction", NULL};

#define GATHERED  .spec = "stablehlo.gather", .known = "known extents", .from_index = true
#define SCATTERED .spec = "stablehlo.scatter", .known = "known extents", .from_index = true

static const struct onnx_op ops[] = {
    {.name = "TensorScatter",
     .spec = "TensorScatter",
     .first_opset = 24,
     .open = true,
     .known = "rank",
     .add = add_tensor_scatter},
    {.name = "Attention",
     .spec = "Attention",
     .first_opset = 23,
     .open = true,
     .knows = knows_heads,
     .known = "rank, numbers and sizes of heads",
     .add = add_attention},
    {.name = "Gather",
     .first_opset = 1,
     .attributes = axis_alone,
     .add = onnx_add_gather,
     GATHERED},
    {.name = "GatherElements",
     .first_opset = 11,
     .attributes = axis_alone,
     .add = onnx_add_gather_elements,
     GATHERED},
    {.name = "GatherND",
     .first_opset = 11,
     .attributes = batch_dims,
     .add = onnx_add_gather_nd,
     GATHERED},
    {.name = "ScatterElements",
     .first_opset = 11,
     .attributes = axis_and_reduction,
     .add = onnx_add_scatter_elements,
     SCATTERED},
    {.name = "ScatterND",
     .first_opset = 11,
     .attributes = reduction_alone,
     .add = onnx_add_scatter_nd,
     SCATTERED},
};
enum { OPS = sizeof ops / sizeof *ops };

const struct onnx_op *onnx_op_of(const struct onnx_node *node) {
    for (int i = 0; node->domain[0] == '\0' && i < OPS; i++)
        if (strcmp(ops[i].name, node->op) == 0 && kvmill_op_by_name(ops[i].spec) != NULL)
            return &ops[i];
    return NULL;
}

const char *onnx_op_names(char text[160]) {
    size_t at = 0;
    for (int i = 0; i < OPS; i++)
        if (kvmill_op_by_name(ops[i].spec) != NULL)
            at += (size_t)snprintf(text + at, 160 - at, "%s%s", at ? ", " : "", ops[i].name);
    return text;
}

/* ---- Any of them ---- */

static bool check_inputs(const struct onnx_call *call, struct error *error) {
    const struct op *op = spec_op_of(call);
    int most = count_tensors(op, false);
    if (call->node->input_count > most)
        return onnx_fail(error, call->model, call->node, "%d inputs; accepted: at most %d",
                         call->node->input_count, most);
    for (int i = 0; i < most; i++)
        if (onnx_input(call, i) == NULL && tensor_at(op, false, i)->needed & kvmill_op_bit(op))
            return onnx_fail(error, call->model, call->node,
                             "input %d is not there; accepted: one that is", i);
    return true;
}

static bool check_outputs(const struct onnx_call *call, struct error *error) {
    int most = count_tensors(spec_op_of(call), true);
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

/* Those that are ONNX's of the first struct, without the opset, which the model has. */
static const char *const *attributes_of(const struct onnx_call *call,
                                        const char *names[MOST_ATTRIBUTES + 1]) {
    const struct op *op = spec_op_of(call);
    int count = 0;
    for (int i = 0; i < op->parts[0]->member_count && count < MOST_ATTRIBUTES; i++) {
        const struct op_member *member = &op->parts[0]->members[i];
        if (member->ops & kvmill_op_bit(op) && member->source == OP_ONNX &&
            strcmp(member->name, "opset") != 0)
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

/* A spec may take some KiB. */
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

/* The place of the list's last spec, which goes where an earlier one is the same. */
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
                      "needs one spec too many; accepted: %d that differ", (int)MOST_SPECS));
}
