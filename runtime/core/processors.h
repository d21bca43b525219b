/* The processors that this process may run on.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_PROCESSORS_H
#define KVMILL_RUNTIME_CORE_PROCESSORS_H

#include <sched.h>

struct processors {
    int number[CPU_SETSIZE]; /* the system's numbers: one processor of each core, then the others */
    int count;
    int cores; /* equal to count if it is unknown what a core is */
};

void kvmill_find_processors(struct processors *processors);

#endif
