/* The interface of the module that ranks.c loads: the functions of MPI that are needed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RANKS_MODULE_H
#define KVMILL_TOOLS_RANKS_MODULE_H

#include <stdbool.h>
#include <stddef.h>

struct ranks_module {
    bool (*open)(int *rank, int *count);
    void (*close)(void); /* waits for all ranks */

    /* Returns false if the text could not be handed over within half a minute. */
    bool (*send)(int to, const char *data, size_t length);

    /* Returns a text from any rank, to be freed, or NULL if none comes within `seconds`, or after a
       signal. */
    char *(*receive)(double seconds, int *from);
};

/* The module's symbol. */
extern const struct ranks_module kvmill_ranks_module;

#endif
