/* SPDX-License-Identifier: Apache-2.0 */
#include "spec_flow_op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/flow.h"
#include "spec_keys.h"

/* ---- Numbers ---- */

static int64_t group_of(const kvmill_flow *flow) {
    const kvmill_cache_attention *op = flow->attention;
    bool alone = flow->select.scope != NULL && strcmp(flow->select.scope, "query_head") == 0;
    return alone || op->num_kv_heads < 1 ? 1 : op->num_heads / op->num_kv_heads;
}

int64_t flow_word(const struct flow_spec *flow, const char *text, size_t length) {
    char word[48];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    return json_integer_value(json_object_get(flow->dims, word));
}

/* Returns the value of a word or number, or 0 if the text is neither. */
static int64_t factor_of(const struct flow_spec *flow, const char *text, size_t length) {
    const kvmill_cache_attention *op = flow->flow.attention;
    const struct {
        const char *word;
        int64_t value;
    } words[] = {
        {"head_dim", op->head_dim},
        {"value_head_dim", op->value_differs ? op->value_head_dim : op->head_dim},
        {"page_size", op->page_size},
        {"block_size", flow->flow.block_size ? flow->flow.block_size : op->page_size},
        {"group", group_of(&flow->flow)},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && strncmp(words[i].word, text, length) == 0)
            return words[i].value;
    bool is_number = length > 0 && length < 10 && strspn(text, "0123456789") >= length;
    return is_number ? strtol(text, NULL, 10) : flow_word(flow, text, length);
}

/* Returns the product of "page_size", "page_size/16" or "group*head_dim", computed from left to
   right; 0 if a word is unknown or a quotient is not an integer. */
static int64_t dim_of_words(const struct flow_spec *flow, const char *text) {
    int64_t product = 1;
    for (bool divides = false;; divides = *text++ == '/') {
        size_t length = strcspn(text, "*/");
        int64_t factor = factor_of(flow, text, length);
        if (factor <= 0 || (divides ? product % factor != 0 : product > INT32_MAX / factor))
            return 0;
        product = divides ? product / factor : product * factor;
        text += length;
        if (*text == '\0')
            return product;
    }
}

/* Reads a number, or a word for one; ops/flow.c checks its range. */
static bool read_dim(const struct json_place *place, const struct flow_spec *flow, int64_t *dim,
                     struct error *error) {
    const char *text = json_string_value(place->value);
    if (text == NULL)
        return json_get_integer(place, INT32_MIN, INT32_MAX, dim, error);
    *dim = dim_of_words(flow, text);
    return *dim > 0 ||
           json_fail(
               error, place,
               "is \"%.40s\"; accepted: a number, \"head_dim\", \"value_head_dim\", "
               "\"page_size\", \"block_size\", \"group\", a word of dims, or a product of them, as "
               "\"group*head_dim/2\"",
               text);
}

bool flow_read_dims(const struct json_place *place, const struct flow_spec *flow, size_t least,
                    size_t most, int64_t dims[3], struct error *error) {
    if (!json_get_array(place, error))
        return false;
    size_t count = json_array_size(place->value);
    if (count < least || count > most)
        return json_fail(error, place, "has %zu dims; accepted: %zu%s", count, least,
                         most > least ? ", or taps before them" : "");
    for (size_t i = 0; i < count; i++) {
        struct json_place element = json_element(place, i);
        if (!read_dim(&element, flow, &dims[most - count + i], error))
            return false;
    }
    return true;
}

bool flow_read_word(const struct json_place *place, const char *key, const char **word,
                    struct error *error) {
    struct json_place member = json_member(place, key);
    return member.value == NULL || json_get_string(&member, word, error);
}

/* ---- Ops ---- */

static bool read_kind(const struct json_place *place, kvmill_flow_op *op,
                      const struct kvmill_flow_kind **kind, struct error *error) {
    const char *names[KVMILL_FLOW_CODES + 1] = {NULL};
    char suggestion[SUGGESTION_SIZE];
    struct json_place member = json_member(place, "op");
    if (!json_get_string(&member, &op->op, error))
        return false;
    *kind = kvmill_flow_kind_at(kvmill_flow_code_by_name(op->op));
    if (*kind != NULL)
        return true;
    for (int i = 0; i < KVMILL_FLOW_CODES; i++)
        names[i] = kvmill_flow_kind_at(i)->name;
    suggest_word(op->op, names, suggestion);
    return json_fail(error, &member,
                     "\"%.40s\" is not an op of flows; %saccepted: those of "
                     "kvmill-specs(5), such as GeMM, Max, topK",
                     op->op, suggestion);
}

/* Checks the keys of an op: its attributes, and those that every op has. */
static bool check_op_keys(const struct json_place *place, const struct kvmill_flow_kind *kind,
                          struct error *error) {
    static const struct {
        unsigned attribute;
        const char *key;
    } keys[] = {{KVMILL_FLOW_ALPHA, "alpha"},         {KVMILL_FLOW_BETA, "beta"},
                {KVMILL_FLOW_SCALE, "scale"},         {KVMILL_FLOW_DIMS, "dim"},
                {KVMILL_FLOW_GROUP, "group"},         {KVMILL_FLOW_SLICE, "start"},
                {KVMILL_FLOW_SLICE, "end"},           {KVMILL_FLOW_SHAPE, "shape"},
                {KVMILL_FLOW_TOLERANCE, "tolerance"}, {KVMILL_FLOW_SECOND, "second"}};
    const char *known[16] = {"op", "inputs", "output"};
    int count = 3;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (kind->attributes & keys[i].attribute)
            known[count++] = keys[i].key;
    return json_only_keys(place, known, error);
}

