/* TensorScatter in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "rows_family.h"
#include "spec.h"

void scatter_spec_begin(struct spec *spec, const char *mode, DLDataType dtype) {
    struct scatter_spec *scatter = &spec->scatter;
    spec->op = &tensor_scatter_spec;
    scatter->axis = -2;
    snprintf(scatter->mode, sizeof scatter->mode, "%s", mode);
    scatter->dtype = scatter->past_cache.dtype = scatter->update.dtype = dtype;
    scatter->write_indices.dtype = (DLDataType){kDLInt, 64, 1};
}

kvmill_tensor_scatter scatter_op_of(const struct spec *spec) {
    const struct scatter_spec *scatter = &spec->scatter;
    return (kvmill_tensor_scatter){
        .struct_size = sizeof(kvmill_tensor_scatter),
        .axis = scatter->axis,
        .mode = scatter->mode,
        .past_cache = &scatter->past_cache,
        .update = &scatter->update,
        .write_indices = scatter->write_indices.shape ? &scatter->write_indices : NULL,
    };
}

static bool is_complete(const struct spec *spec) {
    return spec->scatter.past_cache.shape != NULL && spec->scatter.update.shape != NULL;
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_row_geometry geometry;
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    if (!is_complete(spec))
        return true;
    if (kvmill_tensor_scatter_check(&op, &geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    return true;
}

/* ---- Reading ---- */

static bool read_dim(const struct json_place *place, int64_t *dim, struct error *error) {
    const char *text = json_string_value(place->value);
    *dim = KVMILL_DYNAMIC;
    if (text != NULL)
        return strcmp(text, "?") == 0 ||
               json_fail(error, place, "is \"%.40s\"; accepted: a count, or \"?\"", text);
    return json_get_integer(place, 0, INT64_MAX, dim, error);
}

bool spec_read_shape(const struct json_place *place, DLTensor *tensor, struct error *error) {
    if (place->value == NULL)
        return true;
    if (!json_get_array(place, error))
        return false;
    int rank = (int)json_array_size(place->value);
    if (!spec_set_shape(tensor, NULL, 0, error))
        return false;
    int64_t *dims = calloc((size_t)rank + 1, sizeof *dims);
    bool done = dims != NULL || out_of_memory(error);
    for (int d = 0; done && d < rank; d++) {
        struct json_place element = json_element(place, (size_t)d);
        done = read_dim(&element, &dims[d], error);
    }
    done = done && spec_set_shape(tensor, dims, rank, error);
    free(dims);
    return done;
}

static bool read_member_shape(const struct json_place *place, const char *name, DLTensor *tensor,
                              struct error *error) {
    struct json_place member = json_member(place, name);
    return spec_read_shape(&member, tensor, error);
}

static bool refuse_dtype(const struct json_place *place, const char *name, struct error *error) {
    const char *names[32] = {NULL};
    for (size_t i = 0; kvmill_dtype_at(i) != NULL && i < 31; i++)
        names[i] = kvmill_dtype_at(i)->name;
    char suggestion[SUGGESTION_SIZE];
    suggest_word(name, names, suggestion);
    return json_fail(error, place,
                     "\"%.40s\" is not an element type; %s"
                     "accepted: the types of TensorScatter-24 by their ONNX or NumPy names",
                     name, suggestion);
}

static bool read_dtype(const struct json_place *place, DLDataType *dtype, struct error *error) {
    const char *name;
    struct json_place member = json_member(place, "dtype");
    if (!json_get_string(&member, &name, error))
        return false;
    const struct kvmill_dtype *known = kvmill_dtype_by_name(name);
    if (known == NULL)
        return refuse_dtype(&member, name, error);
    *dtype = known->dl;
    return true;
}

static bool read_mode(const struct json_place *place, char mode[16], struct error *error) {
    const char *text = "linear";
    struct json_place member = json_member(place, "mode");
    if (member.value != NULL && !json_get_string(&member, &text, error))
        return false;
    if (strcmp(text, "linear") != 0 && strcmp(text, "circular") != 0)
        return json_fail(error, &member, "is \"%.40s\"; accepted: \"linear\", \"circular\"", text);
    strcpy(mode, text);
    return true;
}

static bool read_axis(const struct json_place *place, int64_t *axis, struct error *error) {
    struct json_place member = json_member(place, "axis");
    *axis = -2; /* the specification's default */
    return member.value == NULL || json_get_integer(&member, INT32_MIN, INT32_MAX, axis, error);
}

static bool read_shapes(const struct json_place *place, struct scatter_spec *scatter,
                        struct error *error) {
    return read_member_shape(place, "past_cache", &scatter->past_cache, error) &&
           read_member_shape(place, "update", &scatter->update, error) &&
           read_member_shape(place, "write_indices", &scatter->write_indices, error);
}

static bool read(const struct json_place *place, struct spec *spec, struct error *error) {
    static const char *const known[] = {"op",     "axis",          "mode",    "dtype", "past_cache",
                                        "update", "write_indices", "purpose", NULL};
    int64_t axis;
    char mode[16];
    DLDataType dtype = {0};
    if (!json_only_keys(place, known, error) || !read_axis(place, &axis, error) ||
        !read_mode(place, mode, error) || !read_dtype(place, &dtype, error))
        return false;
    scatter_spec_begin(spec, mode, dtype);
    spec->scatter.axis = axis;
    return read_shapes(place, &spec->scatter, error) && check(spec, error);
}

/* ---- Writing ---- */

json_t *spec_write_shape(const DLTensor *tensor) {
    json_t *dims = json_array();
    for (int d = 0; d < tensor->ndim; d++)
        json_array_append_new(dims, tensor->shape[d] == KVMILL_DYNAMIC
                                        ? json_string("?")
                                        : json_integer(tensor->shape[d]));
    return dims;
}

static void write(const struct spec *spec, json_t *object) {
    const struct scatter_spec *scatter = &spec->scatter;
    json_object_set_new(object, "axis", json_integer(scatter->axis));
    json_object_set_new(object, "mode", json_string(scatter->mode));
    json_object_set_new(object, "dtype", json_string(kvmill_dtype_name(scatter->dtype)));
    if (scatter->past_cache.shape)
        json_object_set_new(object, "past_cache", spec_write_shape(&scatter->past_cache));
    if (scatter->update.shape)
        json_object_set_new(object, "update", spec_write_shape(&scatter->update));
    if (scatter->write_indices.shape)
        json_object_set_new(object, "write_indices", spec_write_shape(&scatter->write_indices));
}

static void free_shapes(struct spec *spec) {
    free(spec->scatter.past_cache.shape);
    free(spec->scatter.update.shape);
    free(spec->scatter.write_indices.shape);
}

/* ---- Kernels ---- */

static bool kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error) {
    struct kvmill_row_geometry geometry;
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    if (!is_complete(spec))
        return fail(error, EXIT_USER,
                    "%s: no %s; accepted here: both past_cache and update, with \"?\" for a dim "
                    "that only the run knows",
                    spec->where, spec->scatter.past_cache.shape ? "update" : "past_cache");
    if (kvmill_tensor_scatter_check(&op, &geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    struct kvmill_rows_shape shape = kvmill_rows_shape_of(&geometry, spec->scatter.dtype);
    return rows_kernels(&shape, isa, list, error);
}

const struct spec_op tensor_scatter_spec = {
    .name = "TensorScatter",
    .read = read,
    .check = check,
    .kernels = kernels,
    .without_kernels = "no data, or rows of 4-bit elements whose number only the run knows",
    .write = write,
    .free = free_shapes,
};
