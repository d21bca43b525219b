/* SPDX-License-Identifier: Apache-2.0 */
#include "attributes.h"

#include <stdio.h>
#include <string.h>

/* ---- Sources ---- */

/* A text that is too long is none that is known. */
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

static const struct {
    const char *name;
    unsigned kind;
    size_t place;
} list[] = {
#define INTEGER(name)                                                                              \
    { #name, ORT_ATTRIBUTE_INTEGER, offsetof(struct attributes, attention.name) }
#define FLOATING(name)                                                                             \
    { #name, ORT_ATTRIBUTE_FLOAT, offsetof(struct attributes, attention.name) }
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
    {"axis", ORT_ATTRIBUTE_INTEGER, offsetof(struct attributes, axis)},
};

static void read_one(struct attributes *attributes, const struct attribute_source *source,
                     size_t i) {
    void *place = (char *)attributes + list[i].place;
    int64_t integer;
    float number;
    if (list[i].kind == ORT_ATTRIBUTE_INTEGER &&
        source->read(source->node, list[i].name, list[i].kind, &integer, sizeof integer))
        *(int64_t *)place = integer;
    if (list[i].kind == ORT_ATTRIBUTE_FLOAT &&
        source->read(source->node, list[i].name, list[i].kind, &number, sizeof number))
        *(double *)place = (double)number;
}

OrtStatus *attributes_read(struct attributes *attributes, const struct attribute_source *source,
                           int64_t opset) {
    char mode[16] = "linear";
    memset(attributes, 0, sizeof *attributes);
    kvmill_attention_init(&attributes->attention, sizeof attributes->attention);
    attributes->attention.opset = opset;
    attributes->axis = -2;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        read_one(attributes, source, i);
    source->read(source->node, "mode", ORT_ATTRIBUTE_STRING, mode, sizeof mode);
    attributes->is_circular = strcmp(mode, "circular") == 0;
    if (!attributes->is_circular && strcmp(mode, "linear") != 0)
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "mode is \"%s\"; accepted: \"linear\" or \"circular\"", mode);
    return NULL;
}
