/* StableHLO's element types, and their numbers as bits.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_ELEMENT_H
#define KVMILL_OPS_ELEMENT_H

#include <stdbool.h>

#include <kvmill.h>

enum kvmill_kind {
    KVMILL_NO_KIND,
    KVMILL_BOOL,
    KVMILL_INT,
    KVMILL_UINT,
    KVMILL_FLOAT,
    KVMILL_COMPLEX
};

/* KVMILL_NO_KIND: not a type of StableHLO. */
enum kvmill_kind kvmill_kind_of(DLDataType type);

/* StableHLO's word, "f32", "ui8", "complex<f32>"; "an unknown type" if there is none. */
const char *kvmill_element_word(DLDataType type);

/* The type of StableHLO's word, which need not end with NUL; false if there is none.  "si8" is
 * "i8". */
bool kvmill_element_by_word(const char *word, size_t length, DLDataType *type);

static inline kvmill_element_type kvmill_plain_element(DLDataType dtype) {
    return (kvmill_element_type){.dtype = dtype};
}

static inline bool kvmill_is_quantized(const kvmill_element_type *element) {
    return element->expressed.bits != 0;
}

bool kvmill_element_equal(const kvmill_element_type *a, const kvmill_element_type *b);

/* StableHLO's is_promotable: of the same kind, not narrower. */
bool kvmill_element_promotable(const kvmill_element_type *from, const kvmill_element_type *to);

/* The type as text, "!quant.uniform<i8:f32, 0.5:-3>", in `words`. */
struct kvmill_element_text {
    char text[128];
};
const char *kvmill_element_words(const kvmill_element_type *element,
                                 struct kvmill_element_text *words);

/* Bytes of an element in memory; types of less than 8 bits take one. */
static inline int64_t kvmill_element_bytes(DLDataType type) {
    return (type.bits * type.lanes + 7) / 8;
}

/* ---- Numbers ---- */

/* The bits of a number of any type; a complex number of 128 bits has its imaginary part in word[1].
 */
struct kvmill_scalar {
    uint64_t word[2];
};

struct kvmill_scalar kvmill_scalar_load(DLDataType type, const void *from);
void kvmill_scalar_store(DLDataType type, struct kvmill_scalar scalar, void *to);

/* Convert floats of all types: exactly, and rounded once, to nearest even. */
double kvmill_float_of(DLDataType type, uint64_t bits);
uint64_t kvmill_bits_of(DLDataType type, double value);

/* Halves of a complex number, as bits of floats, and back. */
struct kvmill_scalar kvmill_real_of(DLDataType type, struct kvmill_scalar scalar);
struct kvmill_scalar kvmill_imaginary_of(DLDataType type, struct kvmill_scalar scalar);
struct kvmill_scalar kvmill_complex_of(DLDataType type, uint64_t real, uint64_t imaginary);

/* A number of an integer type (or i1), sign-extended if the type is signed. */
uint64_t kvmill_integer_of(DLDataType type, uint64_t bits);

/* Convert a number to another type: one rounding, integers saturate, NaN becomes 0. */
struct kvmill_scalar kvmill_scalar_convert(const kvmill_element_type *from,
                                           const kvmill_element_type *to,
                                           struct kvmill_scalar scalar);

/* JAX's fill value: NaN, the least int, the largest unsigned int, true. */
struct kvmill_scalar kvmill_scalar_fill(DLDataType type);

#endif
