/* The words of an instruction set, for tests/words.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WORDS_CASES_H
#define KVMILL_TESTS_WORDS_CASES_H

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

/* A version of a word.  Kinds: v floats, w integers, k all below 65536, h halves, x float16, f
   float, i int, u unsigned, l int64_t, b uint64_t, n a count, p an array that is read, q an array
   that is written, a a matrix, - nothing. */
struct word {
    const char *version, *name;
    char result;
    const char *parameters;
    void (*meaning)(union value *v), (*call)(union value *v); /* v[0] from v[1] ... */
};

/* Made by tests/words_calls.awk. */
extern const struct word words_of_isa[];
extern const int lanes_of_isa;

/* What a word asks of its arguments. */
struct rule {
    const char *words;                      /* separated by spaces */
    int read_bits, read_elements;           /* at each pointer; 0: LANES elements; -1: its count */
    void (*fit)(union value *v, int lanes); /* makes arguments valid, or NULL if all are */
    char kind;                              /* in place of that of its parameters, or 0 */
    float tolerance;                        /* of the largest argument, for sums in another order */
};

struct rule rule_of(const char *word);

/* ---- For rules, of words.c ---- */

/* Returns 0 to n - 1. */
int below(int n);

float moderate_float(void), beyond_half(void), any_exponent(void), near_integer(void);
int32_t some_word(void);

/* Makes v[1] a code of scale v[2], with the inverse v[3], in a type with `bits` bits less. */
void make_quotient(union value *v, int i, int bits);

#endif
