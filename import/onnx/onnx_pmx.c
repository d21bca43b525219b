/* PMX cache attention: nodes of PMX's own domains.  Their attributes are those of the ops'
   descriptions; there is no other list.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../ops/fail.h"
#include "onnx_ops.h"

/* ---- Domains ---- */

/* pmx is the former name of opmx. */
static const struct {
    const char *name, *prefix; /* of its ops in specs */
} domains[] = {
    {"opmx", ""},
    {"opmx.dynamic_batching", "dynamic_batching."},
    {"pmx", ""},
    {"pmx.dynamic_batching", "dynamic_batching."},
};
enum { DOMAINS = sizeof domains / sizeof *domains };

static bool is_pmx(const struct op *op) {
    return op->family == OP_CACHE_ATTENTION;
}

static const struct op *find_op(const char *prefix, const char *name) {
    char text[96];
    snprintf(text, sizeof text, "%s%.60s", prefix, name);
    const struct op *op = kvmill_op_by_name(text);
    bool found = op != NULL && is_pmx(op) && op->dynamic == (prefix[0] != '\0');
    return found ? op : NULL;
}

static const struct op *named_op(const struct onnx_node *node) {
    for (int i = 0; i < DOMAINS; i++)
        if (strcmp(domains[i].name, node->domain) == 0)
            return find_op(domains[i].prefix, node->op);
    return NULL;
}

bool onnx_pmx_is_misplaced(const struct onnx_node *node) {
    const struct op *op = named_op(node);
    return op != NULL && op->dynamic &&
           node->input_count <= onnx_count_inputs(find_op("", node->op));
}

const struct op *onnx_pmx_op(const struct onnx_node *node) {
    return onnx_pmx_is_misplaced(node) ? find_op("", node->op) : named_op(node);
}

const char *onnx_pmx_names(char text[ONNX_NAMES_SIZE / 2]) {
    enum { SIZE = ONNX_NAMES_SIZE / 2 };
    size_t at = 0;
    for (int i = 0; kvmill_ops[i] != NULL && at < SIZE; i++)
        if (is_pmx(kvmill_ops[i]) && !kvmill_ops[i]->dynamic)
            at +=
                (size_t)snprintf(text + at, SIZE - at, "%s%s", at ? ", " : "", kvmill_ops[i]->name);
    for (int i = 0; i < DOMAINS && at < SIZE; i++)
        at += (size_t)snprintf(text + at, SIZE - at, "%s%s%s", i ? ", " : " (", domains[i].name,
                               i + 1 == DOMAINS ? ")" : "");
    return text;
}

/* ---- What the model says ---- */

static bool tells_type(const struct op_tensor *tensor, const struct onnx_value *value,
                       const char *type) {
    return value != NULL && value->dtype.bits != 0 && strcmp(tensor->type, type) == 0;
}

/* Whether any tensor determines the type. */
static bool knows_type(const struct onnx_call *call, const char *type) {
    const struct op *op = onnx_spec_op(call);
    const struct op_tensor *tensor;
    bool known = false;
    for (int i = 0; (tensor = onnx_input_of(op, i)) != NULL; i++)
        known = known || tells_type(tensor, onnx_input(call, i), type);
    for (int i = 0; (tensor = onnx_output_of(op, i)) != NULL; i++)
        known = known || tells_type(tensor, onnx_output(call, i), type);
    return known;
}

static struct onnx_value *input_named(const struct onnx_call *call, const char *name) {
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = onnx_input_of(onnx_spec_op(call), i)) != NULL; i++)
        if (strcmp(tensor->name, name) == 0)
            return onnx_input(call, i);
    return NULL;
}

/* Whether heads are known.  KeyValueCache has no attributes for them: they come from
   current_key. */
static bool knows_heads(const struct onnx_call *call) {
    const struct op *op = onnx_spec_op(call);
    const struct onnx_value *key = input_named(call, "current_key");
    if (!(kvmill_op_member(op->parts[0], "head_dim")->ours & kvmill_op_bit(op)))
        return true;
    return key->has_shape && (key->rank < 2 || (key->dims[key->rank - 1] != KVMILL_DYNAMIC &&
                                                key->dims[key->rank - 2] != KVMILL_DYNAMIC));
}

static bool is_complete_pmx(const struct onnx_call *call, char *words, size_t size) {
    const struct op *op = onnx_spec_op(call);
    const struct op_struct *types = kvmill_op_types(op);
    struct onnx_type_text type;
    bool known = knows_heads(call);
    for (int i = 0; i < types->member_count; i++)
        if (types->members[i].kind == OP_TYPE &&
            (types->members[i].needed & kvmill_op_bit(op)) != 0)
            known = known && knows_type(call, types->members[i].name);
    if (!known)
        snprintf(words, size, "\"%.60s\" is %s; accepted: a known type and %s",
                 onnx_input(call, 0)->name, onnx_type_words(onnx_input(call, 0), &type),
                 call->op->known);
    return known;
}

static void learn_attributes(const struct onnx_call *call, struct spec *spec) {
    DLTensor key = onnx_tensor_of(input_named(call, "current_key")),
             value = onnx_tensor_of(input_named(call, "current_value")),
             cache = onnx_tensor_of(input_named(call, "cache"));
    if (attention_op_of(spec) == KVMILL_KEY_VALUE_CACHE)
        attention_learn_heads(spec, &key, &value);
    attention_learn_layers(spec, &cache);
}

