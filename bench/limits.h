/* What the machine can do: copies of memory, by any number of threads.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_LIMITS_H
#define KVMILL_BENCH_LIMITS_H

#include <stddef.h>

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    int threads;
};

/* The whole copy by one memcpy per thread. */
void limit_memcpy(const struct copy *copy);

/* By stores that bypass the cache, one stream per thread; memcpy where the CPU has none. */
void limit_nontemporal(const struct copy *copy);

/* The same, but four pages at a time. */
void limit_nontemporal_pages(const struct copy *copy);

#endif
