/* Parts of the bench of sparse flows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_FLOW_H
#define KVMILL_BENCH_BENCH_FLOW_H

#include "bench_attention.h"

/* Whether append quantises rows of a field. */
bool bench_flow_quantises(const kvmill_flow *flow);

/* Races appends of one token and of 512. */
bool bench_flow_append(const struct spec *spec, const struct scene_setting *setting,
                       struct bench_results *results, struct error *error);

#endif
