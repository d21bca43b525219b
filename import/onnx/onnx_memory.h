/* Memory of a model, limited by the size of its file.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_MEMORY_H
#define KVMILL_IMPORT_ONNX_ONNX_MEMORY_H

#include "onnx.h"

struct onnx_block {
    struct onnx_block *next, *before;
    size_t size;
};

struct onnx_memory {
    struct onnx_block blocks; /* the head of a ring */
    size_t left;
    bool exhausted; /* an allocation failed because of `left` */
    bool lacked;    /* an allocation failed because there is no memory */
};

/* Begins the memory of a model with a file of `size` bytes. */
bool onnx_memory_begin(struct onnx_model *model, size_t size, struct error *error);

/* An allocator for protobuf-c; `data` is a struct onnx_memory. */
void *onnx_memory_take(void *data, size_t size);
void onnx_memory_give_back(void *data, void *pointer);

/* Fails with the reason of a failed allocation: no memory, or more than a file of this size may
   take. */
bool onnx_memory_fail(const struct onnx_model *model, struct error *error);

/* Returns zeroed memory, or NULL with an error.  Zero bytes are a block, too. */
void *onnx_allocate(struct onnx_model *model, size_t count, size_t size, struct error *error);

#endif
