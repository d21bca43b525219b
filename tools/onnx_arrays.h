/* Converts arrays between the forms that ONNX and specs use.

   An array has the form of its file: types that NumPy lacks as unsigned integers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_ONNX_ARRAYS_H
#define KVMILL_TOOLS_ONNX_ARRAYS_H

#include "../import/onnx/onnx_ops.h"
#include "../gen/stablehlo.h"
#include "npy.h"

/* The array of a value's constant; release with npy_free. */
bool onnx_array_of_constant(const struct onnx_model *model, const struct onnx_value *value,
                            struct npy *npy, struct error *error);

/* A value gets the type and shape of the array that is given for it. */
bool onnx_array_learn(struct onnx_model *model, struct onnx_value *value, const struct npy *npy,
                      struct error *error);

/* A copy, row-major; release with npy_free. */
bool array_copy(const struct npy *npy, struct npy *copy, struct error *error);

/* The same elements in a shape of its own; release with array_return. */
bool array_borrow(const struct npy *npy, struct npy *view, struct error *error);
void array_return(struct npy *view);

/* A view as the leading part of what it is, of these extents, in the same strides. */
bool array_lead(const struct tensor_shape *shape, struct npy *view, struct error *error);

/* Whether the spec's data is less than the array. */
bool array_leads(const struct tensor_shape *shape, const struct npy *npy);

/* What a gather or scatter is on. */
const struct tensor_shape *window_data(const struct spec *spec);

/* Indices of a node that count from the end of an axis become such from its beginning.  Refuses
   what is outside. */
bool onnx_wrap_indices(const struct onnx_call *call, const struct spec *spec,
                       const DLTensor *indices, struct error *error);

#endif
