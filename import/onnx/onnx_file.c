/* Reads a file as a protobuf message.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "onnx_reader.h"

/* The size limit of a protobuf message. */
static const size_t largest_file = (size_t)2 << 30;

static bool check_size(const char *file, FILE *stream, size_t *size, struct error *error) {
    struct stat status;
    if (fstat(fileno(stream), &status) != 0)
        return fail_errno(error, "read", file);
    if (!S_ISREG(status.st_mode))
        return fail(error, EXIT_USER, "%s: is not a regular file; accepted: an ONNX model", file);
    *size = (size_t)status.st_size;
    return *size <= largest_file ||
           fail(error, EXIT_USER, "%s: %zu bytes; accepted: at most 2 GiB", file, *size);
}

static Onnx__Model *unpack(const unsigned char *data, size_t size, struct onnx_model *model,
                           struct error *error) {
    ProtobufCAllocator allocator = {onnx_memory_take, onnx_memory_give_back, model->memory};
    Onnx__Model *message = onnx__model__unpack(&allocator, size, data);
    if (message == NULL && model->memory->exhausted)
        onnx_memory_fail(model, error);
    else if (message == NULL)
        fail(error, EXIT_USER,
             "%s: damaged or cut off, or no ONNX model; accepted: the binary form of one",
             model->file);
    return message;
}

static Onnx__Model *read_and_unpack(FILE *stream, struct onnx_model *model, struct error *error) {
    size_t size = 0;
    Onnx__Model *message = NULL;
    if (!check_size(model->file, stream, &size, error) || !onnx_memory_begin(model, size, error))
        return NULL;
    unsigned char *data = malloc(size + 1);
    size_t got = data ? fread(data, 1, size, stream) : 0;
    if (data == NULL)
        fail(error, EXIT_ENVIRONMENT, "%s: out of memory for %zu bytes", model->file, size);
    else if (ferror(stream))
        fail_errno(error, "read", model->file);
    else
        message = unpack(data, got, model, error);
    free(data);
    return message;
}

Onnx__Model *onnx_unpack(struct onnx_model *model, struct error *error) {
    FILE *stream = fopen(model->file, "rb");
    if (stream == NULL) {
        fail_to_use(error, "read", model->file);
        return NULL;
    }
    Onnx__Model *message = read_and_unpack(stream, model, error);
    fclose(stream);
    return message;
}
