/* Benchmarks of what indexes sparse flows: scoring against reading memory, selection against a
   time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_FLOW_H
#define KVMILL_BENCH_FLOW_H

#include "../gen/spec.h"
#include "results.h"

/* Run the kernels that the pack has for a flow's scores, by 1 and `threads` threads: 2048 pages
   anywhere in a cache that is cold, with another query in every call. */
bool bench_flow(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error);

#endif
