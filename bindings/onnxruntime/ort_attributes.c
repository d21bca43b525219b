/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_attributes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmx_signatures.h"

/* ---- Sources ---- */

/* Sets a text that is too long to "...", which is no known word. */
static bool read_text(const OrtKernelInfo *info, const char *name, char *text, size_t size) {
    size_t needed = size;
    if (runtime_succeeded(ort->KernelInfoGetAttribute_string(info, name, text, &needed)))
        return true;
    if (needed > size)
        snprintf(text, size, "...");
    return needed > size;
}

static bool read_from_kernel(const void *node, const char *name, unsigned kind, void *value,
                             size_t size) {
    switch (kind) {
    case ORT_ATTRIBUTE_INTEGER:
        return runtime_succeeded(ort->KernelInfoGetAttribute_int64(node, name, value));
    case ORT_ATTRIBUTE_FLOAT:
        return runtime_succeeded(ort->KernelInfoGetAttribute_float(node, name, value));
    default:
        return read_text(node, name, value, size);
    }
}

struct attribute_source attributes_of_kernel(const OrtKernelInfo *info) {
    return (struct attribute_source){read_from_kernel, info};
}

static bool read_from_node(const void *node, const char *name, unsigned kind, void *value,
                           size_t size) {
    const OrtOpAttr *attribute = NULL;
    size_t used = 0;
    bool done = runtime_succeeded(ort->Node_GetAttributeByName(node, name, &attribute)) &&
                attribute != NULL &&
                runtime_succeeded(ort->ReadOpAttr(attribute, kind, value, size, &used));
    if (done && kind == ORT_ATTRIBUTE_STRING)
        ((char *)value)[used < size ? used : size - 1] = '\0';
    return done;
}

struct attribute_source attributes_of_node(const OrtNode *node) {
    return (struct attribute_source){read_from_node, node};
}

/* ---- The list ---- */

/* The type of a struct's member. */
enum kind { INT64, INT32, DOUBLE, WORD };

static unsigned attribute_kind(enum kind kind) {
    static const unsigned kinds[] = {[INT64] = ORT_ATTRIBUTE_INTEGER,
                                     [INT32] = ORT_ATTRIBUTE_INTEGER,
                                     [DOUBLE] = ORT_ATTRIBUTE_FLOAT,
                                     [WORD] = ORT_ATTRIBUTE_STRING};
    return kinds[kind];
}

