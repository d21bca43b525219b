/* Sweeps that nobody measured, for the tests of what reads them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_SWEEPS_H
#define KVMILL_TESTS_SWEEPS_H

#include "../tune/sweep.h"

enum { MADE_TILES = 6, MADE_STRIPS = 5, MADE_PATHS = 2, MADE_SAMPLES = 15 };

/* Key number `which`; strings are constants. */
struct sweep_key made_key(int which);

/* Add all candidates "tile=1..32 strip=1..5 path=float|half" of that key but those of tile 32 and
   strip 5, of which one in seven failed.  The best of all is tile=8 strip=4 path=half, 1.5 times as
   fast as the default, tile=2 strip=2 path=float.  `noise` 0.01 is 1 %. */
void make_sweep(struct sweeps *sweeps, int which, double noise);

/* Those of so many keys, with noise of 1 %. */
struct sweeps make_sweeps(int count);

/* All of them in the text of files, for free(). */
char *sweeps_text(const struct sweeps *sweeps);

/* One result of that sweep, in strings and samples of its own until the next call. */
struct sweep_result made_result(int tile, int strip, int path, double noise);

#endif
