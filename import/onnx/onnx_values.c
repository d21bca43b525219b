/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../base/text.h"
#include "../../defs/dtype.h"
#include "../../ops/fail.h"
#include "onnx_bodies.h"
#include "onnx_memory.h"

bool is_onnx_name(const char *name) {
    return name_has_ending(name, ".onnx");
}

DLDataType onnx_dtype(int data_type) {
    const struct kvmill_dtype *dtype;
    for (size_t i = 0; (dtype = kvmill_dtype_at(i)) != NULL; i++)
        if (data_type > 0 && dtype->onnx == data_type)
            return dtype->dl;
    return (DLDataType){0};
}

bool onnx_is_constant(const struct onnx_node *node) {
    return node->domain[0] == '\0' && strcmp(node->op, "Constant") == 0;
}

bool onnx_has_graph(const struct onnx_node *node) {
    for (int i = 0; i < node->attribute_count; i++)
        if (node->attributes[i].kind == ONNX_GRAPH || node->attributes[i].kind == ONNX_GRAPHS)
            return true;
    return false;
}

const char *onnx_op_words(const struct onnx_node *node, struct onnx_op_text *words) {
    snprintf(words->text, sizeof words->text, "%.40s%s%.50s", node->domain,
             node->domain[0] ? "." : "", node->op);
    return words->text;
}

void onnx_make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = '?';
}

void onnx_name_node(const struct onnx_model *model, const struct onnx_node *node, char *words,
                    size_t size) {
    struct onnx_op_text op;
    char number[24];
    snprintf(number, sizeof number, "%td", node - model->nodes);
    snprintf(words, size, "node %.80s (%s)%s%s", node->name[0] ? node->name : number,
             onnx_op_words(node, &op), model->body != NULL ? " in " : "",
             model->body != NULL ? model->body->words : "");
    onnx_make_printable(words);
}

bool onnx_fail(struct error *error, const struct onnx_model *model, const struct onnx_node *node,
               const char *format, ...) {
    char message[480], name[192] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (node != NULL)
        onnx_name_node(model, node, name, sizeof name);
    onnx_make_printable(message);
    return fail(error, EXIT_USER, "%s: %s%s%s", model->file, name, node ? ": " : "", message);
}

/* ---- Types ---- */

bool onnx_is_known(const struct onnx_value *value) {
    bool known = value->has_shape && value->dtype.bits != 0;
    for (int d = 0; known && d < value->rank; d++)
        known = value->dims[d] != KVMILL_DYNAMIC;
    return known;
}

bool onnx_is_empty(const struct onnx_value *value) {
    bool empty = false;
    for (int d = 0; value->has_shape && d < value->rank; d++)
        empty = empty || value->dims[d] == 0;
    return empty;
}

const char *onnx_type_words(const struct onnx_value *value, struct onnx_type_text *words) {
    struct kvmill_shape_text shape;
    DLTensor tensor = {.ndim = value->rank, .shape = value->dims};
    const char *type = value->dtype.bits ? kvmill_dtype_name(value->dtype) : "of no known type";
    snprintf(words->text, sizeof words->text, "%.30s %.120s", type,
             value->has_shape ? kvmill_shape_words(&tensor, &shape) : "without a shape");
    return words->text;
}

static bool agrees(const struct onnx_value *value, const struct onnx_value *learnt) {
    bool same = value->data_type == 0 || kvmill_dtype_equal(value->dtype, learnt->dtype);
    same = same && (!value->has_shape || value->rank == learnt->rank);
    for (int d = 0; same && value->has_shape && d < value->rank; d++)
        same = value->dims[d] == learnt->dims[d] || value->dims[d] == KVMILL_DYNAMIC ||
               learnt->dims[d] == KVMILL_DYNAMIC;
    return same;
}

/* Takes dims from `learnt`, or the value's own where `learnt` does not have them. */
static void take_dims(struct onnx_value *value, const struct onnx_value *learnt, int64_t *dims) {
    for (int d = 0; d < learnt->rank; d++) {
        bool own = value->has_shape && learnt->dims[d] == KVMILL_DYNAMIC;
        dims[d] = own ? value->dims[d] : learnt->dims[d];
    }
    value->dtype = learnt->dtype;
    value->has_shape = true;
    value->rank = learnt->rank;
    value->dims = dims;
}

bool onnx_learn(struct onnx_model *model, struct onnx_value *value, DLDataType dtype, int rank,
                const int64_t *dims, struct error *error) {
    struct onnx_type_text have, want;
    const struct onnx_value learnt = {
        .dtype = dtype, .has_shape = true, .rank = rank, .dims = (int64_t *)(uintptr_t)dims};
    if (!agrees(value, &learnt))
        return onnx_fail(error, model, NULL, "\"%.80s\" is %s; accepted: what the model says, %s",
                         value->name, onnx_type_words(&learnt, &have),
                         onnx_type_words(value, &want));
    int64_t *own = onnx_allocate(model, (size_t)rank, sizeof *own, error);
    if (own == NULL)
        return false;
    take_dims(value, &learnt, own);
    return true;
}

