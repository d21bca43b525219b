/* What a sweep has measured so far, in words: as the report counts and judges it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_TALLY_H
#define KVMILL_TOOLS_TUNE_TALLY_H

#include <jansson.h>

#include "../tune/sweep.h"

struct tune_tally {
    int measured, failed;    /* candidates */
    int known;               /* of these, before this run */
    bool cut;                /* the time was over before the search */
    bool faster;             /* whether the winner is measurably faster than the preset */
    double speed, low, high; /* of the winner, or else of the fastest candidate; 0: there is none */
};

/* Counts the candidates of a sweep, which may be NULL.  Leaves `known` and `cut` as they are. */
bool tune_tally_count(const struct sweep *sweep, struct tune_tally *tally, struct error *error);

/* Prints it to standard output, without a newline. */
void tune_tally_print(const struct tune_tally *tally);

/* Add it to a message; read it from one.  What is missing there is 0. */
void tune_tally_set(const struct tune_tally *tally, json_t *message);
void tune_tally_get(json_t *message, struct tune_tally *tally);

#endif
