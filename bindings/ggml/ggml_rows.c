/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_rows.h"

#include "host.h"

/* Formats of blocks have the same names in kvmill; an unknown name gets no plan. */
struct row_type row_type_of(const struct ggml_tensor *tensor) {
    static const DLDataType bfloat16 = {kDLBfloat, 16, 1}, bytes = {kDLUInt, 8, 1};
    enum ggml_type type = tensor->type;
    const DLDataType *element = type == GGML_TYPE_F32    ? &float32
                                : type == GGML_TYPE_F16  ? &float16
                                : type == GGML_TYPE_BF16 ? &bfloat16
                                                         : &bytes;
    return (struct row_type){.element = *element,
                             .format = element == &bytes ? host.type_name(type) : NULL,
                             .values = host.block_size(type),
                             .bytes = (int64_t)host.type_size(type)};
}

bool has_rows(const struct ggml_tensor *tensor) {
    const struct row_type type = row_type_of(tensor);
    if (type.values == 0 || tensor->ne[0] % type.values != 0 || tensor->nb[0] != (size_t)type.bytes)
        return false;
    for (int i = 1; i < GGML_MAX_DIMS; i++)
        if (tensor->nb[i] % (type.element.bits / 8u) != 0)
            return false;
    return true;
}

bool has_type(const struct ggml_tensor *tensor, enum ggml_type type) {
    return tensor != NULL && tensor->type == type && has_rows(tensor);
}