/* ---- Attributes ---- */

static const char *kind_word(int kind) {
    static const char *const words[] = {"nothing",  "a float", "an integer", "a string",
                                        "a tensor", "a graph", "floats",     "integers",
                                        "strings",  "tensors", "graphs"};
    bool known = kind >= 0 && kind < (int)(sizeof words / sizeof *words);
    return known ? words[kind] : "something else";
}

static const struct onnx_attribute *find(const struct onnx_node *node, const char *name) {
    for (int i = 0; i < node->attribute_count; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

static bool check_kind(const struct onnx_model *model, const struct onnx_node *node,
                       const struct onnx_attribute *attribute, int kind, struct error *error) {
    return attribute == NULL || attribute->kind == kind ||
           onnx_fail(error, model, node, "%s is %s; accepted: %s", attribute->name,
                     kind_word(attribute->kind), kind_word(kind));
}

bool onnx_integer_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                     int64_t otherwise, int64_t *value, struct error *error) {
    const struct onnx_attribute *attribute = find(node, name);
    *value = attribute ? attribute->integer : otherwise;
    return check_kind(model, node, attribute, ONNX_INTEGER, error);
}

double onnx_number_of(const struct onnx_node *node, const char *name) {
    const struct onnx_attribute *attribute = find(node, name);
    return attribute != NULL && attribute->kind == ONNX_FLOAT ? (double)attribute->number : 0;
}

bool onnx_word_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                  const char *otherwise, char *word, size_t size, struct error *error) {
    const struct onnx_attribute *attribute = find(node, name);
    const char *text = attribute ? attribute->text : otherwise;
    size_t length = attribute ? attribute->length : strlen(otherwise);
    if (!check_kind(model, node, attribute, ONNX_STRING, error))
        return false;
    snprintf(word, size, "%.*s", length < size ? (int)length : (int)size - 1, length ? text : "");
    return length < size ||
           onnx_fail(error, model, node, "%s is \"%s...\", %zu bytes; accepted: at most %zu", name,
                     word, length, size - 1);
}

static bool is_known(const char *name, const char *const *known) {
    while (*known != NULL && strcmp(*known, name) != 0)
        known++;
    return *known != NULL;
}

bool onnx_only_attributes(const struct onnx_model *model, const struct onnx_node *node,
                          const char *const *known, struct error *error) {
    char accepted[256] = "";
    size_t at = 0;
    for (int i = 0; known[i] != NULL && at < sizeof accepted; i++)
        at +=
            (size_t)snprintf(accepted + at, sizeof accepted - at, "%s%s", i ? ", " : "", known[i]);
    for (int i = 0; i < node->attribute_count; i++)
        if (!is_known(node->attributes[i].name, known))
            return onnx_fail(error, model, node, "has an attribute \"%.60s\"; accepted: %s",
                             node->attributes[i].name, at ? accepted : "none");
    return true;
}

/* ---- Constants ---- */

bool onnx_bytes(const struct onnx_value *value, int64_t *bytes) {
    int64_t count = 1;
    bool fits = true, empty = false;
    for (int d = 0; d < value->rank; d++) {
        fits = fits && !__builtin_mul_overflow(count, value->dims[d], &count);
        empty = empty || value->dims[d] == 0;
    }
    fits = fits && count <= kvmill_dtype_most(value->dtype);
    *bytes = fits && !empty ? kvmill_dtype_bytes(value->dtype, count) : 0;
    return fits || empty;
}

/* Returns the bytes that a unit of the constant contributes. */
static int unit_of(const struct onnx_value *value) {
    int bytes = (kvmill_dtype_bits(value->dtype) + 7) / 8;
    return bytes < value->constant.wide ? bytes : value->constant.wide;
}

const char *onnx_constant_problem(const struct onnx_value *value) {
    const struct onnx_constant *constant = &value->constant;
    int64_t bytes;
    if (constant->place != ONNX_HERE)
        return constant->place == ONNX_ELSEWHERE ? "has its elements in another file"
                                                 : "has no elements";
    if (value->dtype.bits == 0 || value->dtype.code == kDLOpaqueHandle)
        return "has elements of a type that kvmill does not support";
    bool whole = onnx_bytes(value, &bytes) && bytes % unit_of(value) == 0 &&
                 constant->count == (uint64_t)bytes / (unsigned)unit_of(value);
    return whole ? NULL : "has more or fewer elements than its shape says";
}

void onnx_constant_copy(const struct onnx_value *value, void *to) {
    const struct onnx_constant *constant = &value->constant;
    size_t unit = (size_t)unit_of(value), wide = (size_t)constant->wide;
    const unsigned char *from = constant->data;
    if (unit == wide && constant->count > 0)
        memcpy(to, from, constant->count * unit);
    for (size_t i = 0; unit != wide && i < constant->count; i++)
        memcpy((unsigned char *)to + i * unit, from + i * wide, unit);
}
