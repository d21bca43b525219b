/* The outcome of measuring a candidate.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_OUTCOME_H
#define KVMILL_TUNE_OUTCOME_H

#include <stdbool.h>

enum outcome {
    OUTCOME_MEASURED,
    OUTCOME_COMPILE, /* the compiler failed */
    OUTCOME_CRASH,   /* a signal ended it */
    OUTCOME_HANG,    /* it took too long */
    OUTCOME_WRONG,   /* its result differs from the oracle's */
    OUTCOME_REFUSED, /* the library or the generator refused it */
    OUTCOMES
};

/* Returns "measured", "compile", "crash", "hang", "wrong" or "refused", a constant. */
const char *outcome_word(enum outcome outcome);
bool outcome_by_word(const char *word, enum outcome *outcome);

#endif
