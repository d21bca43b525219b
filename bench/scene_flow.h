/* The interface of the scenes of sparse flows for their benchmarks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_FLOW_H
#define KVMILL_BENCH_SCENE_FLOW_H

#include "scene.h"

/* The blocks of a request, the selected ones, and the scored ones.  A block is a page, unless the
   flow has smaller blocks. */
int64_t flow_blocks(const struct scene *scene);
int64_t flow_selected(const struct scene *scene);
int64_t flow_candidates(const struct scene *scene);

/* Whether the pages of a request are adjacent in memory. */
bool flow_pages_in_order(const struct scene *scene);

/* Bytes that a step of a request reads: K and V of `blocks` blocks; what the index program
   loads. */
double flow_index_bytes(const struct scene *scene);

#endif