/* ---- Shapes ---- */

/* Sets the dims of shapes from attributes, then from tensors. */
static void learn_words(const struct onnx_call *call, const struct spec *spec,
                        struct op_dim words[OP_MOST_WORDS]) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const struct op_dim known[] = {
        {"H", op->num_heads},  {"KVH", op->num_kv_heads ? op->num_kv_heads : op->num_heads},
        {"D", op->head_dim},   {"E", op->head_dim},
        {"R", op->num_repeat},
    };
    memcpy(words, known, sizeof known);
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const char *shape = kvmill_op_shape_words(spec->op, &spec->op->tensors[i]);
        if (shape != NULL)
            kvmill_op_learn(shape, NULL, words);
    }
    for (int i = 0; onnx_input_of(spec->op, i) != NULL; i++) {
        const char *shape = kvmill_op_shape_words(spec->op, onnx_input_of(spec->op, i));
        DLTensor tensor = onnx_tensor_of(onnx_input(call, i));
        int64_t dims[OP_MOST_RANK];
        if (shape != NULL && strchr(shape, '|') == NULL &&
            kvmill_op_shape(shape, 0, words, dims) == tensor.ndim)
            kvmill_op_learn(shape, &tensor, words);
    }
}

static bool fits(const struct onnx_value *value, const struct op_tensor *tensor, int rank,
                 const int64_t *dims) {
    bool fit = value->rank == rank;
    for (int d = 0; fit && d < rank; d++) {
        int64_t have = value->dims[d];
        bool longer = tensor->padded && d == rank - 1 && have > dims[d];
        fit = have == dims[d] || have == KVMILL_DYNAMIC || dims[d] == KVMILL_DYNAMIC || longer;
    }
    return fit;
}

static bool check_shape(const struct onnx_call *call, const struct op_tensor *tensor,
                        const struct onnx_value *value, const struct op_dim *words,
                        struct error *error) {
    const char *shape = kvmill_op_shape_words(onnx_spec_op(call), tensor);
    struct kvmill_shape_text have, want;
    int64_t dims[OP_MOST_RANK];
    for (int i = 0, rank; (rank = kvmill_op_shape(shape, i, words, dims)) >= 0; i++)
        if (fits(value, tensor, rank, dims))
            return true;
    const DLTensor known = {.ndim = kvmill_op_shape(shape, 0, words, dims), .shape = dims},
                   given = onnx_tensor_of(value);
    return onnx_fail(error, call->model, call->node, "%s is %s; accepted: %s%s, which is (%s)",
                     tensor->name, kvmill_shape_words(&given, &have),
                     kvmill_shape_words(&known, &want), tensor->padded ? " or longer" : "", shape);
}

static bool check_shapes(const struct onnx_call *call, const struct op_dim *words,
                         struct error *error) {
    const struct op *op = onnx_spec_op(call);
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = onnx_input_of(op, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        bool absent = value == NULL || (tensor->empty_is_absent && onnx_is_empty(value));
        if (!absent && value->has_shape && kvmill_op_shape_words(op, tensor) != NULL &&
            !check_shape(call, tensor, value, words, error))
            return false;
    }
    return true;
}

/* ---- Specs ---- */

/* Checks that the inputs that the attributes require are given. */
static bool check_presence(const struct onnx_call *call, const struct spec *spec,
                           struct error *error) {
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = onnx_input_of(spec->op, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        bool conditional = tensor->used.names[0] != NULL;
        if (kvmill_op_presence(spec->op, &spec->attention.op, tensor) == OP_REQUIRED &&
            (value == NULL || (conditional && onnx_is_empty(value))))
            return onnx_fail(error, call->model, call->node,
                             "input %d, %s, %s; accepted with this %s: one that has elements", i,
                             tensor->name, value ? "has no elements" : "is not there",
                             conditional ? tensor->used.names[0] : "op");
    }
    return true;
}

static bool learn_outputs(const struct onnx_call *call, const struct spec *spec,
                          const struct op_dim *words, struct error *error) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const struct op_tensor *tensor;
    for (int i = 0; (tensor = onnx_output_of(spec->op, i)) != NULL; i++) {
        int64_t dims[OP_MOST_RANK];
        struct onnx_value *value = onnx_output(call, i);
        int rank = kvmill_op_shape(kvmill_op_shape_words(spec->op, tensor), 0, words, dims);
        DLDataType type = kvmill_op_type(spec->op, op, op, tensor);
        if (value != NULL && !onnx_learn(call->model, value, type, rank, dims, error))
            return false;
    }
    return true;
}

static bool add_pmx(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    struct op_dim words[OP_MOST_WORDS] = {{0}};
    if (!onnx_read_node(call, list, error))
        return false;
    struct spec *spec = &list->items[list->count - 1];
    learn_attributes(call, spec);
    learn_words(call, spec, words);
    return check_presence(call, spec, error) && check_shapes(call, words, error) &&
           spec_check(spec, error) && learn_outputs(call, spec, words, error);
}

const struct onnx_op onnx_pmx = {
    .name = "",
    .spec_op = onnx_pmx_op,
    .known = "numbers and sizes of heads",
    .is_complete = is_complete_pmx,
    .add = add_pmx,
};
