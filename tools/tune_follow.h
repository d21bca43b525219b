/* A rank that measures for rank 0.  It reports its machine and the work that it could do, asks for
   work, and sends each result at once.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_FOLLOW_H
#define KVMILL_TOOLS_TUNE_FOLLOW_H

#include "ranks.h"
#include "tune_walk.h"

/* Returns the name of the space in which process numbers are unique, a machine or a container, to
   be freed, or NULL if out of memory. */
char *follow_place(void);

/* Sends the first message, with the place and the process, so that rank 0 notices if it is lost. */
bool follow_greet(const struct ranks *ranks, struct error *error);

/* Works until rank 0 dismisses this rank, or the run is interrupted.  *together gets the argument
   of rank 0's lead_dismiss.  Sets the tick of the setting's turns. */
bool follow_work(struct ranks *ranks, struct tune_setting *setting, const struct tune_items *items,
                 bool *together, struct error *error);

/* Reports why this rank cannot work, and waits until rank 0 dismisses it. */
void follow_rest(struct ranks *ranks, const struct error *why,
                 const volatile sig_atomic_t *interrupted, bool *together);

#endif
