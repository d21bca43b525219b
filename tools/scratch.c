/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/output.h"
#include "remove_tree.h"

enum { ABANDONED_SECONDS = 60 }; /* more than the time between mkdtemp and the lock */

/* Locks a directory.  Returns the lock's descriptor, or -1 if another process has the lock. */
static int lock_directory(const char *path) {
    int lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0)
        return lock;
    close(lock);
    return -1;
}

static bool is_old_and_ours(int directory) {
    struct stat status;
    return fstat(directory, &status) == 0 && status.st_uid == geteuid() &&
           status.st_mtime < time(NULL) - ABANDONED_SECONDS;
}

static void remove_abandoned(const char *path) {
    int lock = lock_directory(path);
    if (lock >= 0 && is_old_and_ours(lock))
        remove_tree(path);
    if (lock >= 0)
        close(lock);
}

/* Returns "below/name.end", to be freed, or NULL if out of memory. */
static char *name_below(const char *below, const char *name, const char *end) {
    char *start = path_join(below, name), *whole;
    if (start == NULL || asprintf(&whole, "%s.%s", start, end) < 0)
        whole = NULL;
    free(start);
    return whole;
}

static void sweep(const char *below, const char *name) {
    glob_t found = {0};
    char *pattern = name_below(below, name, "*");
    if (pattern != NULL && glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            remove_abandoned(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
}

bool scratch_open(const char *below, const char *name, struct scratch *scratch,
                  struct error *error) {
    char *directory = name_below(below, name, "XXXXXX");
    sweep(below, name);
    if (directory == NULL)
        return out_of_memory(error);
    if (mkdtemp(directory) != NULL) {
        *scratch = (struct scratch){.directory = directory, .lock = lock_directory(directory)};
        return true;
    }
    fail_errno(error, "make the directory", directory);
    free(directory);
    return false;
}

void scratch_close(struct scratch *scratch) {
    if (scratch->directory == NULL)
        return;
    remove_tree(scratch->directory);
    if (scratch->lock >= 0)
        close(scratch->lock);
    free(scratch->directory);
    *scratch = (struct scratch){0};
}
