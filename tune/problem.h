/* The problems on which kernels are measured, in the words of tuning databases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_PROBLEM_H
#define KVMILL_TUNE_PROBLEM_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* "decode" is one new token for each of BATCH sequences, "prefill" is TOKENS for one sequence.
   "store" stores as many rows as these; "update" is a TensorScatter.  Sequences of a "batch of"
   have mixed lengths.  "index" and "select" have one sequence; "flow" decodes BATCH sequences. */
#define PROBLEM_FORMS                                                                              \
    "decode BATCH on POSITIONS, prefill TOKENS on POSITIONS, store BATCH rows, store TOKENS, "     \
    "store BATCH sequences, update BATCH in place, update BATCH functional, "                      \
    "batch of BATCH on POSITIONS, batch of BATCH with TOKENS new on POSITIONS, "                   \
    "Attention TOKENS on POSITIONS, CacheAttend TOKENS on POSITIONS, "                             \
    "MultiHeadAttention TOKENS on POSITIONS, KeyValueCache TOKENS on POSITIONS, "                  \
    "WriteRows TOKENS, index POSITIONS, select POSITIONS, flow BATCH on POSITIONS, "               \
    "flow prefill TOKENS on POSITIONS, flow store TOKENS, gather, scatter in place"

/* Returns the size of sequence b in a batch of mixed lengths: in turn all of the positions, three
   quarters, a half, or a quarter.  The last sequence has all positions and all new tokens, which
   are a piece of a prompt if there are several.  Each other sequence decodes one token. */
struct kvmill_call_size problem_sequence(const struct kvmill_call_size *batch, int64_t b);

/* Parses a problem to the size of its calls: by default 1 sequence, 1 token and any positions, and
   the mean for mixed lengths.  Returns false if the words have none of these forms. */
bool problem_parse(const char *words, struct kvmill_call_size *size);

#endif
