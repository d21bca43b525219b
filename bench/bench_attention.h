/* Benchmarks of one op of cache attention, planned for one instruction set.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_ATTENTION_H
#define KVMILL_BENCH_BENCH_ATTENTION_H

#include <inttypes.h>
#include <stdio.h>

#include "attention_work.h"
#include "race.h"

struct attention_bench {
    struct bench base;
    struct scene half; /* the same with a float16 cache, if the op converts activations */
    struct spec half_spec;
    struct owned_plan half_plan;
    bool has_half;
    char isa[24];  /* instruction set of the kernels that attend; "" if they are portable */
    char name[96]; /* "32/8 x 128 int8 g32 fast, layout 1, avx2" */
};

static inline const struct kvmill_cache_geometry *attention_geometry(
    const struct attention_bench *bench) {
    return &bench->base.scene.attention.geometry;
}

/* Writes the name of a case, such as "decode NAME, batch 1, 1 on 4096". */
static inline void bench_say_case(const struct attention_bench *bench, const char *kind,
                                  const struct run_size *size, char what[128]) {
    snprintf(what, 128, "%s %s, batch %" PRId64 ", %" PRId64 " on %" PRId64, kind, bench->name,
             size->batch, size->tokens, size->positions);
}

/* ---- Cases: each adds its results ---- */

/* The first stores many tokens of one sequence; the second stores one token of each of `batch`
   sequences, to rows that are in the processor's cache (warm) or not. */
bool bench_store(struct attention_bench *bench, const struct run_size *size, struct error *error);
bool bench_store_rows(struct attention_bench *bench, int64_t batch, bool warm, struct error *error);

/* Opens `half` if storing converts activations and has bars. */
bool bench_open_half(struct attention_bench *bench, struct error *error);

#endif
