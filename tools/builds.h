/* Compiles kernels, each as a pack of its own and only once in a run, even if several sweeps need
   it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILDS_H
#define KVMILL_TOOLS_BUILDS_H

#include "../gen/kernel.h"
#include "built_pack.h"

struct builds;

/* The result of compiling a kernel. */
struct build {
    char symbol[SYMBOL_SIZE];
    bool compiled;
    char message[256]; /* the compiler's, if it failed */
    int64_t code_bytes;
};

/* Makes a new directory in `below`, which builds_close removes.  Returns NULL after an error. */
struct builds *builds_open(const char *below, struct error *error);
void builds_close(struct builds *builds); /* NULL is allowed */

/* Compiles the kernels that were not compiled before, `jobs` at a time. */
bool builds_make(struct builds *builds, const struct kernel *const *kernels, int count, int jobs,
                 struct error *error);

/* Returns the build of a kernel, or NULL if a signal came before it was compiled.  Valid until the
   next builds_make. */
const struct build *builds_find(const struct builds *builds, const struct kernel *kernel);

/* Loads the pack of a build, which contains only that kernel. */
bool builds_load(const struct builds *builds, const struct build *build, struct built_pack *pack,
                 struct error *error);

#endif
