/* Where a tensor message has its elements.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_reader.h"

/* A list of a tensor message, and the types that it is for: a bit for each of ONNX's numbers. */
struct list {
    const void *data;
    size_t count;
    int wide;
    uint32_t types;
};

struct onnx_constant onnx_constant_of(const Onnx__Tensor *tensor) {
    enum { FLOATS = 1 << 1 | 1 << 14, DOUBLES = 1 << 11 | 1 << 15, LONGS = 1 << 7 };
    enum { UNSIGNED = 1 << 12 | 1 << 13, STRINGS = 1 << 8 };
    const struct list lists[] = {
        {tensor->raw.data, tensor->raw.len, 1, ~(uint32_t)STRINGS},
        {tensor->float_data, tensor->n_float_data, 4, FLOATS},
        {tensor->double_data, tensor->n_double_data, 8, DOUBLES},
        {tensor->int64_data, tensor->n_int64_data, 8, LONGS},
        {tensor->uint64_data, tensor->n_uint64_data, 8, UNSIGNED},
        {tensor->int32_data, tensor->n_int32_data, 4,
         ~(uint32_t)(FLOATS | DOUBLES | LONGS | UNSIGNED | STRINGS)},
    };
    struct onnx_constant constant = {.place = ONNX_HERE, .wide = 1};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].count > 0 && (lists[i].types >> tensor->data_type & 1))
            constant =
                (struct onnx_constant){ONNX_HERE, lists[i].data, lists[i].count, lists[i].wide};
    if (tensor->location != 0)
        constant.place = ONNX_ELSEWHERE;
    return constant;
}
