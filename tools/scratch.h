/* Temporary directories that only this user can read and write.  They are removed when their
   process ends; those of killed processes are removed when the next one is created.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_SCRATCH_H
#define KVMILL_TOOLS_SCRATCH_H

#include "../base/error.h"

struct scratch {
    char *directory;
    int lock; /* on the directory */
};

/* below/name.XXXXXX */
bool scratch_open(const char *below, const char *name, struct scratch *scratch,
                  struct error *error);

/* Remove it; one that was not opened, of zeros, is allowed. */
void scratch_close(struct scratch *scratch);

#endif
