/* Measures random legal points, each once, until the budget or the space is used up.

   SPDX-License-Identifier: Apache-2.0 */
#include "strategy_kind.h"

static bool advance(struct search *search) {
    struct point point;
    for (int i = 0; i < BATCH; i++) {
        if (!search_fresh(search, &point))
            return i > 0;
        search_want(search, &point, search->options.samples);
    }
    return true;
}

const struct strategy_kind random_strategy = {"random", advance};
