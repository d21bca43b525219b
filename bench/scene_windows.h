/* The interface of the scenes of gather and scatter for their benchmarks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_WINDOWS_H
#define KVMILL_BENCH_SCENE_WINDOWS_H

#include "scene.h"

/* Whether a result (of a scatter: updates) has elements. */
bool windows_move(const struct scene *scene);

/* Sets new indices of a scatter: slices of about 40 adjacent windows, or random ones.  Finds the
   lines that they touch.  A new scene has random ones. */
bool scatter_aim(struct scene *scene, bool slices, struct error *error);

/* Moves the memory that a scatter has to move: reads updates, reads and writes the lines that they
   touch, and in a functional run copies the input. */
void scatter_touch(const struct scene_call *call);

#endif
