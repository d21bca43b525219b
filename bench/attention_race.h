/* Races of one op of cache attention: who takes part, and what came out.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_RACE_H
#define KVMILL_BENCH_ATTENTION_RACE_H

#include "../tune/timer.h"
#include "attention_scene.h"
#include "results.h"

/* ---- One op, planned for one instruction set ---- */

enum { TEAMS = 2 }; /* one thread, and all */

struct bench {
    struct attention_scene scene;
    struct attention_scene half; /* the same with a float16 cache, if this one converts */
    bool has_half;
    struct pool *pools[TEAMS];
    int teams;
    const struct attention_setting *setting;
    const char *cap; /* best instruction set to be used; NULL: any */
    char isa[24];    /* of the kernels that attend; "" for the portable one */
    struct bench_results *results;
    char name[96];
};

/* "int8 g32" */
void bench_format_name(const struct kvmill_format *format, char name[24]);

/* "32/8 x 128 int8 g32 fast, layout 1, avx2" */
void bench_set_name(struct bench *bench);

void bench_set_isa(struct bench *bench);

/* What is measured, and where the plan says with which kernel: of several, decoding takes the
   smallest and a prompt the largest. */
struct kind {
    const char *name, *words;
    void (*find_kernel)(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]);
};

extern const char attend_words[], write_words[];
extern const struct kind decode_kind, prefill_kind, store_kind;

/* ---- Cases: each adds its results ---- */

bool bench_decode(struct bench *bench, const struct attention_size *size, struct error *error);

/* A few new tokens on a long cache, to be verified. */
bool bench_verify(struct bench *bench, int64_t positions, struct error *error);

/* Prompts, and chunks of them. */
bool bench_prefill(struct bench *bench, const struct attention_size *size, struct error *error);

/* Many tokens of one sequence; one token of many, to rows that are warm or not. */
bool bench_store(struct bench *bench, const struct attention_size *size, struct error *error);
bool bench_store_rows(struct bench *bench, int64_t batch, bool warm, struct error *error);

/* Whether storing changes activations, and whether there are bars for it. */
bool bench_converts(const struct kvmill_cache_geometry *geometry);
bool bench_has_store_bars(const struct kvmill_cache_geometry *geometry);

/* ---- Races ---- */

/* Contenders and what they work on; teams in the order of the bench's pools. */
struct race {
    struct contender contenders[MOST_CONTENDERS];
    struct attention_call calls[MOST_CONTENDERS];
    int count, call_count;
};

/* Both give the contender's number. */
int race_enter(struct race *race, const char *name, void (*run)(void *, int64_t), void *context,
               struct pool *pool);
int race_enter_call(struct race *race, struct bench *bench, const struct attention_size *size,
                    int team, void (*run)(void *, int64_t));

void race_begin(struct race *race);
void race_run(struct race *race);
double race_seconds(const struct race *race, int contender);

/* Contenders: all of a call, to be given to race_enter_call. */
void run_attention(void *call, int64_t k);

/* ---- Results ---- */

struct bench_result *bench_add(struct bench *bench, const struct kind *kind,
                               const struct attention_size *size, int team, double seconds);

/* All threads against one; the bar is for two. */
void bench_add_scaling(struct bench *bench, const struct kind *kind,
                       const struct attention_size *size, double one, double all, double bar);

/* A check of a call, whose message then says which case it is. */
bool bench_check(struct attention_call *call, const struct bench *bench,
                 bool (*is_right)(struct attention_call *, struct error *), struct error *error);

#endif
