/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- Ops ---- */

static const struct spec_op *const ops[] = {&tensor_scatter_spec};
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
        fail(error, EXIT_ENVIRONMENT, "out of memory");
        return NULL;
    }
    list->items = items;
    memset(&items[list->count], 0, sizeof *items);
    return &items[list->count++];
}

static void free_shapes(struct scatter_spec *scatter) {
    free(scatter->past_cache.shape);
    free(scatter->update.shape);
    free(scatter->write_indices.shape);
}

void spec_list_free(struct spec_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free_shapes(&list->items[i].scatter);
    free(list->items);
    *list = (struct spec_list){0};
}

bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error) {
    free(tensor->shape);
    tensor->ndim = rank;
    tensor->shape = malloc((size_t)(rank + !rank) * sizeof *tensor->shape);
    if (tensor->shape == NULL)
        return fail(error, EXIT_ENVIRONMENT, "out of memory");
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
    return json_fail(error, &member, "\"%.64s\" is not a known op; accepted: %s", name, names[0]);
}

static bool read_spec(const struct json_place *place, struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec != NULL)
        snprintf(spec->where, sizeof spec->where, "%.120s: %s", place->file,
                 place->path[0] ? place->path : "/");
    return spec != NULL && json_get_object(place, error) && read_op(place, &spec->op, error) &&
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
        if (!read_spec(&element, list, error))
            return false;
    }
    return true;
}

/* A mistyped "kernels" should not be taken for a spec without an op. */
static bool is_single_spec(const struct json_place *root) {
    return json_object_get(root->value, "op") != NULL;
}

bool specs_read(const char *file, struct spec_list *list, struct error *error) {
    json_t *document = json_read(file, error);
    if (document == NULL)
        return false;
    struct json_place root = json_root(file, document);
    bool done =
        is_single_spec(&root) ? read_spec(&root, list, error) : read_kernels(&root, list, error);
    json_decref(document);
    return done;
}

/* ---- Writing ---- */

json_t *specs_write(const struct spec_list *list) {
    json_t *kernels = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(kernels, list->items[i].op->write(&list->items[i]));
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
