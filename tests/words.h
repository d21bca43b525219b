/* What tests/words.c.m4 says about each word of the vocabulary.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WORDS_H
#define KVMILL_TESTS_WORDS_H

#include <stdbool.h>
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

/* Kinds: v floats, w integers, k all below 65536, h halves, x float16, f float, i int, u unsigned,
   l int64_t, b uint64_t, n a count, p an array that is read, q an array that is written, a a
   matrix, - nothing. */
struct word {
    const char *name;
    char result;
    const char *parameters;
    void (*call)(union value *v);           /* v[0] from v[1] ... */
    void (*fit)(union value *v, int lanes); /* makes arguments valid, or NULL if all are */
    int read_bits, read_elements;
    float tolerance;
};

extern const struct word words_of_isa[], words_meant[];
extern const int lanes_of_isa, lanes_meant;

/* ---- For `fit` ---- */

/* Returns 0 to n - 1. */
int below(int n);

float moderate_float(void), beyond_half(void), any_exponent(void), near_integer(void);
int32_t some_word(void);

/* Makes v[1] a code of scale v[2], with the inverse v[3], in a type with `bits` bits less. */
void make_quotient(union value *v, int i, int bits);

#endif
