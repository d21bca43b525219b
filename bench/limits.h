/* The machine's limits: copying and reading memory, and multiply-adds, by the threads of a pool.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_LIMITS_H
#define KVMILL_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool.h"

/* ---- Copying ---- */

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    kvmill_pool *pool;
};

/* The whole copy by one memcpy per thread. */
void limit_memcpy(const struct copy *copy);

/* By stores that bypass the cache, one stream per thread; memcpy where the CPU has none. */
void limit_nontemporal(const struct copy *copy);

/* The same, but four pages at a time. */
void limit_nontemporal_pages(const struct copy *copy);

/* Rows of `bytes`, a multiple of 64 or a memcpy each, from [tokens][heads] to anywhere. */
struct copy_rows {
    char *to;
    const char *from;
    size_t bytes;
    int64_t tokens, heads;
    int64_t to_token, to_head, from_token, from_head; /* bytes between neighbours */
};

/* By vectors as wide as the CPU has, on the calling thread. */
void limit_copy_rows(const struct copy_rows *copy);

/* ---- Reading ---- */

/* All of `bytes`, a share per thread, in `streams` (1 to 16) of equal length side by side, by
   vectors as wide as the CPU has. */
struct reading {
    const char *from;
    size_t bytes;
    int streams;
    kvmill_pool *pool;
    bool fetches; /* lines are fetched ahead */
    bool narrow;  /* no vectors of 64 bytes */
};

void limit_read(const struct reading *reading);

/* Ways to read worth trying: which is best depends on the machine. */
enum { READINGS = 12, READ_BY_8 = 3 };
extern const struct kind_of_reading {
    int streams;
    bool fetches, narrow;
    const char *name;
} kinds_of_reading[READINGS];

/* ---- The clock ---- */

/* Cycles of a second, from additions that wait for each other: half a millisecond. */
double limit_clock(void);

/* ---- Multiplying and adding ---- */

enum peak { PEAK_PLAIN, PEAK_AVX2, PEAK_AVX512 };

/* The widest there is, at most that of the instruction set named; NULL: any. */
enum peak peak_of(const char *isa);

/* float32 multiply-adds by every thread of the pool; returns how many there were in all. */
double limit_multiply_add(enum peak peak, kvmill_pool *pool);

#endif
