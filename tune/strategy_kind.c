/* SPDX-License-Identifier: Apache-2.0 */
#include "strategy_kind.h"

#include <string.h>

static const struct strategy_kind *const kinds[] = {
    &exhaustive_strategy,
    &random_strategy,
    &greedy_strategy,
    &halving_strategy,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *const strategy_names[KINDS + 1] = {"exhaustive", "random", "greedy", "halving", NULL};

/* The least number of points for each strategy: building a candidate takes longer than measuring
   it. */
static const struct {
    int64_t points;
    const char *strategy;
} sizes[] = {{0, "exhaustive"}, {65, "halving"}, {257, "greedy"}};

const char *strategy_for(int64_t points) {
    size_t i = sizeof sizes / sizeof *sizes - 1;
    while (points < sizes[i].points)
        i--;
    return sizes[i].strategy;
}

static const struct strategy_kind *find_kind(const char *name) {
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

static bool refuse_strategy(const char *name, struct error *error) {
    return fail(error, EXIT_USER,
                "strategy \"%.40s\"; accepted: exhaustive, random, greedy, halving", name);
}

struct search *search_open(const struct space *space, const struct search_options *options,
                           struct error *error) {
    const char *name = options->strategy;
    if (name == NULL)
        name = strategy_for(space_count(space, sizes[2].points));
    const struct strategy_kind *kind = find_kind(name);
    if (kind == NULL) {
        refuse_strategy(name, error);
        return NULL;
    }
    return search_begin(space, kind, options, error);
}
