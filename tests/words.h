/* What tests/words.c.m4 says of each word of the vocabulary.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WORDS_H
#define KVMILL_TESTS_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* An argument or a result: numbers, or a vector. */
union value {
    unsigned char bytes[64];
    float floats[16];
    int32_t words[16];
    uint32_t bits[16];
    uint16_t halves[32];
    int64_t wide;
    size_t count;
    void *pointer;
} __attribute__((aligned(64)));

/* Makes arguments that may not be just any. */
typedef void arguments(union value *v, int lanes);

/* Kinds: v floats, w integers, h halves, x float16, f float, i int, u unsigned, l int64_t, b
   uint64_t, n a count, p what is read, q what is written, a a matrix, - nothing. */
struct word {
    const char *name;
    char result;
    const char *parameters;
    void (*call)(union value *v); /* v[0] from v[1] ... */
    arguments *given;
    int read_bits, read_elements;
    float tolerance;
};

extern const struct word words_of_isa[], words_meant[];
extern const int lanes_of_isa, lanes_meant;

arguments moderate, exponents, beyond_halves, mantissa_and_power, near_integers, quotient_of_floats,
    quotient_of_halves, quotient_of_brains, below_65536, least_of_several, lanes_of_mask,
    step_of_quads, nibble_shift, even_count, small_sums, magnitudes_of_16, magnitudes_of_32,
    magnitude_of_16, magnitude_of_32, codes_of_4, group_of_halves;

#endif
