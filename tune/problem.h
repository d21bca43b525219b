/* Problems that kernels are measured on, in the words of tuning databases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_PROBLEM_H
#define KVMILL_TUNE_PROBLEM_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* A decode is one new token of each of BATCH sequences, a prefill TOKENS of one sequence; both
   store as much, and an update is a TensorScatter.  Sequences of a "batch of" have mixed lengths,
   and an index or a selection is of one sequence; a flow decodes BATCH of them. */
#define PROBLEM_FORMS                                                                              \
    "decode BATCH on POSITIONS, prefill TOKENS on POSITIONS, store BATCH rows, store TOKENS, "     \
    "store BATCH sequences, update BATCH in place, update BATCH functional, "                      \
    "batch of BATCH on POSITIONS, batch of BATCH with TOKENS new on POSITIONS, "                   \
    "Attention TOKENS on POSITIONS, CacheAttend TOKENS on POSITIONS, "                             \
    "MultiHeadAttention TOKENS on POSITIONS, KeyValueCache TOKENS on POSITIONS, "                  \
    "WriteRows TOKENS, index POSITIONS, select POSITIONS, flow BATCH on POSITIONS, "               \
    "flow prefill TOKENS on POSITIONS, flow store TOKENS, gather, scatter in place"

/* Sequence b of a batch of mixed lengths: all of the positions, three quarters, a half or a quarter
   of them, in turn; the last has all.  The new tokens are the last one's, a piece of a prompt where
   there are several; each other sequence decodes one. */
struct kvmill_call_size problem_sequence(const struct kvmill_call_size *batch, int64_t b);

/* The size of calls that a problem stands for: 1 sequence, 1 token, any positions, where it does
   not say; the mean of mixed lengths.  false for words of none of these forms. */
bool problem_parse(const char *words, struct kvmill_call_size *size);

#endif
