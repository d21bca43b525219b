/* Resumes a search from the results of an earlier one.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_RESUME_H
#define KVMILL_TUNE_RESUME_H

#include "ranking.h"
#include "strategy.h"

struct resumption {
    int known;   /* candidates reported to the search */
    int strange; /* candidates not in its space: of other templates, or no longer legal */
};

/* Reports the results of a sweep to a search, before its first question.  Failures count as known:
   a candidate that failed is not tried again. */
bool search_resume(struct search *search, const struct space *space, const struct sweep *sweep,
                   struct resumption *resumption, struct error *error);

#endif
