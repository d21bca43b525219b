/* SPDX-License-Identifier: Apache-2.0 */
#include "loops_walk.h"

#include <string.h>

static bool is_empty(const struct loops *loops) {
    for (int i = 0; i < loops->count; i++)
        if (loops->extent[i] == 0)
            return true;
    return false;
}

/* The next turn of the loops [0, depth); false after the last one. */
static bool advance(const struct loops *loops, int depth, int64_t *turn, unsigned char **at) {
    for (int i = depth - 1; i >= 0; i--) {
        bool more = ++turn[i] < loops->extent[i];
        int64_t steps = more ? 1 : 1 - loops->extent[i];
        for (int s = 0; s < loops->sides; s++)
            at[s] += steps * loops->step[i][s];
        if (more)
            return true;
        turn[i] = 0;
    }
    return false;
}

void kvmill_loops_walk(const struct loops *loops, unsigned char *const *base, loop_body body,
                       const void *context) {
    static const int64_t no_step[KVMILL_MOST_SIDES];
    unsigned char *at[KVMILL_MOST_SIDES];
    int64_t turn[KVMILL_MOST_RANK] = {0};
    int inner = loops->count - 1;
    if (is_empty(loops))
        return;
    memcpy(at, base, (size_t)loops->sides * sizeof *at);
    do
        body(context, at, inner < 0 ? 1 : loops->extent[inner],
             inner < 0 ? no_step : loops->step[inner]);
    while (advance(loops, inner, turn, at));
}

void kvmill_copy_elements(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step) {
    int64_t bytes = *(const int64_t *)context;
    if (count == 1 || (step[0] == bytes && step[1] == bytes)) {
        memcpy(at[1], at[0], (size_t)(count * bytes));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(at[1] + i * step[1], at[0] + i * step[0], (size_t)bytes);
}
