/* A rank that measures for rank 0.  It reports its machine and the work that it could do, asks for
   work, and sends each result as soon as it has one.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_FOLLOW_H
#define KVMILL_TOOLS_TUNE_FOLLOW_H

#include "ranks.h"
#include "tune_walk.h"

/* The processes among which a process's number means one: those of a machine, or of a container.
   Text of its own; NULL: out of memory. */
char *follow_place(void);

/* First of all: where it runs, so that it is missed when it is lost. */
bool follow_greet(const struct ranks *ranks, struct error *error);

/* Until rank 0 dismisses it, or the run is interrupted; *together: as lead_dismiss says.  The
   setting's turns get their tick here. */
bool follow_work(struct ranks *ranks, struct tune_setting *setting, const struct tune_items *items,
                 bool *together, struct error *error);

/* Say why it cannot, or not any more, and rest until rank 0 dismisses it. */
void follow_rest(struct ranks *ranks, const struct error *why,
                 const volatile sig_atomic_t *interrupted, bool *together);

#endif
