/* The items to tune: kernels with more than one variant or tunable, and the problems to run them
   on.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_ITEM_H
#define KVMILL_TOOLS_TUNE_ITEM_H

#include "../bench/tune_work.h"
#include "../gen/pack.h"

struct tune_item {
    const struct spec *spec;
    const struct tune_problem *problem;
    struct kernel kernel; /* with all presets */
    char symbol[SYMBOL_SIZE];
};

struct tune_items {
    struct tune_item *items; /* the most important first */
    int count;
};

/* Lists the items.  A kernel that several specs share is listed once; `isas` are the instruction
   sets of its variants.  EXIT_USER if no kernel has choices.  Keeps pointers to the specs. */
bool tune_items_list(const struct spec_list *specs, const kvmill_pack *pack,
                     const struct isa_list *isas, struct tune_items *items, struct error *error);
void tune_items_free(struct tune_items *items);

/* Prints to standard error a line for each of the pack's kernels, with an instruction set of the
   items, that has choices but is run by no problem, so that it keeps its preset. */
bool tune_items_say_left(const struct tune_items *items, const kvmill_pack *pack,
                         const struct isa_list *isas, struct error *error);

#endif
