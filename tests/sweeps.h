/* Invented sweeps, for tests of the code that reads sweeps.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_SWEEPS_H
#define KVMILL_TESTS_SWEEPS_H

#include "../tune/sweep.h"

enum { MADE_TILES = 6, MADE_STRIPS = 5, MADE_PATHS = 2, MADE_SAMPLES = 15 };

/* Returns key number `which`; its strings are constants. */
struct sweep_key made_key(int which);

/* Adds all candidates "tile=1..32 strip=1..5 path=float|half" of that key, except those with both
   tile 32 and strip 5.  One in seven failed.  The best is tile=8 strip=4 path=half, 1.5 times as
   fast as the default, tile=2 strip=2 path=float.  `noise` 0.01 is 1 %. */
void make_sweep(struct sweeps *sweeps, int which, double noise);

/* Returns the sweeps of `count` keys, with noise of 1 %. */
struct sweeps make_sweeps(int count);

/* Returns them as the text of a file, for free(). */
char *sweeps_text(const struct sweeps *sweeps);

/* Returns one result of that sweep; its strings and samples are valid until the next call. */
struct sweep_result made_result(int tile, int strip, int path, double noise);

#endif
