/* Random regions as spec files, for making kernels; and regions read back from the programs of
   kernels.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_REGION_TEXTS_H
#define KVMILL_TESTS_REGION_TEXTS_H

#include "../ops/region.h"
#include "fence.h"

/* Prints a spec file with `count` scatters to standard output; each has its own region. */
void print_random_regions(struct dice *dice, int count);

/* A region, and the types of its scatter; points into itself. */
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

/* Reads the region of a kernel's program; any other text ends the test. */
void read_region(const char *program, struct read_region *it);

#endif
