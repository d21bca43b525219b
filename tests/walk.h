/* Walking the kernels of packs: which may run here, and the random numbers of each.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WALK_H
#define KVMILL_TESTS_WALK_H

#include <kvmill_kernel.h>

#include "fence.h"

/* Place in kvmill_isa_name; -1 where there is none of that name. */
int isa_rank(const char *isa);

/* This CPU has it, and KVMILL_ISA does not cap it. */
bool isa_is_allowed(const char *isa);

/* What a kernel computes is the first half of its symbol: all that compute the same get the same
   problems. */
struct dice dice_for_kernel(const struct kvmill_kernel *kernel);

/* A number of its problems that the kernel has as a constant; else `otherwise`. */
int64_t constant_of(const struct kvmill_kernel *kernel, const char *name, int64_t otherwise);

/* It ran a case: a line of the file that KVMILL_RAN names, for tests/kernels_ran.sh. */
void kernel_ran(const struct kvmill_kernel *kernel);

/* Options with a pack of that kernel alone; they last as long as `one`. */
struct one_kernel {
    const struct kvmill_kernel *kernel;
    kvmill_pack pack;
    const kvmill_pack *list[1];
    kvmill_plan_options options;
};
const kvmill_plan_options *one_kernel(struct one_kernel *one, const struct kvmill_kernel *kernel);

#endif
