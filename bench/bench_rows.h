/* Benchmarks of the row kernels: each against what the machine can do, in one run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ROWS_H
#define KVMILL_BENCH_ROWS_H

#include "../gen/spec.h"
#include "results.h"

/* Run the cases that fit a TensorScatter spec: an update in place, or a functional update of caches
   of 64 MiB and 1 GiB by 1 and `threads` threads. */
bool bench_rows(const struct spec *spec, const kvmill_pack *pack, int threads,
                struct bench_results *results, struct error *error);

/* What a call of kvmill_run costs: the spec's update of one row, always to the same slot. */
bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error);

#endif
