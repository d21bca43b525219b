/* The ranks of a job that mpirun has started: processes on one or several machines that send each
   other messages.  A message has a head, which is a JSON object, and a body, which is text.

   MPI is in a module that is loaded only in a job; see tools/ranks_module.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RANKS_H
#define KVMILL_TOOLS_RANKS_H

#include <jansson.h>

#include "../base/error.h"

struct ranks {
    int rank, count; /* 0 and 1 without a job */
    const struct ranks_module *module;
};

/* Joins the job, if there is one.  EXIT_ENVIRONMENT if kvmill was built without Open MPI. */
bool ranks_open(struct ranks *ranks, struct error *error);

/* Waits until all ranks close.  A rank that has lost another must exit without it. */
void ranks_close(struct ranks *ranks);

/* Returns a directory for temporary files: $TMPDIR, or in a job a directory that the ranks of this
   machine share and mpirun removes at the end. */
const char *ranks_directory(void);

struct message {
    int from;
    json_t *head;
    char *body; /* "" if empty */
};

/* Sends a message.  Takes the head, also after an error; NULL is reported as out of memory.  The
   body may be NULL. */
bool ranks_send(const struct ranks *ranks, int to, json_t *head, const char *body,
                struct error *error);

/* Returns false if no message comes within `seconds`. */
bool ranks_receive(const struct ranks *ranks, double seconds, struct message *message);
void message_free(struct message *message);

#endif
