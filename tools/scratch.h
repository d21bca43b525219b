/* Temporary directories that only this user can read and write.  A process removes its own when it
   ends; directories of killed processes are removed when the next one is created.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_SCRATCH_H
#define KVMILL_TOOLS_SCRATCH_H

#include "../base/error.h"

struct scratch {
    char *directory;
    int lock; /* a lock on the directory */
};

/* Makes the directory below/name.XXXXXX. */
bool scratch_open(const char *below, const char *name, struct scratch *scratch,
                  struct error *error);

/* Removes the directory.  A scratch of zeros, which was not opened, is allowed. */
void scratch_close(struct scratch *scratch);

#endif
