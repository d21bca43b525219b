/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_item.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/text.h"
#include "tune_space.h"

static bool is_listed(const struct tune_items *items, const struct tune_item *item) {
    for (int i = 0; i < items->count; i++)
        if (strcmp(items->items[i].symbol, item->symbol) == 0 &&
            items->items[i].problem == item->problem)
            return true;
    return false;
}

static bool append(struct tune_items *items, const struct tune_item *item, struct error *error) {
    struct tune_item *grown = realloc(items->items, (size_t)(items->count + 1) * sizeof *grown);
    if (grown == NULL)
        return out_of_memory(error);
    items->items = grown;
    grown[items->count++] = *item;
    return true;
}

/* The sources of the list. */
struct source {
    const struct spec_list *specs;
    const kvmill_pack *pack;
    const struct isa_list *isas;
};

static bool is_open(const struct kernel *kernel, const struct isa_list *isas, bool *open,
                    struct error *error) {
    struct tune_space *space = tune_space_open(kernel, isas, error);
    *open = space != NULL && space_count(tune_space_of(space), 2) > 1;
    tune_space_close(space);
    return space != NULL;
}

/* Adds the kernel that runs the problem for the spec, if it has choices.  A portable kernel has
   none. */
static bool add(struct tune_items *items, const struct source *from, const struct spec *spec,
                const struct tune_problem *problem, struct error *error) {
    struct tune_item item = {.spec = spec, .problem = problem};
    struct error ignored;
    bool open = false;
    if (!tune_problem_kernel(problem, spec, from->pack, item.symbol, error))
        return false;
    if (!kernel_parse(item.symbol, &item.kernel, &ignored) ||
        item.kernel.family->tunables == NULL || is_listed(items, &item))
        return true;
    return is_open(&item.kernel, from->isas, &open, error) &&
           (!open || append(items, &item, error));
}

static bool add_problem(struct tune_items *items, const struct source *from,
                        const struct tune_problem *problem, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < from->specs->count; i++)
        if (tune_problem_serves(problem, &from->specs->items[i]))
            done = add(items, from, &from->specs->items[i], problem, error);
    return done;
}

bool tune_items_list(const struct spec_list *specs, const kvmill_pack *pack,
                     const struct isa_list *isas, struct tune_items *items, struct error *error) {
    const struct source from = {specs, pack, isas};
    char words[SCENE_WORDS];
    bool done = true;
    *items = (struct tune_items){0};
    for (const struct tune_problem *problem = tune_problems; done && problem->words; problem++)
        done = add_problem(items, &from, problem, error);
    scene_op_words(words);
    return done && (items->count > 0 ||
                    fail(error, EXIT_USER,
                         "nothing to tune: no spec has a kernel with tunables on this CPU; "
                         "accepted: %s",
                         words));
}

/* ---- Kernels that keep their presets ---- */

static bool has_kernel(const struct tune_items *items, const char *symbol) {
    for (int i = 0; i < items->count; i++)
        if (strcmp(items->items[i].symbol, symbol) == 0)
            return true;
    return false;
}

static bool has_isa(const struct tune_items *items, const struct isa *isa) {
    for (int i = 0; i < items->count; i++)
        if (items->items[i].kernel.isa == isa)
            return true;
    return false;
}

static bool is_left(const struct tune_items *items, const char *symbol, const struct isa_list *isas,
                    bool *left, struct error *error) {
    struct kernel kernel;
    struct error ignored;
    *left = !has_kernel(items, symbol) && kernel_parse(symbol, &kernel, &ignored) &&
            kernel.family->tunables != NULL && has_isa(items, kernel.isa);
    return !*left || is_open(&kernel, isas, left, error);
}

bool tune_items_say_left(const struct tune_items *items, const kvmill_pack *pack,
                         const struct isa_list *isas, struct error *error) {
    bool done = true;
    for (uint32_t i = 0; done && i < pack->count; i++) {
        const char *symbol = pack->kernels[i]->symbol;
        bool left = false;
        done = is_left(items, symbol, isas, &left, error);
        if (left)
            print_shown(stderr, "kvmill tune: note: %s keeps its preset: no problem runs it\n",
                        symbol);
    }
    return done;
}

void tune_items_free(struct tune_items *items) {
    free(items->items);
    *items = (struct tune_items){0};
}
