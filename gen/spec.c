/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.h"

/* ---- Ops ---- */

static const struct spec_op *const ops[] = {
    &tensor_scatter_spec,   &attention_spec_ops[0], &attention_spec_ops[1],
    &attention_spec_ops[2], &attention_spec_ops[3], &attention_spec_ops[4],
    &attention_spec_ops[5], &gather_spec,           &window_scatter_spec,
    &flow_spec_op,          &onnx_attention_spec,   &onnx_attention_step_spec,
};
enum { OP_COUNT = sizeof ops / sizeof *ops };

const struct spec_op *spec_op_by_name(const char *name) {
    for (int i = 0; i < OP_COUNT; i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}

/* ---- Lists ---- */

struct spec *spec_list_append(struct spec_list *list, struct error *error) {
    struct spec *items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (items == NULL) {
        out_of_memory(error);
        return NULL;
    }
    list->items = items;
    memset(&items[list->count], 0, sizeof *items);
    return &items[list->count++];
}

/* A spec whose op is not known yet, or any more, owns nothing. */
static void free_spec(struct spec *spec) {
    if (spec->op != NULL && spec->op->free != NULL)
        spec->op->free(spec);
}

void spec_list_drop(struct spec_list *list) {
    free_spec(&list->items[--list->count]);
}

void spec_list_free(struct spec_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free_spec(&list->items[i]);
    free(list->items);
    text_free(&list->notes);
    *list = (struct spec_list){0};
}

bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error) {
    free(tensor->shape);
    tensor->ndim = rank;
    tensor->shape = malloc((size_t)(rank + !rank) * sizeof *tensor->shape);
    if (tensor->shape == NULL)
        return out_of_memory(error);
    if (rank > 0)
        memcpy(tensor->shape, dims, (size_t)rank * sizeof *tensor->shape);
    return true;
}

/* ---- Reading ---- */

static bool read_op(const struct json_place *place, const struct spec_op **op,
                    struct error *error) {
    const char *names[OP_COUNT + 1] = {NULL}, *name;
    struct json_place member = json_member(place, "op");
    if (!json_get_string(&member, &name, error))
        return false;
    for (int i = 0; i < OP_COUNT; i++)
        names[i] = ops[i]->name;
    *op = spec_op_by_name(name);
    if (*op != NULL)
        return true;
    const char *nearest = nearest_word(name, names);
    if (nearest != NULL)
        return json_fail(error, &member, "\"%.64s\" is not a known op; did you mean \"%s\"?", name,
                         nearest);
    return json_fail(error, &member,
                     "\"%.64s\" is not a known op; accepted: %s, %s, %s, %s, and the last three "
                     "with the prefix dynamic_batching.; %s, %s, %s, %s, %s",
                     name, names[0], names[1], names[2], names[3], names[7], names[8], names[9],
                     names[10], names[11]);
}

static bool read_purpose(const struct json_place *place, char purpose[64], struct error *error) {
    const char *text = "";
    struct json_place member = json_member(place, "purpose");
    if (member.value != NULL && !json_get_string(&member, &text, error))
        return false;
    if (snprintf(purpose, 64, "%s", text) >= 64)
        return json_fail(error, &member, "is %zu bytes long; accepted: at most 63", strlen(text));
    return true;
}

bool spec_read_label(const struct json_place *place, const char *key, bool (*good)(const char *),
                     const char *accepted, char *label, size_t size, struct error *error) {
    const char *text;
    struct json_place member = json_member(place, key);
    if (member.value == NULL)
        return true;
    if (!json_get_string(&member, &text, error))
        return false;
    if (!good(text) || strlen(text) >= size)
        return json_fail(error, &member, "is \"%.48s\"; accepted: at most %zu %s", text, size - 1,
                         accepted);
    strcpy(label, text);
    return true;
}

static bool is_name(const char *text) {
    return islower((unsigned char)*text) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
           strncmp(text, "km_", 3) != 0 && strncmp(text, "m4_", 3) != 0;
}

static bool read_name(const struct json_place *place, struct spec *spec, struct error *error) {
    return spec_read_label(place, "name", is_name,
                           "small letters, digits and underscores, a letter first (not km_ or m4_)",
                           spec->name, sizeof spec->name, error);
}

bool spec_read(const struct json_place *place, struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec != NULL)
        snprintf(spec->where, sizeof spec->where, "%.120s: %s", place->file,
                 place->path[0] ? place->path : "/");
    return spec != NULL && json_get_object(place, error) && read_op(place, &spec->op, error) &&
           read_purpose(place, spec->purpose, error) && read_name(place, spec, error) &&
           spec->op->read(place, spec, error);
}

static bool read_kernels(const struct json_place *root, struct spec_list *list,
                         struct error *error) {
    static const char *const known[] = {"kernels", NULL};
    struct json_place kernels = json_member(root, "kernels");
    if (!json_only_keys(root, known, error) || !json_get_array(&kernels, error))
        return false;
    size_t count = json_array_size(kernels.value);
    if (count == 0)
        return json_fail(error, &kernels, "is empty; accepted: at least one spec");
    for (size_t i = 0; i < count; i++) {
        struct json_place element = json_element(&kernels, i);
        if (!spec_read(&element, list, error))
            return false;
    }
    return true;
}

/* A mistyped "kernels" should not be taken for a spec without an op. */
static bool is_single_spec(const struct json_place *root) {
    return json_object_get(root->value, "op") != NULL;
}

/* A pack's header has one function of a name. */
static bool check_names(const struct spec_list *list, struct error *error) {
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; list->items[i].name[0] && j < i; j++)
            if (strcmp(list->items[i].name, list->items[j].name) == 0)
                return fail(error, EXIT_USER, "%s/name: is \"%s\", which an earlier spec has, too",
                            list->items[i].where, list->items[i].name);
    return true;
}

bool specs_read(const char *file, struct spec_list *list, struct error *error) {
    if (is_mlir_name(file))
        return specs_of_mlir(file, list, error);
    if (is_onnx_name(file))
        return specs_of_onnx(file, list, error);
    json_t *document = json_read(file, error);
    if (document == NULL)
        return false;
    struct json_place root = json_root(file, document);
    bool done =
        is_single_spec(&root) ? spec_read(&root, list, error) : read_kernels(&root, list, error);
    json_decref(document);
    return done && check_names(list, error);
}

/* ---- Writing ---- */

json_t *spec_write(const struct spec *spec) {
    json_t *object = json_object();
    json_object_set_new(object, "op", json_string(spec->op->name));
    if (spec->purpose[0])
        json_object_set_new(object, "purpose", json_string(spec->purpose));
    spec->op->write(spec, object);
    return object;
}

json_t *specs_write(const struct spec_list *list) {
    json_t *kernels = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(kernels, spec_write(&list->items[i]));
    return json_pack("{s:o}", "kernels", kernels);
}

/* ---- Kernels ---- */

bool specs_kernels(const struct spec_list *list, const struct isa_list *isas,
                   struct kernel_list *kernels, struct error *error) {
    for (size_t i = 0; i < list->count; i++)
        for (int j = 0; j < isas->count; j++)
            if (!list->items[i].op->kernels(&list->items[i], isas->items[j], kernels, error))
                return false;
    return true;
}
