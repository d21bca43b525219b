/* Types and shapes of a custom op's outputs, before a model runs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_INFER_H
#define KVMILL_ONNXRUNTIME_INFER_H

#include "node.h"

/* Returns the input that determines the type of an output. */
int infer_typed_as(const struct node_op *op, int tensor);

/* Sets the types and shapes of the first `outputs` outputs, as far as they are known. */
OrtStatus *infer_outputs(const struct node_op *op, size_t outputs, OrtShapeInferContext *context);

/* Reads a tensor's type and shape; the rank is -1 if it is not known. */
OrtStatus *infer_known(const OrtTensorTypeAndShapeInfo *info, struct known_tensor *known);

#endif
