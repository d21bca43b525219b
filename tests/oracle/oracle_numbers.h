/* Numbers of the types of caches.  Arithmetic is double.  Shares no code with what is judged.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_NUMBERS_H
#define KVMILL_TESTS_ORACLE_ORACLE_NUMBERS_H

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
    ORACLE_E4M3, /* without infinities; E4M3 and E5M2 saturate */
    ORACLE_E5M2,
    ORACLE_Q5_1, /* of 32, with a minimum */
    ORACLE_Q4_1, /* with a minimum, too */
    ORACLE_Q5_0,
    ORACLE_IQ4_NL,
    ORACLE_Q6_0,
    ORACLE_Q8_KV /* a float32 scale, the sum of the codes in 32 bits, int8: one block is a row */
};

/* Round, encode and decode numbers of floating types: to nearest, ties to even, with subnormals and
   overflow to infinity. */
double oracle_round(enum oracle_type type, double x);
uint32_t oracle_encode(enum oracle_type type, double x);
double oracle_decode(enum oracle_type type, uint32_t bits);

/* Read and write element `number` of an array; integers, too. */
double oracle_get(enum oracle_type type, const unsigned char *array, int64_t number);
void oracle_put(enum oracle_type type, unsigned char *array, int64_t number, double x);

/* Returns the bytes of `count` elements; for blocks, count is a multiple of 32. */
int64_t oracle_bytes(enum oracle_type type, int64_t count);

/* llama.cpp's blocks.  ORACLE_BLOCK is the elements of a block; oracle_block() returns the elements
   of one block in a row of `dim`, oracle_block_scale() the type of its scale. */
enum { ORACLE_BLOCK = 32 };
bool oracle_is_blocks(enum oracle_type type);
int64_t oracle_block(enum oracle_type type, int64_t dim);
enum oracle_type oracle_block_scale(enum oracle_type type);
const char *oracle_word_of_blocks(enum oracle_type type); /* NULL: not a type of blocks */
enum oracle_type oracle_of_word(const char *word);        /* of blocks */
bool oracle_has_minimum(enum oracle_type type);           /* a float16 after the scale */
int oracle_code_bits(enum oracle_type type);
int oracle_middle(enum oracle_type type); /* the code of 0 if the extreme has code 0; otherwise 0 */

/* Whether the type is int8 or int4. */
bool oracle_is_integer(enum oracle_type type);

int oracle_get_nibble(const unsigned char *array, int64_t number);
void oracle_put_nibble(unsigned char *array, int64_t number, int nibble);

#endif
