/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_arrays.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/extent.h"
#include "run_op.h"

/* ---- Values ---- */

/* Makes an array for a constant.  4-bit elements become bytes without the shape, which the spec
   has. */
static bool make_for(const struct onnx_value *value, int64_t bytes, struct npy *npy,
                     struct error *error) {
    if (kvmill_dtype_bits(value->dtype) == 4)
        return npy_make(kvmill_uint8, &bytes, 1, npy, error);
    return npy_make(value->dtype, value->dims, value->rank, npy, error);
}

bool onnx_array_of_constant(const struct onnx_model *model, const struct onnx_value *value,
                            struct npy *npy, struct error *error) {
    const char *problem = onnx_constant_problem(value);
    int64_t bytes;
    if (problem != NULL)
        return onnx_fail(error, model, NULL,
                         "\"%.80s\" %s; accepted: a constant with its elements in the model",
                         value->name, problem);
    if (!onnx_bytes(value, &bytes) || !make_for(value, bytes, npy, error))
        return false;
    onnx_constant_copy(value, npy->tensor.data);
    return true;
}

bool onnx_array_learn(struct onnx_model *model, struct onnx_value *value, const struct npy *npy,
                      struct error *error) {
    struct npy view;
    const DLTensor declared = {.ndim = value->rank, .shape = value->dims};
    if (value->dtype.bits == 0)
        return onnx_fail(
            error, model, NULL,
            "\"%.80s\" has a type that kvmill does not support; accepted: a tensor of numbers",
            value->name);
    if (!array_borrow(npy, &view, error))
        return false;
    bool done =
        array_adopt(value->name, value->dtype, value->has_shape ? &declared : NULL, &view, error) &&
        onnx_learn(model, value, value->dtype, view.tensor.ndim, view.tensor.shape, error);
    array_release_view(&view);
    return done;
}

/* ---- Copies and views ---- */

/* Copies the elements of a strided array in row-major order. */
static void copy_rows(const DLTensor *from, const DLTensor *to, int64_t count) {
    int bytes = from->dtype.bits / 8;
    bool overflow = false; /* impossible: the data is in memory */
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0, rest = i;
        for (int d = from->ndim - 1; d >= 0; d--) {
            int64_t along = rest % from->shape[d];
            at = kvmill_plus(at, kvmill_times(along, from->strides[d], &overflow), &overflow);
            rest /= from->shape[d];
        }
        memcpy((unsigned char *)to->data + i * bytes,
               (const unsigned char *)from->data + at * bytes, (size_t)bytes);
    }
}

bool array_copy(const struct npy *npy, struct npy *copy, struct error *error) {
    if (!npy_like(npy, copy, error))
        return false;
    if (npy->tensor.strides != NULL)
        copy_rows(&npy->tensor, &copy->tensor, kvmill_element_count(&npy->tensor));
    else
        memcpy(copy->tensor.data, npy->tensor.data, npy_bytes(npy));
    return true;
}

static int64_t *copy_dims(const int64_t *dims, int rank) {
    int64_t *copy = malloc(((size_t)rank + 1) * sizeof *copy);
    if (copy != NULL && rank > 0)
        memcpy(copy, dims, (size_t)rank * sizeof *copy);
    return copy;
}

bool array_borrow(const struct npy *npy, struct npy *view, struct error *error) {
    const DLTensor *tensor = &npy->tensor;
    *view = *npy;
    view->tensor.shape = copy_dims(tensor->shape, tensor->ndim);
    view->tensor.strides = tensor->strides ? copy_dims(tensor->strides, tensor->ndim) : NULL;
    if (view->tensor.shape != NULL && (view->tensor.strides != NULL || tensor->strides == NULL))
        return true;
    array_release_view(view);
    return out_of_memory(error);
}

void array_release_view(struct npy *view) {
    view->tensor.data = NULL;
    npy_free(view);
}

static void set_strides(const DLTensor *tensor, int64_t *strides) {
    int64_t stride = 1;
    bool overflow = false; /* only if the array is empty, so that no stride is used */
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride = kvmill_times(stride, tensor->shape[d], &overflow);
    }
}

bool array_leads(const struct tensor_shape *shape, const struct npy *npy) {
    bool less = false;
    for (int d = 0; d < shape->rank; d++)
        less = less || shape->dims[d] < npy->tensor.shape[d];
    return less;
}

bool array_lead(const struct tensor_shape *shape, struct npy *view, struct error *error) {
    DLTensor *tensor = &view->tensor;
    if (tensor->strides == NULL) {
        tensor->strides = malloc(((size_t)tensor->ndim + 1) * sizeof *tensor->strides);
        if (tensor->strides == NULL)
            return out_of_memory(error);
        set_strides(tensor, tensor->strides);
    }
    memcpy(tensor->shape, shape->dims, (size_t)shape->rank * sizeof *tensor->shape);
    return true;
}

/* ---- Indices ---- */

/* The data of a gather or scatter, and the axis that each component of an index vector counts
   on. */
struct starts {
    const struct axes *map;
    const struct tensor_shape *data;
};

static struct starts starts_of(const struct spec *spec) {
    if (spec_is(spec, OP_GATHER))
        return (struct starts){&spec->gather->start_index_map, &spec->gather->operand};
    return (struct starts){&spec->window_scatter->scatter_dims_to_operand_dims,
                           &spec->window_scatter->inputs[0]};
}

const struct tensor_shape *window_data(const struct spec *spec) {
    return starts_of(spec).data;
}

static int64_t get_index(const DLTensor *tensor, int64_t i) {
    return tensor->dtype.bits == 32 ? ((const int32_t *)tensor->data)[i]
                                    : ((const int64_t *)tensor->data)[i];
}

static void set_index(const DLTensor *tensor, int64_t i, int64_t index) {
    if (tensor->dtype.bits == 32)
        ((int32_t *)tensor->data)[i] = (int32_t)index;
    else
        ((int64_t *)tensor->data)[i] = index;
}

static bool check_index(const struct onnx_call *call, const DLTensor *indices, int64_t i,
                        int64_t extent, struct error *error) {
    int64_t index = get_index(indices, i);
    bool inside = index >= -extent && index < extent;
    bool fits = indices->dtype.bits > 32 || index + extent <= INT32_MAX || index >= 0;
    return (inside && fits) || onnx_fail(error, call->model, call->node,
                                         "index %" PRId64 " of them is %" PRId64
                                         "; accepted: -%" PRId64 " to %" PRId64 "%s",
                                         i, index, extent, extent - 1, fits ? "" : ", as int64");
}

/* The components of an index vector must be adjacent. */
bool onnx_wrap_indices(const struct onnx_call *call, const struct spec *spec,
                       const DLTensor *indices, struct error *error) {
    const struct starts starts = starts_of(spec);
    int64_t count = kvmill_element_count(indices);
    for (int64_t i = 0; i < count; i++) {
        int64_t extent = starts.data->dims[starts.map->items[i % starts.map->count]];
        if (!check_index(call, indices, i, extent, error))
            return false;
        if (get_index(indices, i) < 0)
            set_index(indices, i, get_index(indices, i) + extent);
    }
    return true;
}
