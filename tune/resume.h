/* Resumes a search where an earlier one ended.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_RESUME_H
#define KVMILL_TUNE_RESUME_H

#include "ranking.h"
#include "strategy.h"

struct resumption {
    int known;   /* candidates that were told to the search */
    int strange; /* that are not in its space: of other templates, or not legal any more */
};

/* Tell a search, before its first question, what a sweep knows.  A failure counts as known: what
   does not compile once is not tried again. */
bool search_resume(struct search *search, const struct space *space, const struct sweep *sweep,
                   struct resumption *resumption, struct error *error);

#endif
