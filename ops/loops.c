/* SPDX-License-Identifier: Apache-2.0 */
#include "loops.h"

#include <string.h>

#include "extent.h"

int64_t *kvmill_loops_add(struct loops *loops, int64_t extent) {
    loops->extent[loops->count] = extent;
    return loops->step[loops->count++];
}

static bool walks_on(const struct loops *loops, int outer, int inner) {
    bool overflow = false;
    for (int s = 0; s < loops->sides; s++)
        if (loops->step[outer][s] !=
            kvmill_times(loops->step[inner][s], loops->extent[inner], &overflow))
            return false;
    return !overflow;
}

static void move(struct loops *loops, int to, int from) {
    loops->extent[to] = loops->extent[from];
    memcpy(loops->step[to], loops->step[from], (size_t)loops->sides * sizeof loops->step[0][0]);
}

void kvmill_loops_merge(struct loops *loops) {
    int kept = 0;
    bool overflow = false; /* never, where there is memory */
    for (int i = 0; i < loops->count; i++) {
        if (loops->extent[i] == 1)
            continue;
        if (kept > 0 && walks_on(loops, kept - 1, i)) {
            int64_t turns = kvmill_times(loops->extent[kept - 1], loops->extent[i], &overflow);
            move(loops, kept - 1, i);
            loops->extent[kept - 1] = turns;
            continue;
        }
        if (kept != i)
            move(loops, kept, i);
        kept++;
    }
    loops->count = kept;
}
