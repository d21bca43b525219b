/* Reading the header of a GGUF file, llama.cpp's format of models: what each layer stores in its
   key/value cache.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_GGUF_H
#define KVMILL_IMPORT_GGUF_GGUF_H

#include "../../base/text.h"
#include "../hf/config.h"

/* Whether a name ends with ".gguf". */
bool is_gguf_name(const char *name);

/* Reads the header of versions 2 and 3, little-endian; of tensors only the names.  Appends a line
   for standard error to `notes`, with what concerns attention and is not understood.  On success
   release the model with model_free; after a failure there is nothing to release. */
bool gguf_read(const char *file, struct model *model, struct text *notes, struct error *error);

#endif
