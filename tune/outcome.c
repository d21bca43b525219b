/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include <string.h>

static const char *const words[OUTCOMES] = {
    [OUTCOME_MEASURED] = "measured", [OUTCOME_COMPILE] = "compile", [OUTCOME_CRASH] = "crash",
    [OUTCOME_HANG] = "hang",         [OUTCOME_WRONG] = "wrong",     [OUTCOME_REFUSED] = "refused",
};

const char *outcome_word(enum outcome outcome) {
    return words[outcome];
}

bool outcome_by_word(const char *word, enum outcome *outcome) {
    for (int i = 0; i < OUTCOMES; i++)
        if (strcmp(words[i], word) == 0) {
            *outcome = (enum outcome)i;
            return true;
        }
    return false;
}
