/* Rank 0.  It distributes work to the followers, and is the only rank that writes the database.

   Followers with the same CPU, compiler and flags are one kind of machine.  They share its kernels
   and problems, so each kind has complete sweeps of its own.  A follower with another version of
   kvmill or other templates is refused.  If a follower fails or is lost, others continue its work
   from the results that it has sent.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_LEAD_H
#define KVMILL_TOOLS_TUNE_LEAD_H

#include <signal.h>

#include "../tune/database.h"
#include "../tune/machine.h"
#include "ranks.h"
#include "tune_progress.h"

struct lead_setting {
    const struct ranks *ranks;
    const struct machine *machine; /* rank 0's; followers must have the same templates */
    struct database *database;
    struct sweeps *known; /* the database's contents; new results are added to both */
    struct tune_progress *progress;
    int patience; /* seconds for the check of a candidate */
    const volatile sig_atomic_t *interrupted;
};

/* Leads until all tasks are done, the budget is spent, or no follower is left.  An interrupt is not
   an error.  *lost tells whether a rank is lost. */
bool tune_lead(const struct lead_setting *setting, bool *lost, struct error *error);

/* Dismisses the followers.  `together`: all ranks are present and close together; otherwise each
   simply exits. */
void lead_dismiss(struct ranks *ranks, bool together);

#endif
