/* Which variant of attention is best, as a table.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_ATTEND_CHOICE_H
#define KVMILL_GEN_ATTEND_CHOICE_H

#include "kernel.h"

/* Numbers of a kernel that decide which variant is best. */
enum attend_number {
    NO_NUMBER,
    REGISTERS,    /* vector registers of the instruction set */
    WANTED_MATH,  /* enum kvmill_math */
    WANTS_HALVES, /* whether values should be summed in float16 */
    QUERY_ROWS,
    DIMS_OF_KEY,
    KEY_BITS,           /* of an element */
    KEY_IS_FLOAT,       /* whether it has the type of an activation */
    KEY_WORD,           /* codes in 32 bits: 4, 8, or 0 if its elements are no codes */
    GROUP_OF_KEY,       /* elements that share a scale */
    GROUPS_ARE_VECTORS, /* whether these are whole vectors */
    KEY_TILES,          /* whether keys lie in tiles */
    CAN_BE_CODES,       /* whether the variant `codes` is possible */
    VALUES_FIT_PAIRS,   /* whether values can be summed by `pairs` */
    ATTEND_NUMBERS
};

/* Returns the variant of the first line of the table whose conditions hold and that is `possible`.
   The last lines have no conditions. */
const char *attend_choose(const struct kernel *kernel, const int64_t number[ATTEND_NUMBERS],
                          bool (*possible)(const struct kernel *kernel, const char *variant));

#endif
