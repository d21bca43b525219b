/* SPDX-License-Identifier: Apache-2.0 */
#include "attend_choice.h"

#include "../defs/arithmetic.h"

struct condition {
    enum attend_number number;
    int64_t least, most;
};

enum { MOST_CONDITIONS = 6 };

struct choice {
    const char *variant;
    struct condition conditions[MOST_CONDITIONS];
};

#define IS(number, value)                                                                          \
    { number, value, value }
#define FROM(number, least)                                                                        \
    { number, least, INT64_MAX }
#define UP_TO(number, most)                                                                        \
    { number, INT64_MIN, most }

/* Measured on the processors of doc/performance.md; doc/design/tried.md has the figures. */
static const struct choice choices[] = {
    /* One or two rows of bytes do not pay for transposing keys, unless integer products of long
       keys make up for it. */
    {"dims",
     {FROM(REGISTERS, 32), IS(KEY_WORD, 4), IS(WANTS_HALVES, 0), IS(GROUPS_ARE_VECTORS, 1),
      UP_TO(QUERY_ROWS, 2), UP_TO(DIMS_OF_KEY, 128)}},
    {"dims",
     {FROM(REGISTERS, 32), IS(KEY_WORD, 4), IS(WANTS_HALVES, 0), IS(GROUPS_ARE_VECTORS, 1),
      UP_TO(QUERY_ROWS, 2), IS(CAN_BE_CODES, 0)}},
    /* Each group costs a conversion of its digits into a number, and nibbles must be unpacked. */
    {"codes", {FROM(REGISTERS, 32), FROM(WANTED_MATH, KVMILL_MATH_NEAR)}},
    {"codes", {FROM(REGISTERS, 32), IS(KEY_TILES, 1)}},
    {"codes", {FROM(REGISTERS, 32), IS(KEY_WORD, 4), FROM(GROUP_OF_KEY, 32)}},
    {"codes", {FROM(REGISTERS, 32), IS(KEY_WORD, 8), UP_TO(QUERY_ROWS, 32)}},
    /* With 16 registers, three digits of four rows leave none free, and the other variants can use
       AVX2. */
    {"codes", {UP_TO(QUERY_ROWS, 8), IS(KEY_WORD, 4), FROM(GROUP_OF_KEY, 128)}},
    {"codes", {UP_TO(QUERY_ROWS, 8), FROM(WANTED_MATH, KVMILL_MATH_NEAR), FROM(GROUP_OF_KEY, 64)}},
    {"codes",
     {UP_TO(QUERY_ROWS, 8), FROM(WANTED_MATH, KVMILL_MATH_NEAR), FROM(GROUP_OF_KEY, 32),
      IS(KEY_TILES, 1)}},
    /* With many rows, the values take most of the time. */
    {"pairs", {UP_TO(QUERY_ROWS, 8)}},
    {"pairs", {IS(KEY_TILES, 1)}},
    {"pairs", {IS(VALUES_FIT_PAIRS, 1)}},
    {"words", {{.number = NO_NUMBER}}},
    /* Keys are loaded once for each set of rows that the registers have sums for.  Transposing them
       costs the same for any number of rows; adding the lanes of sums costs the same for any key
       length.  Memory bounds float32: with 16 registers and several rows, the loads of quads are
       more even. */
    {"dims", {UP_TO(QUERY_ROWS, 8), IS(KEY_IS_FLOAT, 1), IS(KEY_BITS, 16)}},
    {"dims", {UP_TO(QUERY_ROWS, 8), IS(KEY_IS_FLOAT, 1), FROM(REGISTERS, 32)}},
    {"dims", {UP_TO(QUERY_ROWS, 1), IS(KEY_IS_FLOAT, 1)}},
    {"dims",
     {UP_TO(QUERY_ROWS, 32), IS(KEY_IS_FLOAT, 1), IS(KEY_BITS, 16), FROM(DIMS_OF_KEY, 128)}},
    {"dims", {IS(KEY_IS_FLOAT, 1), IS(KEY_BITS, 16), FROM(DIMS_OF_KEY, 512)}},
    {"dims", {UP_TO(QUERY_ROWS, 2), IS(KEY_IS_FLOAT, 0), UP_TO(KEY_BITS, 8)}},
    {"dims", {UP_TO(QUERY_ROWS, 4), IS(KEY_IS_FLOAT, 0), UP_TO(KEY_BITS, 8), FROM(REGISTERS, 32)}},
    {"quads", {{.number = NO_NUMBER}}},
    {"columns", {{.number = NO_NUMBER}}},
};

static bool holds(const struct choice *choice, const int64_t number[ATTEND_NUMBERS]) {
    for (int i = 0; i < MOST_CONDITIONS; i++) {
        const struct condition *condition = &choice->conditions[i];
        if (condition->number != NO_NUMBER && (number[condition->number] < condition->least ||
                                               number[condition->number] > condition->most))
            return false;
    }
    return true;
}

const char *attend_choose(const struct kernel *kernel, const int64_t number[ATTEND_NUMBERS],
                          bool (*possible)(const struct kernel *kernel, const char *variant)) {
    const struct choice *choice = choices;
    while (!holds(choice, number) || !possible(kernel, choice->variant))
        choice++;
    return choice->variant;
}
