/* Sums in lanes.  Their order is the same in all implementations: term i is added to lane i %
   LANES.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_LANES_H
#define KVMILL_RUNTIME_CORE_LANES_H

#include <stdint.h>

enum { LANES = 16 };

/* Add lanes 8, 4, 2 and 1 apart. */
static inline float add_lanes(float lane[LANES]) {
    for (int apart = LANES / 2; apart > 0; apart /= 2)
        for (int l = 0; l < apart; l++)
            lane[l] += lane[l + apart];
    return lane[0];
}

/* Each product is rounded before it is added. */
static inline void add_products(float lane[LANES], const float *x, const float *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float product = x[i] * y[i];
        lane[i % LANES] += product;
    }
}

#endif
