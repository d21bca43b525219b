/* Problems that kernels are measured on, in the words of tuning databases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_PROBLEM_H
#define KVMILL_TUNE_PROBLEM_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* A decode is one new token of each of BATCH sequences, a prefill TOKENS of one sequence; both
   store as much, and an update is a TensorScatter. */
#define PROBLEM_FORMS                                                                              \
    "decode BATCH on POSITIONS, prefill TOKENS on POSITIONS, store BATCH rows, store TOKENS, "     \
    "update BATCH in place, update BATCH functional"

/* The size of calls that a problem stands for: 1 sequence, 1 token, any positions, where it does
   not say.  false for words of none of these forms. */
bool problem_parse(const char *words, struct kvmill_call_size *size);

#endif