static const struct {
    const char *name;
    enum kind kind;
    size_t place;
    unsigned pmx; /* bits of PMX's ops; 0: of all other ops */
} list[] = {
#define PLACE(member) offsetof(struct attributes, member)
#define INTEGER(name)                                                                              \
    { #name, INT64, PLACE(attention.name), 0 }
#define FLOATING(name)                                                                             \
    { #name, DOUBLE, PLACE(attention.name), 0 }
#define GROUP_QUERY(name)                                                                          \
    { #name, INT64, PLACE(group_query.name), 0 }
#define GROUP_QUERY_WORD(name)                                                                     \
    { #name, WORD, PLACE(group_query.name), 0 }
#define PMX_INTEGER(name, ops)                                                                     \
    { #name, INT64, PLACE(cache_attention.name), ops }
#define PMX_FLAG(name, ops)                                                                        \
    { #name, INT32, PLACE(cache_attention.name), ops }
    INTEGER(opset),
    INTEGER(is_causal),
    INTEGER(q_num_heads),
    INTEGER(kv_num_heads),
    FLOATING(scale),
    FLOATING(softcap),
    INTEGER(softmax_precision),
    INTEGER(qk_matmul_output_mode),
    INTEGER(left_window_size),
    INTEGER(right_window_size),
    {"axis", INT64, PLACE(axis), 0},
    {"axis", INT64, PLACE(windows.axis), 0},
    {"batch_dims", INT64, PLACE(windows.batch_dims), 0},
    {"reduction", WORD, PLACE(windows.reduction), 0},
    {"mode", WORD, PLACE(mode), 0},
    KVMILL_GROUP_QUERY_INTEGERS(GROUP_QUERY),
    KVMILL_GROUP_QUERY_WORDS(GROUP_QUERY_WORD),
    {"key_cache_format", WORD, PLACE(key_cache_format), 0},
    {"value_cache_format", WORD, PLACE(value_cache_format), 0},
    PMX_ATTRIBUTES};
enum { ATTRIBUTES = sizeof list / sizeof *list };

/* Attributes that only matter with inputs that are refused anyway. */
static const char *const idle[] = {"qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"};

static bool is_of(size_t i, unsigned pmx) {
    return list[i].pmx == pmx || (list[i].pmx & pmx) != 0;
}

/* A value as the runtime returns it. */
union value {
    int64_t integer;
    float number;
    char word[ATTRIBUTE_WORD];
};

/* Returns false if the source has no attribute with this name and kind. */
static bool read_value(const struct attribute_source *source, size_t i, union value *value) {
    static const size_t sizes[] = {[INT64] = sizeof value->integer,
                                   [INT32] = sizeof value->integer,
                                   [DOUBLE] = sizeof value->number,
                                   [WORD] = sizeof value->word};
    return source->read(source->node, list[i].name, attribute_kind(list[i].kind), value,
                        sizes[list[i].kind]);
}

static void set_member(struct attributes *attributes, size_t i, const union value *value) {
    void *place = (char *)attributes + list[i].place;
    switch (list[i].kind) {
    case INT64:
        *(int64_t *)place = value->integer;
        break;
    case INT32:
        *(int32_t *)place = value->integer != 0;
        break;
    case DOUBLE:
        *(double *)place = (double)value->number;
        break;
    case WORD:
        memcpy(place, value->word, sizeof value->word);
    }
}

void attributes_each(const struct attribute_source *source, unsigned pmx,
                     void (*take)(void *data, const char *name, unsigned kind, const void *value),
                     void *data) {
    union value value;
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (is_of(i, pmx) && read_value(source, i, &value))
            take(data, list[i].name, attribute_kind(list[i].kind), &value);
}

static void set_defaults(struct attributes *attributes, int64_t opset) {
    memset(attributes, 0, sizeof *attributes);
    kvmill_attention_init(&attributes->attention, sizeof attributes->attention);
    attributes->attention.opset = opset;
    attributes->axis = -2;
    strcpy(attributes->mode, "linear");
    strcpy(attributes->windows.reduction, "none");
    kvmill_group_query_init(&attributes->group_query);
    kvmill_cache_attention_init(&attributes->cache_attention, sizeof attributes->cache_attention);
    attributes->cache_attention.num_layer = PMX_LAYERS_UNSAID;
}

OrtStatus *attributes_read(struct attributes *attributes, const struct attribute_source *source,
                           int64_t opset, unsigned pmx) {
    union value value;
    set_defaults(attributes, opset);
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (is_of(i, pmx) && read_value(source, i, &value))
            set_member(attributes, i, &value);
    attributes->group_query.scale = attributes->attention.scale;
    attributes->group_query.softcap = attributes->attention.softcap;
    attributes->is_circular = strcmp(attributes->mode, "circular") == 0;
    if (!attributes->is_circular && strcmp(attributes->mode, "linear") != 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "mode is \"%s\"; accepted: \"linear\" or \"circular\"",
                            attributes->mode);
    return NULL;
}

/* ---- Names ---- */

static bool is_known(const char *name, const struct attribute_source *source, unsigned pmx) {
    union value value;
    bool known = false;
    for (size_t i = 0; !known && i < ATTRIBUTES; i++)
        known = strcmp(list[i].name, name) == 0 && is_of(i, pmx) && read_value(source, i, &value);
    for (size_t i = 0; !known && i < sizeof idle / sizeof *idle; i++)
        known = pmx == 0 && strcmp(idle[i], name) == 0;
    return known;
}

static OrtStatus *check_one(const OrtNode *node, const OrtOpAttr *attribute, unsigned pmx) {
    const struct attribute_source source = attributes_of_node(node);
    const char *name = "";
    OrtStatus *status = ort->OpAttr_GetName(attribute, &name);
    if (status != NULL || is_known(name, &source, pmx))
        return status;
    return runtime_fail(
        ORT_IS_INVALID_ARGUMENT,
        "attribute %.80s; accepted: the op's attributes, with values of the right kind", name);
}

OrtStatus *attributes_check(const OrtNode *node, unsigned pmx) {
    size_t count = 0;
    OrtStatus *status = ort->Node_GetNumAttributes(node, &count);
    const OrtOpAttr **attributes = calloc(count + 1, sizeof *attributes);
    if (attributes == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for attributes");
    if (status == NULL)
        status = ort->Node_GetAttributes(node, attributes, count);
    for (size_t i = 0; status == NULL && i < count; i++)
        status = check_one(node, attributes[i], pmx);
    free(attributes);
    return status;
}
