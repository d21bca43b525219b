/* Benchmarks of gather: against copying as many bytes, in one run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_GATHER_H
#define KVMILL_BENCH_GATHER_H

#include "../gen/spec.h"
#include "results.h"

/* Run a stablehlo.gather spec on random indices, others in every call, by 1 and `threads` threads.
 */
bool bench_gather(const struct spec *spec, const kvmill_pack *pack, int threads,
                  struct bench_results *results, struct error *error);

#endif
