/* Random numbers, the same on every machine (SplitMix64: Steele, Lea and Flood, 2014).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_RANDOM_H
#define KVMILL_TUNE_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Returns a number from 0 to count - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t count) {
    return random_next(state) % count;
}

#endif
