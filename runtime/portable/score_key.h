/* Scores as integers in the order in which pages are selected.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_PORTABLE_SCORE_KEY_H
#define KVMILL_RUNTIME_PORTABLE_SCORE_KEY_H

#include "../core/numbers.h"

/* An integer that is larger if the score is; both zeros give the same, and NaN counts as -infinity.
 */
static inline uint32_t kvmill_score_key(float score) {
    uint32_t bits = kvmill_bits_of_float(score == score ? score + 0.0f : -__builtin_inff());
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

#endif
