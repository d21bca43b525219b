/* Finds the candidates that a kernel needs, so that each of its problems has one that is as good as
   its winner.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_ASSIGNMENT_H
#define KVMILL_TUNE_ASSIGNMENT_H

#include "ranking.h"

/* A problem of the kernel, with the sweep that has the most samples. */
struct assignment {
    const struct sweep *sweep;
    struct ranking ranking;
    const struct standing *taken; /* in the ranking; NULL: the default was not measured */
};

struct assignments {
    struct assignment *items; /* in the order of the sweeps */
    int count;
    int candidates; /* distinct candidates that are taken */
};

/* Makes the assignments from all sweeps with that key.spec.  Repeatedly takes the candidate that is
   as good as the winner for the most problems that have none yet.  Among equals, the default comes
   first, then the least code, then the text that sorts first.  A kernel with one problem gets the
   problem's winner.  Keeps pointers to the sweeps; free with assignments_free, also after a
   failure. */
bool assignments_make(const struct sweeps *sweeps, const char *spec,
                      struct assignments *assignments, struct error *error);
void assignments_free(struct assignments *assignments);

#endif
