/* Memory for caches: pages of the usual size, aligned to one.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_MEMORY_H
#define KVMILL_BENCH_MEMORY_H

#include <stdint.h>

/* Zeros, not yet touched; NULL when there is not so much. */
void *bench_memory_get(int64_t bytes);

/* NULL is allowed. */
void bench_memory_release(void *memory, int64_t bytes);

#endif
