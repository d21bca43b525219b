/* Temporary directories that only we can read and write, and that go with their process: what
   killed ones left goes when the next is made.

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
