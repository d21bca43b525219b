/* The key of a compiled pack: everything that it depends on, in one word.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_PACK_KEY_H
#define KVMILL_TOOLS_PACK_KEY_H

#include "../base/output.h"
#include "../base/sha256.h"

/* A hash of the files, the compiler and its flags, and where these say "native" of the CPU, as
   /proc below `root` ("") describes it.  false: it cannot be known, EXIT_ENVIRONMENT. */
bool pack_key(const struct output *output, const char *root, char key[SHA256_TEXT],
              struct error *error);

#endif
