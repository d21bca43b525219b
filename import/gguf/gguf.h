/* Reading the header of a GGUF file, llama.cpp's format of models: what each layer stores in its
   key/value cache.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_GGUF_H
#define KVMILL_IMPORT_GGUF_GGUF_H

#include "../../base/text.h"
#include "../hf/config.h"

/* The name ends with ".gguf". */
bool is_gguf_name(const char *name);

/* Read the header: versions 2 and 3, little-endian; of tensors their names alone.  What is said of
   attention and not understood is appended to `notes`, a line for standard error.  On success
   release with model_free; on failure nothing is held. */
bool gguf_read(const char *file, struct model *model, struct text *notes, struct error *error);

#endif
