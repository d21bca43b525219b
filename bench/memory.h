/* Memory for caches.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_MEMORY_H
#define KVMILL_BENCH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/error.h"

/* Puts memory that is allocated later into transparent huge pages (2 MiB on x86-64) as far as the
   system has them.  Returns false, with an error, if the system has them switched off. */
bool bench_memory_use_huge_pages(struct error *error);

/* Whether bench_memory_use_huge_pages has been called. */
bool bench_memory_is_huge(void);

/* Returns zeroed, untouched memory, aligned to a page; NULL if there is not enough. */
void *bench_memory_get(int64_t bytes);

/* memory may be NULL. */
void bench_memory_release(void *memory, int64_t bytes);

#endif
