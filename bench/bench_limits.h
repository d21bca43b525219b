/* What the machine reads, copies and multiplies, by itself.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_LIMITS_H
#define KVMILL_BENCH_BENCH_LIMITS_H

#include "../gen/error.h"
#include "results.h"

/* With one thread, and with so many; in that much memory. */
bool bench_limits(int threads, int64_t bytes, struct bench_results *results, struct error *error);

#endif
