/* What benchmarks of sparse flows ask of their scenes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_FLOW_H
#define KVMILL_BENCH_SCENE_FLOW_H

#include "scene.h"

/* Pages that are selected of a request, and those that are scored. */
int64_t flow_selected(const struct scene *scene);
int64_t flow_candidates(const struct scene *scene);

/* Bytes that a request's step reads: of so many pages' K and V, of what the index program loads. */
double flow_attend_bytes(const struct scene *scene, int64_t pages);
double flow_index_bytes(const struct scene *scene);

#endif
