/* Tries a candidate in a process of its own, where a crash does no harm, before it is timed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_CANDIDATE_H
#define KVMILL_TOOLS_CANDIDATE_H

#include "../bench/tune_work.h"
#include "../tune/outcome.h"
#include "builds.h"

struct candidate {
    struct kernel kernel;
    struct built_pack built;
    struct owned_plan plan;
    enum outcome outcome; /* OUTCOME_MEASURED while nothing has failed */
    char message[256];    /* the failure's, if there is one */
    int64_t code_bytes;
};

/* Compiles the kernels of all candidates, `jobs` at a time, and loads those that compile. */
bool candidates_build(struct candidate *candidates, int count, struct builds *builds, int jobs,
                      struct error *error);

/* Makes a plan from the candidate and the kernels of `rest`, and checks its result in a process of
   its own, which may take `seconds`. */
bool candidate_check(struct candidate *candidate, struct tune_work *work, const kvmill_pack *rest,
                     int threads, unsigned seconds, struct error *error);
void candidate_close(struct candidate *candidate);

#endif
