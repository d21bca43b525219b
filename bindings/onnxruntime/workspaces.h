/* Workspaces for simultaneous runs, kept from run to run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_WORKSPACES_H
#define KVMILL_ONNXRUNTIME_WORKSPACES_H

#include <pthread.h>
#include <stddef.h>

struct workspace {
    struct workspace *next;
    void *memory; /* aligned to 64 bytes; NULL if size is 0 */
    size_t size;
};

struct workspaces {
    pthread_mutex_t mutex;
    struct workspace *unused;
};

void workspaces_open(struct workspaces *all);

/* Frees the workspaces; no run may use them any more. */
void workspaces_close(struct workspaces *all);

/* Returns a workspace of at least `size` bytes, or NULL if out of memory.  Any thread may call this
   and workspace_release. */
struct workspace *workspace_acquire(struct workspaces *all, size_t size);
void workspace_release(struct workspaces *all, struct workspace *workspace);

#endif
