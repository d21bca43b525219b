/* Finds the candidates that are needed so that each problem of a kernel has one that is as good as
   its winner.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_ASSIGNMENT_H
#define KVMILL_TUNE_ASSIGNMENT_H

#include "ranking.h"

/* A problem of the kernel, by the sweep in which it was measured most. */
struct assignment {
    const struct sweep *sweep;
    struct ranking ranking;
    const struct standing *taken; /* of the ranking; NULL: its default was not measured */
};

struct assignments {
    struct assignment *items; /* in the order of the sweeps */
    int count;
    int candidates; /* that are taken, each counted once */
};

/* Those of all sweeps with that key.spec.  Again and again the candidate is taken that is as good
   as the winner of most problems that have none yet: the default first, then the least code, then
   the text that sorts first.  So of one problem it is the winner.  Points into the sweeps; free
   with assignments_free, also after a failure. */
bool assignments_make(const struct sweeps *sweeps, const char *spec,
                      struct assignments *assignments, struct error *error);
void assignments_free(struct assignments *assignments);

#endif
