/* Benchmarks of selecting pages by their scores, against a time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SELECT_H
#define KVMILL_BENCH_SELECT_H

#include "results.h"

/* By one thread, with the best kernel of the pack; nothing where it has none. */
bool bench_select(const kvmill_pack *pack, struct bench_results *results, struct error *error);

#endif
