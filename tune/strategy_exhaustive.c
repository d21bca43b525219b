/* Measures every legal point, in order.

   SPDX-License-Identifier: Apache-2.0 */
#include "strategy_kind.h"

enum { OVER = -1 };

static bool next_point(struct search *search) {
    if (search->at.stage == OVER)
        return false;
    bool more = search->at.stage++ == 0 ? space_first(search->space, &search->at.here)
                                        : space_next(search->space, &search->at.here);
    if (!more)
        search->at.stage = OVER;
    return more;
}

static bool advance(struct search *search) {
    for (int i = 0; i < BATCH; i++) {
        if (!next_point(search))
            return i > 0;
        search_want(search, &search->at.here, search->options.samples);
    }
    return true;
}

const struct strategy_kind exhaustive_strategy = {"exhaustive", advance};
