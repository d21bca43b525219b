/* How the measurement of a candidate ended.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_OUTCOME_H
#define KVMILL_TUNE_OUTCOME_H

#include <stdbool.h>

enum outcome {
    OUTCOME_MEASURED,
    OUTCOME_COMPILE, /* the compiler failed */
    OUTCOME_CRASH,   /* it was ended by a signal */
    OUTCOME_HANG,    /* it took too long */
    OUTCOME_WRONG,   /* its result is not what the oracle says */
    OUTCOME_REFUSED, /* the library or the generator would not have it */
    OUTCOMES
};

/* "measured", "compile", "crash", "hang", "wrong", "refused"; the text is constant. */
const char *outcome_word(enum outcome outcome);
bool outcome_by_word(const char *word, enum outcome *outcome);

#endif
