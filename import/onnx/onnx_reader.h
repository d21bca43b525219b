/* What the files of the ONNX reader and writer that know the format share.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_READER_H
#define KVMILL_IMPORT_ONNX_ONNX_READER_H

#include "onnx.pb-c.h"
#include "onnx_memory.h"

/* The message of the model's file, in the model's memory; NULL with the error set. */
Onnx__Model *onnx_unpack(struct onnx_model *model, struct error *error);

/* onnx_read, and the message, which goes with the model.  Its nodes are the model's, in their
 * order. */
bool onnx_read_message(const char *file, struct onnx_model *model, Onnx__Model **message,
                       struct error *error);

#endif
