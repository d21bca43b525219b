/* The sizes of a TensorScatter that its spec leaves open.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_ROWS_H
#define KVMILL_BENCH_SCENE_ROWS_H

#include "scene.h"

bool rows_is_decode(const struct spec *spec);

/* Sets open dims: the batch, then a capacity that makes the cache `bytes` large and holds a row,
   then rows.  Returns false if nothing would move, or on overflow. */
bool rows_size(const struct spec *spec, int64_t batch, int64_t bytes, struct run_size *size);

#endif
