/* Writes the results of a tile to the output.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_RESULTS_H
#define KVMILL_RUNTIME_ATTEND_RESULTS_H

#include "tiles.h"

/* Set the partial result of a problem's rows that see nothing, `floats` for each. */
void kvmill_put_nothing(const struct kvmill_attend *problem, int64_t floats);

/* Merge partial results and write them to the output; pieces are `step` floats apart. */
void kvmill_finish_tile(const struct attend_view *view, const struct tile *tile,
                        const float *partial, int64_t step);

/* Where the partial results of a unit's pieces are. */
float *kvmill_shared_partials(const struct attend_view *view, int64_t unit);

#endif
