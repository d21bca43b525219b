/* Reads a file as a protobuf message.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../base/input.h"
#include "onnx_reader.h"

/* The limit is that of a protobuf message. */
static const struct input_kind onnx_input = {.words = "an ONNX model", .most = (int64_t)2 << 30};

static Onnx__Model *unpack(const unsigned char *data, size_t size, struct onnx_model *model,
                           struct error *error) {
    ProtobufCAllocator allocator = {onnx_memory_take, onnx_memory_give_back, model->memory};
    Onnx__Model *message = onnx__model__unpack(&allocator, size, data);
    if (message == NULL && (model->memory->exhausted || model->memory->lacked))
        onnx_memory_fail(model, error);
    else if (message == NULL)
        fail(error, EXIT_USER,
             "%s: damaged or cut off, or no ONNX model; accepted: the binary form of one",
             model->file);
    return message;
}

Onnx__Model *onnx_unpack(struct onnx_model *model, struct error *error) {
    struct text text = {0};
    Onnx__Model *message = NULL;
    if (input_read(model->file, &onnx_input, &text, error) &&
        onnx_memory_begin(model, text.length, error))
        message = unpack((unsigned char *)text.data, text.length, model, error);
    text_free(&text);
    return message;
}
