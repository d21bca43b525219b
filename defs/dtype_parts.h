/* The properties of an element type, and the bytes of its elements.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_DTYPE_PARTS_H
#define KVMILL_DEFS_DTYPE_PARTS_H

#include <stdbool.h>

#include <kvmill.h>

struct kvmill_dtype {
    const char *name;  /* as in spec files */
    const char *alias; /* ONNX's word if it differs, or NULL */
    const char *code;  /* the name in DLPack, or in kvmill.h */
    const char *numpy; /* NumPy's word, "<f4"; NULL if NumPy lacks the type */
    int onnx;          /* ONNX's number; 0 if ONNX lacks the type */
    DLDataType dl;
};

/* Types that descriptions of ops use. */
static const DLDataType kvmill_float64 = {kDLFloat, 64, 1}, kvmill_float32 = {kDLFloat, 32, 1},
                        kvmill_float16 = {kDLFloat, 16, 1}, kvmill_int64 = {kDLInt, 64, 1},
                        kvmill_int32 = {kDLInt, 32, 1}, kvmill_int4 = {kDLInt, 4, 1},
                        kvmill_uint8 = {kDLUInt, 8, 1}, kvmill_bool = {KVMILL_DL_BOOL, 8, 1};

static inline bool kvmill_dtype_equal(DLDataType a, DLDataType b) {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Bits of one element: 4, or a multiple of 8. */
static inline int kvmill_dtype_bits(DLDataType type) {
    return type.bits * type.lanes;
}

/* Bytes of `count` packed elements. */
static inline int64_t kvmill_dtype_bytes(DLDataType type, int64_t count) {
    int bits = kvmill_dtype_bits(type);
    return bits == 4 ? count / 2 + count % 2 : count * (bits / 8);
}

/* The largest number of elements of a tensor with this type: PTRDIFF_MAX bytes. */
static inline int64_t kvmill_dtype_most(DLDataType type) {
    int bytes = kvmill_dtype_bits(type) / 8;
    return bytes == 0 ? PTRDIFF_MAX : PTRDIFF_MAX / bytes;
}

/* Whether there are more than that, without a division, because every run asks. */
static inline bool kvmill_dtype_is_too_many(DLDataType type, int64_t count) {
    int64_t bytes;
    return __builtin_mul_overflow(count, kvmill_dtype_bits(type) / 8, &bytes);
}

#endif
