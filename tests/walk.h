/* Walks the kernels of packs: which kernels can run here, and random numbers for each.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WALK_H
#define KVMILL_TESTS_WALK_H

#include <kvmill_kernel.h>

#include "fence.h"

/* Returns the index in kvmill_isa_name, or -1 for an unknown name. */
int isa_rank(const char *isa);

/* Whether this CPU has the instruction set, and KVMILL_ISA does not exclude it. */
bool isa_is_allowed(const char *isa);

/* Returns random numbers by the first half of the kernel's symbol, which says what it computes:
   kernels that compute the same get the same problems. */
struct dice dice_for_kernel(const struct kvmill_kernel *kernel);

/* Returns a number of its problems that is a constant in the kernel, or `otherwise`. */
int64_t constant_of(const struct kvmill_kernel *kernel, const char *name, int64_t otherwise);

/* Records that the kernel ran a case: a line in the file that KVMILL_RAN names, for
   tests/kernels_ran.sh. */
void kernel_ran(const struct kvmill_kernel *kernel);

/* Options with a pack of only this kernel; valid as long as `one`. */
struct one_kernel {
    const struct kvmill_kernel *kernel;
    kvmill_pack pack;
    const kvmill_pack *list[1];
    kvmill_plan_options options;
};
const kvmill_plan_options *one_kernel(struct one_kernel *one, const struct kvmill_kernel *kernel);

#endif
