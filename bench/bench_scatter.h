/* Benchmarks of scatters: each against the memory that its updates touch.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCATTER_H
#define KVMILL_BENCH_SCATTER_H

#include "../gen/spec.h"
#include "results.h"

/* A scatter of one input, in place against reading the updates and writing over the lines that they
   touch, and functional against that and a copy; by one and by `threads` threads. */
bool bench_scatter(const struct spec *spec, const kvmill_pack *pack, int threads,
                   struct bench_results *results, struct error *error);

#endif
