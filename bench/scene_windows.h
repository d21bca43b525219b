/* The interface of the scenes of gather and scatter for their benchmarks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_WINDOWS_H
#define KVMILL_BENCH_SCENE_WINDOWS_H

#include "scene.h"

/* Whether a result (of a scatter: updates) has any elements. */
bool windows_move(const struct scene *scene);

/* New indices of a scatter: slices of about 40 windows side by side, or any order; finds what they
   touch.  A scene begins with any order. */
bool scatter_aim(struct scene *scene, bool slices, struct error *error);

/* What the memory has to do: read updates, read and write the lines that they touch, in a
   functional run copy the input. */
void scatter_touch(const struct scene_call *call);

#endif