static bool read_inputs(const struct json_place *place, const struct kvmill_flow_kind *kind,
                        kvmill_flow_op *op, struct error *error) {
    struct json_place member = json_member(place, "inputs");
    size_t wanted = (size_t)kind->inputs;
    if (member.value == NULL && wanted == 0)
        return true;
    if (!json_get_array(&member, error))
        return false;
    if (json_array_size(member.value) != wanted)
        return json_fail(error, &member, "has %zu names; accepted for %s: %zu",
                         json_array_size(member.value), kind->name, wanted);
    for (size_t i = 0; i < wanted; i++) {
        struct json_place element = json_element(&member, i);
        if (!json_get_string(&element, &op->inputs[i], error))
            return false;
    }
    return true;
}

static bool read_dim_bit(const struct json_place *place, uint32_t *dims, struct error *error) {
    int64_t dim;
    if (!json_get_integer(place, 0, 2, &dim, error))
        return false;
    *dims |= 1u << dim;
    return true;
}

/* Reads a dim, or a list of them; an op with only one possible dim need not have the key. */
static bool read_op_dims(const struct json_place *place, const struct kvmill_flow_kind *kind,
                         kvmill_flow_op *op, struct error *error) {
    struct json_place member = json_member(place, "dim");
    if (member.value == NULL && kind->dims == 1) {
        op->dims = 1;
        return true;
    }
    if (!json_is_array(member.value))
        return read_dim_bit(&member, &op->dims, error);
    for (size_t i = 0; i < json_array_size(member.value); i++) {
        struct json_place element = json_element(&member, i);
        if (!read_dim_bit(&element, &op->dims, error))
            return false;
    }
    return true;
}

/* Reads a number; NAN stands for "no default". */
static bool read_number(const struct json_place *place, const char *key, double otherwise,
                        double *value, struct error *error) {
    struct json_place member = json_member(place, key);
    *value = otherwise;
    if (member.value == NULL && !isnan(otherwise))
        return true;
    if (member.value == NULL)
        return json_fail(error, &member, "is missing; accepted: a number");
    return spec_read_real(&member, value, error);
}

static bool read_shape(const struct json_place *place, const struct flow_spec *flow,
                       kvmill_flow_op *op, struct error *error) {
    int64_t dims[3];
    struct json_place member = json_member(place, "shape");
    if (!flow_read_dims(&member, flow, 2, 2, dims, error))
        return false;
    op->rows = dims[0];
    op->columns = dims[1];
    return true;
}

static bool read_dim_member(const struct json_place *place, const char *key,
                            const struct flow_spec *flow, int64_t *dim, struct error *error) {
    struct json_place member = json_member(place, key);
    return read_dim(&member, flow, dim, error);
}

static bool read_attributes(const struct json_place *place, const struct kvmill_flow_kind *kind,
                            const struct flow_spec *flow, kvmill_flow_op *op, struct error *error) {
    unsigned has = kind->attributes;
    return (!(has & KVMILL_FLOW_ALPHA) ||
            read_number(place, "alpha", kind->alpha, &op->alpha, error)) &&
           (!(has & KVMILL_FLOW_TOLERANCE) ||
            read_number(place, "tolerance", kind->alpha, &op->alpha, error)) &&
           (!(has & KVMILL_FLOW_BETA) ||
            read_number(place, "beta", kind->beta, &op->beta, error)) &&
           (!(has & KVMILL_FLOW_SCALE) || read_number(place, "scale", 1, &op->scale, error)) &&
           (!(has & KVMILL_FLOW_DIMS) || read_op_dims(place, kind, op, error)) &&
           (!(has & KVMILL_FLOW_GROUP) ||
            read_dim_member(place, "group", flow, &op->group, error)) &&
           (!(has & KVMILL_FLOW_SECOND) ||
            read_dim_member(place, "second", flow, &op->group, error)) &&
           (!(has & KVMILL_FLOW_SLICE) ||
            (read_dim_member(place, "start", flow, &op->start, error) &&
             read_dim_member(place, "end", flow, &op->end, error))) &&
           (!(has & KVMILL_FLOW_SHAPE) || read_shape(place, flow, op, error));
}

bool flow_read_op(const struct json_place *place, const struct flow_spec *flow, kvmill_flow_op *op,
                  struct error *error) {
    const struct kvmill_flow_kind *kind;
    return json_get_object(place, error) && read_kind(place, op, &kind, error) &&
           check_op_keys(place, kind, error) && read_inputs(place, kind, op, error) &&
           flow_read_word(place, "output", &op->output, error) &&
           read_attributes(place, kind, flow, op, error);
}
