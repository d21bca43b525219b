/* Kernels compiled as packs of their own, each only once in a run, however many sweeps need it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BUILDS_H
#define KVMILL_TOOLS_BUILDS_H

#include "../gen/kernel.h"
#include "built_pack.h"

struct builds;

/* What became of a kernel. */
struct build {
    char symbol[SYMBOL_SIZE];
    bool compiled;
    char message[256]; /* of the compiler, where it did not */
    int64_t code_bytes;
};

/* In a new directory below that one, which builds_close removes.  NULL after an error. */
struct builds *builds_open(const char *below, struct error *error);
void builds_close(struct builds *builds); /* NULL is allowed */

/* Compile what was not compiled before, `jobs` at a time. */
bool builds_make(struct builds *builds, const struct kernel *const *kernels, int count, int jobs,
                 struct error *error);

/* The library of a kernel that was made, NULL where a signal came first; stays until builds_make is
 * called again. */
const struct build *builds_find(const struct builds *builds, const struct kernel *kernel);

/* The pack that has the kernel alone. */
bool builds_load(const struct builds *builds, const struct build *build, struct built_pack *pack,
                 struct error *error);

#endif
