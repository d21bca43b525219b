/* The interface of the scenes of sparse flows for their benchmarks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_FLOW_H
#define KVMILL_BENCH_SCENE_FLOW_H

#include "scene.h"

/* Blocks of a request, those that are selected, and those that are scored: pages where a flow has
   no other blocks. */
int64_t flow_blocks(const struct scene *scene);
int64_t flow_selected(const struct scene *scene);
int64_t flow_candidates(const struct scene *scene);

/* Whether a request's pages follow each other in memory. */
bool flow_pages_in_order(const struct scene *scene);

/* Bytes that a request's step reads: of so many blocks' K and V, of what the index program loads.
 */
double flow_attend_bytes(const struct scene *scene, int64_t blocks);
double flow_index_bytes(const struct scene *scene);

#endif
