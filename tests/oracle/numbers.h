/* Numbers of the types that caches have.  Arithmetic is double; shares nothing with what is judged.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_NUMBERS_H
#define KVMILL_TESTS_ORACLE_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

enum oracle_type {
    ORACLE_F32,
    ORACLE_F16,
    ORACLE_BF16,
    ORACLE_I8,
    ORACLE_I4, /* element 2i in the low nibble of byte i */
    ORACLE_Q8_0,
    ORACLE_Q4_0, /* llama.cpp's blocks of 32 */
    ORACLE_E4M3, /* without infinities; these two saturate */
    ORACLE_E5M2,
    ORACLE_Q5_1, /* of 32, with a minimum */
    ORACLE_Q4_1, /* with a minimum, too */
    ORACLE_Q5_0,
    ORACLE_IQ4_NL,
    ORACLE_Q6_0,
    ORACLE_Q8_KV /* a float32 scale, the sum of the codes in 32 bits, int8: one block is a row */
};

/* Floating types only: nearest, ties to even, with subnormals and overflow to infinity. */
double oracle_round(enum oracle_type type, double x);
uint32_t oracle_encode(enum oracle_type type, double x);
double oracle_decode(enum oracle_type type, uint32_t bits);

/* Element `number` of an array; of integers as well. */
double oracle_get(enum oracle_type type, const unsigned char *array, int64_t number);
void oracle_put(enum oracle_type type, unsigned char *array, int64_t number, double x);

/* Bytes of `count` elements; of blocks, count is a multiple of 32. */
int64_t oracle_bytes(enum oracle_type type, int64_t count);

/* llama.cpp's blocks, of so many elements; of the types that are such, those of one in a row of
   `dim`, and the type of its scale. */
enum { ORACLE_BLOCK = 32 };
bool oracle_is_blocks(enum oracle_type type);
int64_t oracle_block(enum oracle_type type, int64_t dim);
enum oracle_type oracle_block_scale(enum oracle_type type);
const char *oracle_word_of_blocks(enum oracle_type type); /* NULL: it has none */
enum oracle_type oracle_of_word(const char *word);        /* of blocks */
bool oracle_has_minimum(enum oracle_type type);           /* a float16 after the scale */
int oracle_code_bits(enum oracle_type type);
int oracle_middle(enum oracle_type type); /* the code of 0, where the extreme's is 0; else 0 */

/* int8 and int4. */
bool oracle_is_integer(enum oracle_type type);

int oracle_get_nibble(const unsigned char *array, int64_t number);
void oracle_put_nibble(unsigned char *array, int64_t number, int nibble);

#endif
