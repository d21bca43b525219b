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

/* Kinds: v floats, w integers, h halves, x float16, f float, i int, u unsigned, l int64_t, b
   uint64_t, n a count, p what is read, q what is written, a a matrix, - nothing. */
struct word {
    const char *name;
    char result;
    const char *parameters;
    void (*call)(union value *v); /* v[0] from v[1] ... */
    void (*given)(union value *v, int lanes);
    int read_bits, read_elements;
    float tolerance;
};

extern const struct word words_of_isa[], words_meant[];
extern const int lanes_of_isa, lanes_meant;

void moderate(union value *v, int lanes);
void exponents(union value *v, int lanes);
void beyond_halves(union value *v, int lanes);
void mantissa_and_power(union value *v, int lanes);
void near_integers(union value *v, int lanes);
void quotient_of_floats(union value *v, int lanes);
void quotient_of_halves(union value *v, int lanes);
void quotient_of_brains(union value *v, int lanes);
void below_65536(union value *v, int lanes);
void least_of_several(union value *v, int lanes);
void lanes_of_mask(union value *v, int lanes);
void step_of_quads(union value *v, int lanes);
void nibble_shift(union value *v, int lanes);
void even_count(union value *v, int lanes);
void small_sums(union value *v, int lanes);
void magnitudes_of_16(union value *v, int lanes);
void magnitudes_of_32(union value *v, int lanes);
void magnitude_of_16(union value *v, int lanes);
void magnitude_of_32(union value *v, int lanes);
void codes_of_4(union value *v, int lanes);
void group_of_halves(union value *v, int lanes);

#endif
