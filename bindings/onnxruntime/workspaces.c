/* SPDX-License-Identifier: Apache-2.0 */
#include "workspaces.h"

#include <stdlib.h>

enum { LINE = 64 };

void workspaces_open(struct workspaces *all) {
    all->unused = NULL;
    pthread_mutex_init(&all->mutex, NULL);
}

static void drop(struct workspace *workspace) {
    free(workspace->memory);
    free(workspace);
}

void workspaces_close(struct workspaces *all) {
    while (all->unused != NULL) {
        struct workspace *workspace = all->unused;
        all->unused = workspace->next;
        drop(workspace);
    }
    pthread_mutex_destroy(&all->mutex);
}

static struct workspace *take_any(struct workspaces *all) {
    pthread_mutex_lock(&all->mutex);
    struct workspace *workspace = all->unused;
    if (workspace != NULL)
        all->unused = workspace->next;
    pthread_mutex_unlock(&all->mutex);
    return workspace != NULL ? workspace : calloc(1, sizeof *workspace);
}

struct workspace *workspace_acquire(struct workspaces *all, size_t size) {
    struct workspace *workspace = take_any(all);
    if (workspace == NULL || size <= workspace->size)
        return workspace;
    free(workspace->memory);
    workspace->size = (size + LINE - 1) / LINE * LINE;
    workspace->memory = aligned_alloc(LINE, workspace->size);
    if (workspace->memory != NULL)
        return workspace;
    drop(workspace);
    return NULL;
}

void workspace_release(struct workspaces *all, struct workspace *workspace) {
    pthread_mutex_lock(&all->mutex);
    workspace->next = all->unused;
    all->unused = workspace;
    pthread_mutex_unlock(&all->mutex);
}
