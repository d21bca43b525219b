/* What the files of the ONNX reader and writer that know the format share.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_READER_H
#define KVMILL_IMPORT_ONNX_ONNX_READER_H

#include "onnx.pb-c.h"
#include "onnx_memory.h"

/* Returns the message of the model's file, in the model's memory; or NULL with an error. */
Onnx__Model *onnx_unpack(struct onnx_model *model, struct error *error);

/* Reads a model and its message, which is freed with the model.  Both have the same nodes in the
   same order. */
bool onnx_read_message(const char *file, struct onnx_model *model, Onnx__Model **message,
                       struct error *error);

#endif
