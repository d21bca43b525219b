/* Files that hold specs, or what specs are made of; the name tells.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "onnx/onnx.h"
#include "spec_file.h"

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

/* Decides by "op": else a mistyped "kernels" would be read as a spec without an op. */
static bool is_single_spec(const struct json_place *root) {
    return json_object_get(root->value, "op") != NULL;
}

/* Names must differ: each is a function in the pack's header. */
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
