/* Workspaces for simultaneous runs, kept from run to run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_WORKSPACES_H
#define KVMILL_ONNXRUNTIME_WORKSPACES_H

#include <pthread.h>
#include <stddef.h>

struct workspace {
    struct workspace *next;
    void *memory; /* at a multiple of 64; NULL where size is 0 */
    size_t size;
};

struct workspaces {
    pthread_mutex_t mutex;
    struct workspace *unused;
};

void workspaces_open(struct workspaces *all);

/* No run uses them any more. */
void workspaces_close(struct workspaces *all);

/* At least that many bytes, the caller's alone; NULL: out of memory.  Any thread, as the next. */
struct workspace *workspace_take(struct workspaces *all, size_t size);
void workspace_give_back(struct workspaces *all, struct workspace *workspace);

#endif
