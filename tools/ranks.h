/* The ranks of a job that mpirun has started: processes, of one or several machines, that send
   each other messages.  A message is a JSON object, its head, and a text, its body.

   MPI is in a module that is loaded only where there is such a job; see tools/ranks_module.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RANKS_H
#define KVMILL_TOOLS_RANKS_H

#include <jansson.h>

#include "../base/error.h"

struct ranks {
    int rank, count; /* 0 and 1 without a job */
    const struct ranks_module *module;
};

/* EXIT_ENVIRONMENT where there is a job, but kvmill was built without Open MPI. */
bool ranks_open(struct ranks *ranks, struct error *error);

/* Waits until all ranks close; so one that has lost another simply exits instead. */
void ranks_close(struct ranks *ranks);

/* For temporary files: $TMPDIR; in a job a directory that the ranks of this machine have in common,
   and mpirun removes in the end. */
const char *ranks_directory(void);

struct message {
    int from;
    json_t *head;
    char *body; /* "" where there is none */
};

/* Takes the head, also after an error; NULL is out of memory.  The body may be NULL. */
bool ranks_send(const struct ranks *ranks, int to, json_t *head, const char *body,
                struct error *error);

/* false: no message in that time. */
bool ranks_receive(const struct ranks *ranks, double seconds, struct message *message);
void message_free(struct message *message);

#endif
