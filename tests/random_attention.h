/* Cache attention at random.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_RANDOM_ATTENTION_H
#define KVMILL_TESTS_RANDOM_ATTENTION_H

#include <kvmill_kernel.h>

#include "attention.h"

/* Kinds of lengths. */
enum kind { DECODE, CHUNK, PREFILL, MIXED, LONG, KINDS };
extern const char *const random_kinds[KINDS];

/* Returns one of some integers. */
#define PICK(dice, ...)                                                                            \
    ((const int64_t[]){                                                                            \
        __VA_ARGS__}[dice_range(dice, 0, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) - 1)])

/* Makes a problem that the oracle computes quickly. */
void random_attention(struct attention *attention, enum kind kind, struct dice *dice);

/* Makes a problem for the kernel: KVMILL_ATTEND, KVMILL_WRITE_ROWS or KVMILL_READ_ROWS. */
void random_fit(struct attention *attention, const struct kvmill_kernel *kernel, struct dice *dice);

/* Draws other lengths. */
void random_lengths(struct attention *attention, enum kind kind, struct dice *dice);

#endif
