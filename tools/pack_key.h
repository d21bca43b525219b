/* Computes the key of a compiled pack, a hash of everything that it depends on.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_PACK_KEY_H
#define KVMILL_TOOLS_PACK_KEY_H

#include "../base/output.h"
#include "../base/sha256.h"

/* Hashes the files, the compiler and its flags.  If the flags contain "native", also hashes the
   CPU, from /proc in the directory `root`.  Returns false, with EXIT_ENVIRONMENT, if the compiler
   or CPU is unknown. */
bool pack_key(const struct output *output, const char *root, char key[SHA256_TEXT],
              struct error *error);

#endif
