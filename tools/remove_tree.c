/* SPDX-License-Identifier: Apache-2.0 */
#include "remove_tree.h"

#include <ftw.h>
#include <stdio.h>

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    remove(path);
    return 0;
}

/* Tries twice, in case the first time lacked memory or a descriptor. */
void remove_tree(const char *path) {
    for (int tries = 0; tries < 2; tries++)
        if (nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0)
            return;
}
