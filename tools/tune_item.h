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
    struct kernel kernel; /* the preset */
    char symbol[SYMBOL_SIZE];
};

struct tune_items {
    struct tune_item *items; /* what matters most first */
    int count;
};

/* Specs that share a kernel add it once; `isas` are what its variants may be of.  EXIT_USER where
   nothing is open.  The specs must stay. */
bool tune_items_list(const struct spec_list *specs, const kvmill_pack *pack,
                     const struct isa_list *isas, struct tune_items *items, struct error *error);
void tune_items_free(struct tune_items *items);

/* A line on standard error for each of the pack's kernels, of the items' instruction sets, that
   leaves something open but that no problem runs: it keeps its preset. */
bool tune_items_say_left(const struct tune_items *items, const kvmill_pack *pack,
                         const struct isa_list *isas, struct error *error);

#endif
