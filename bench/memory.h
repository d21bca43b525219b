/* Memory for caches.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_MEMORY_H
#define KVMILL_BENCH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/error.h"

/* Memory that is asked for later lies in transparent huge pages, of 2 MiB on x86-64, as far as the
   system has them.  false, with an error, where it never gives any. */
bool bench_memory_use_huge_pages(struct error *error);

/* Whether it was asked for. */
bool bench_memory_is_huge(void);

/* Zeros, not yet touched, aligned to a page; NULL when there is not so much. */
void *bench_memory_get(int64_t bytes);

/* NULL is allowed. */
void bench_memory_release(void *memory, int64_t bytes);

#endif
