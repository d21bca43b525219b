/* The machine's limits: copying and reading memory, and multiply-adds, by the threads of a pool.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_LIMITS_H
#define KVMILL_BENCH_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench_pool.h"

/* ---- Copying ---- */

struct copy {
    char *to;
    const char *from;
    size_t bytes;
    kvmill_pool *pool;
};

/* The same, with four streams, one page each. */
void limit_nontemporal_pages(const struct copy *copy);

/* The ways to copy that a bench tries; the fastest depends on the machine. */
enum { COPIES = 3 };
extern const struct kind_of_copying {
    const char *name;
    void (*copy)(const struct copy *copy);
} kinds_of_copying[COPIES];

/* Copies rows of `bytes` from [tokens][heads] to any place.  If `bytes` is no multiple of 64, each
   row is one memcpy. */
struct copy_rows {
    char *to;
    const char *from;
    size_t bytes;
    int64_t tokens, heads;
    int64_t to_token, to_head, from_token, from_head; /* bytes between adjacent tokens or heads */
};

/* Copies with the CPU's widest vectors, on the calling thread. */
void limit_copy_rows(const struct copy_rows *copy);

/* ---- Reading ---- */

/* Reads `bytes` with the CPU's widest vectors.  Each thread reads a share, as `streams` (1 to 16)
   adjacent streams of equal length. */
struct reading {
    const char *from;
    size_t bytes;
    int streams;
    kvmill_pool *pool;
    bool fetches; /* prefetches lines */
    bool narrow;  /* vectors of at most 32 bytes */
};

void limit_read(const struct reading *reading);

/* The ways to read that a bench tries; the fastest depends on the machine. */
enum { READINGS = 12, READ_BY_8 = 3 };
extern const struct kind_of_reading {
    int streams;
    bool fetches, narrow;
    const char *name;
} kinds_of_reading[READINGS];

/* ---- The clock ---- */

/* Returns cycles per second, from a chain of dependent additions.  Takes half a millisecond. */
double limit_clock(void);

/* ---- Multiplying and adding ---- */

enum peak { PEAK_PLAIN, PEAK_AVX2, PEAK_AVX512 };

/* Returns the widest peak of this CPU, at most that of the named instruction set; NULL: any. */
enum peak peak_of(const char *isa);

/* Runs float32 multiply-adds on all threads of the pool; returns their number. */
double limit_multiply_add(enum peak peak, kvmill_pool *pool);

#endif
