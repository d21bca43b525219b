/* Sizes of calls in words, as tuning databases, lists and plans write them: "decode BATCH on
   POSITIONS" (one new token for each sequence), "prefill TOKENS on POSITIONS" (of one sequence).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_CALL_SIZE_H
#define KVMILL_OPS_CALL_SIZE_H

#include <stdbool.h>

#include <kvmill_kernel.h>

enum { KVMILL_CALL_SIZE_WORDS = 64 };

/* What is accepted, for messages. */
#define KVMILL_CALL_SIZES "decode BATCH on POSITIONS, prefill TOKENS on POSITIONS"

/* Exactly as they are printed; false for anything else. */
bool kvmill_call_size_parse(const char *words, struct kvmill_call_size *size);
void kvmill_call_size_print(const struct kvmill_call_size *size,
                            char words[KVMILL_CALL_SIZE_WORDS]);

#endif
