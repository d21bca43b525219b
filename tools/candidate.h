/* Tries a candidate in a process of its own, where it can do no harm, before it is timed.

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
    enum outcome outcome; /* OUTCOME_MEASURED so far as all went well */
    char message[256];    /* of a failure */
    int64_t code_bytes;
};

/* Compile the kernels of all candidates, `jobs` at a time, and load those that compile. */
bool candidates_build(struct candidate *candidates, int count, struct builds *builds, int jobs,
                      struct error *error);

/* Plan by the candidate and the kernels of `rest`, and check that in a process of its own, at most
   `seconds` long. */
bool candidate_check(struct candidate *candidate, struct tune_work *work, const kvmill_pack *rest,
                     int threads, unsigned seconds, struct error *error);
void candidate_close(struct candidate *candidate);

#endif
