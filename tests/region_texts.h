/* Random regions as spec files, for kernels to be made of; and regions read back from what kernels
   say.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_REGION_TEXTS_H
#define KVMILL_TESTS_REGION_TEXTS_H

#include "../ops/region.h"
#include "fence.h"

/* To standard output: a spec file with as many scatters, each with a region of its own. */
void print_random_regions(struct dice *dice, int count);

/* A region, and what its scatter has; points into itself. */
struct read_region {
    kvmill_region region;
    int slots;
    kvmill_element_type result[KVMILL_MOST_INPUTS], update[KVMILL_MOST_INPUTS];
    kvmill_element_type capture[KVMILL_MOST_CAPTURES];
    kvmill_element_type arguments[2 * KVMILL_MOST_INPUTS];
    kvmill_region_op ops[KVMILL_MOST_REGION_OPS];
    int32_t returned[KVMILL_MOST_INPUTS];
    char words[8192];
};

/* That of a kernel's program.  Any other text ends the test. */
void read_region(const char *program, struct read_region *it);

#endif
