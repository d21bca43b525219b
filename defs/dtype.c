/* SPDX-License-Identifier: Apache-2.0 */
#include "dtype.h"

#include <string.h>

#define TYPE(name, alias, numpy, onnx, code, bits)                                                 \
    {                                                                                              \
        name, alias, #code, numpy, onnx, {                                                         \
            code, bits, 1                                                                          \
        }                                                                                          \
    }

/* The types of ONNX TensorScatter-24 that are not types of formats.  A string element is an opaque
   handle of 8 or 16 bytes. */
static const struct kvmill_dtype others[] = {
    TYPE("float64", "double", "<f8", 11, kDLFloat, 64),
    TYPE("int16", NULL, "<i2", 5, kDLInt, 16),
    TYPE("int32", NULL, "<i4", 6, kDLInt, 32),
    TYPE("int64", NULL, "<i8", 7, kDLInt, 64),
    TYPE("uint8", NULL, "|u1", 2, kDLUInt, 8),
    TYPE("uint16", NULL, "<u2", 4, kDLUInt, 16),
    TYPE("uint32", NULL, "<u4", 12, kDLUInt, 32),
    TYPE("uint64", NULL, "<u8", 13, kDLUInt, 64),
    TYPE("bool", NULL, "|b1", 9, KVMILL_DL_BOOL, 8),
    TYPE("complex64", NULL, "<c8", 14, kDLComplex, 64),
    TYPE("complex128", NULL, "<c16", 15, kDLComplex, 128),
    TYPE("string", NULL, NULL, 8, kDLOpaqueHandle, 64),
    TYPE("string128", NULL, NULL, 0, kDLOpaqueHandle, 128),
    TYPE("float8e4m3fnuz", NULL, NULL, 18, KVMILL_DL_FLOAT8_E4M3FNUZ, 8),
    TYPE("float8e5m2fnuz", NULL, NULL, 20, KVMILL_DL_FLOAT8_E5M2FNUZ, 8),
    TYPE("float8e8m0", NULL, NULL, 24, KVMILL_DL_FLOAT8_E8M0FNU, 8),
    TYPE("uint4", NULL, NULL, 21, kDLUInt, 4),
    TYPE("float4e2m1", NULL, NULL, 23, KVMILL_DL_FLOAT4_E2M1FN, 4),
};

static const struct kvmill_dtype *other_at(size_t i) {
    return i < sizeof others / sizeof *others ? &others[i] : NULL;
}

const struct kvmill_dtype *kvmill_dtype_at(size_t i) {
    const struct kvmill_format_parts *parts;
    for (int element = 1; (parts = kvmill_format_parts(element)) != NULL; element++)
        if (parts->type.name != NULL && i-- == 0)
            return &parts->type;
    return other_at(i);
}

static bool is_named(const struct kvmill_dtype *dtype, const char *name) {
    return strcmp(dtype->name, name) == 0 || (dtype->alias && strcmp(dtype->alias, name) == 0);
}

const struct kvmill_dtype *kvmill_dtype_by_name(const char *name) {
    const struct kvmill_dtype *dtype;
    for (size_t i = 0; (dtype = kvmill_dtype_at(i)) != NULL; i++)
        if (is_named(dtype, name))
            return dtype;
    return NULL;
}

const struct kvmill_dtype *kvmill_dtype_of(DLDataType type) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(kvmill_element_of(type));
    if (parts != NULL)
        return &parts->type;
    for (size_t i = 0; other_at(i) != NULL; i++)
        if (kvmill_dtype_equal(other_at(i)->dl, type))
            return other_at(i);
    return NULL;
}

const char *kvmill_dtype_name(DLDataType type) {
    const struct kvmill_dtype *dtype = kvmill_dtype_of(type);
    return dtype ? dtype->name : "an unknown type";
}

bool kvmill_dtype_known(DLDataType type) {
    return kvmill_dtype_of(type) != NULL;
}

const char *kvmill_dtype_code(DLDataType type) {
    return kvmill_dtype_of(type)->code;
}

/* Whether no earlier format has rows of the same type. */
static bool is_first_of_its_type(int element) {
    DLDataType type = kvmill_format_parts(element)->dtype;
    for (int i = 1; i < element; i++)
        if (kvmill_dtype_equal(kvmill_format_parts(i)->dtype, type))
            return false;
    return true;
}

void kvmill_row_types(const char *names[KVMILL_MOST_FORMATS + 1]) {
    const struct kvmill_format_parts *parts;
    int count = 0;
    for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++)
        if (is_first_of_its_type(i))
            names[count++] = kvmill_dtype_name(parts->dtype);
    names[count] = NULL;
}
