/* Memory of a model, limited by the size of its file.

   SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_memory.h"

/* A limit: an empty node takes two bytes in a file and a hundred in memory, but no real model
   consists of empty nodes. */
static const size_t spare = (size_t)16 << 20;
enum { MOST_FOR_A_BYTE = 16 };

enum { HEADER = (sizeof(struct onnx_block) + 15) / 16 * 16 };

void *onnx_memory_take(void *data, size_t size) {
    struct onnx_memory *memory = data;
    struct onnx_block *block = NULL;
    memory->exhausted = memory->exhausted || memory->left < HEADER || size > memory->left - HEADER;
    if (!memory->exhausted)
        block = malloc(HEADER + size);
    memory->lacked = memory->lacked || (block == NULL && !memory->exhausted);
    if (block == NULL)
        return NULL;
    *block = (struct onnx_block){memory->blocks.next, &memory->blocks, HEADER + size};
    block->next->before = memory->blocks.next = block;
    memory->left -= block->size;
    return (unsigned char *)block + HEADER;
}

void onnx_memory_give_back(void *data, void *pointer) {
    struct onnx_memory *memory = data;
    if (pointer == NULL)
        return;
    struct onnx_block *block = (struct onnx_block *)(void *)((unsigned char *)pointer - HEADER);
    block->before->next = block->next;
    block->next->before = block->before;
    memory->left += block->size;
    free(block);
}

bool onnx_memory_fail(const struct onnx_model *model, struct error *error) {
    if (!model->memory->exhausted)
        return fail(error, EXIT_ENVIRONMENT, "%s: out of memory", model->file);
    return fail(error, EXIT_USER,
                "%s: would take more than %d times its size; accepted: models whose nodes and "
                "tensors have content",
                model->file, (int)MOST_FOR_A_BYTE);
}

void *onnx_allocate(struct onnx_model *model, size_t count, size_t size, struct error *error) {
    size_t bytes;
    void *pointer = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes))
        pointer = onnx_memory_take(model->memory, bytes);
    if (pointer == NULL)
        onnx_memory_fail(model, error);
    else
        memset(pointer, 0, bytes);
    return pointer;
}

/* All blocks are in the ring, so the message need not be walked. */
void onnx_free(struct onnx_model *model) {
    if (model->memory != NULL)
        while (model->memory->blocks.next != &model->memory->blocks)
            onnx_memory_give_back(model->memory,
                                  (unsigned char *)model->memory->blocks.next + HEADER);
    free(model->memory);
    *model = (struct onnx_model){0};
}

bool onnx_memory_begin(struct onnx_model *model, size_t size, struct error *error) {
    struct onnx_memory *memory = model->memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return out_of_memory(error);
    memory->blocks.next = memory->blocks.before = &memory->blocks;
    memory->left = spare + MOST_FOR_A_BYTE * size;
    return true;
}
