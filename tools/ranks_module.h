/* The module that ranks.c loads: four functions, for the part of MPI that is needed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RANKS_MODULE_H
#define KVMILL_TOOLS_RANKS_MODULE_H

#include <stdbool.h>
#include <stddef.h>

struct ranks_module {
    bool (*open)(int *rank, int *count);
    void (*close)(void); /* when all ranks do */

    /* false: it could not be handed over, in half a minute. */
    bool (*send)(int to, const char *data, size_t length);

    /* Text from any rank, of malloc; NULL: none in that time, or a signal came. */
    char *(*receive)(double seconds, int *from);
};

/* The symbol of the module. */
extern const struct ranks_module kvmill_ranks_module;

#endif
