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
    struct onnx_block blocks; /* the ring begins here */
    size_t left;
    bool exhausted; /* something was refused for `left` */
};

/* Begin the memory of a model whose file has that size. */
bool onnx_memory_begin(struct onnx_model *model, size_t size, struct error *error);

/* As protobuf-c wants an allocator; `data` is a struct onnx_memory. */
void *onnx_memory_take(void *data, size_t size);
void onnx_memory_give_back(void *data, void *pointer);

/* Why there was nothing: too little in all, or more than the file is worth. */
bool onnx_memory_fail(const struct onnx_model *model, struct error *error);

/* Zeroed; NULL with the error set.  0 of something is a block, too. */
void *onnx_allocate(struct onnx_model *model, size_t count, size_t size, struct error *error);

#endif
