/* Converts arrays between the forms that ONNX and specs use.

   Arrays are as in their files: types that NumPy lacks are unsigned integers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_ONNX_ARRAYS_H
#define KVMILL_TOOLS_ONNX_ARRAYS_H

#include "../import/onnx/onnx_ops.h"
#include "../spec/stablehlo.h"
#include "npy.h"

/* Makes an array of a constant.  Release it with npy_free. */
bool onnx_array_of_constant(const struct onnx_model *model, const struct onnx_value *value,
                            struct npy *npy, struct error *error);

/* Gives a value the type and shape of its array. */
bool onnx_array_learn(struct onnx_model *model, struct onnx_value *value, const struct npy *npy,
                      struct error *error);

/* Makes a row-major copy.  Release it with npy_free. */
bool array_copy(const struct npy *npy, struct npy *copy, struct error *error);

/* Makes a view with its own shape.  Release it with array_release_view. */
bool array_borrow(const struct npy *npy, struct npy *view, struct error *error);
void array_release_view(struct npy *view);

/* Reduces a view to its leading part of this shape, with the same strides. */
bool array_lead(const struct tensor_shape *shape, struct npy *view, struct error *error);

/* Whether the shape is smaller than the array along some axis. */
bool array_leads(const struct tensor_shape *shape, const struct npy *npy);

/* Returns the shape of the data of a gather or scatter. */
const struct tensor_shape *window_data(const struct spec *spec);

/* Replaces negative indices of a node, which count from the end of an axis, by indices from its
   beginning.  Refuses indices out of range. */
bool onnx_wrap_indices(const struct onnx_call *call, const struct spec *spec,
                       const DLTensor *indices, struct error *error);

#endif
