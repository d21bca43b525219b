/* What the machine can do, on the memory of an attention scene: contenders for races.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_LIMITS_H
#define KVMILL_BENCH_ATTENTION_LIMITS_H

#include "attention_scene.h"
#include "limits.h"

/* Reads what no call has read lately. */
struct reader {
    struct attention_scene *scene;
    struct pool *pool;
    int streams;
    int64_t bytes; /* of the last reading */
};
void run_reader(void *reader, int64_t k);

/* Copies activations to memory of the caches. */
struct copier {
    struct attention_scene *scene;
    struct pool *pool;
    int64_t bytes;
    void (*copy)(const struct copy *copy);
};
void run_copier(void *copier, int64_t k);

/* Multiplies and adds. */
struct adder {
    enum peak peak;
    struct pool *pool;
    double count; /* multiply-adds of the last call */
};
void run_adder(void *adder, int64_t k);

#endif
