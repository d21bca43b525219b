/* The cases of a bench: runs by one thread and by all threads, compared with the machine's limits.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RACE_H
#define KVMILL_BENCH_RACE_H

#include "../base/timer.h"
#include "bench_results.h"
#include "rivals.h"

enum { TEAMS = 2, MOST_RIVALS = READINGS }; /* one thread, and all */

/* A spec and what measures it. */
struct bench {
    const struct spec *spec;
    const struct scene_setting *setting;
    struct bench_results *results;
    struct scene scene;
    struct owned_plan plans[SCENE_STEPS];
    kvmill_pool *pools[TEAMS];
    int teams;
    const char *cap;    /* best instruction set that kernels may use; NULL: any */
    const char *isa;    /* instruction set of peaks; NULL: any */
    int64_t query_rows; /* that share a kv head in a decode step; 0: not known */
};

/* Creates pools of one thread and of all threads.  Close the bench also after a failure. */
bool bench_open(struct bench *bench, const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);
void bench_close(struct bench *bench);

/* Makes a plan for a step of the scene, which must be open. */
bool bench_plan(struct bench *bench, enum scene_step step, struct error *error);

/* Returns the spec's purpose, or `word` if it has none. */
const char *bench_purpose(const struct bench *bench, const char *word);

/* Adds a line of results. */
struct bench_result *bench_add(struct bench *bench, const char *what, enum scene_step step,
                               const struct kernel_words *words, int team, double seconds);

/* A race of all teams, each with rivals of its own.  Each team has a line of results, in which the
   best rival is the limit. */
struct bench_case {
    char what[128];
    enum scene_step step;
    struct run_size size;
    const struct kernel_words *words; /* the kernel's place in the plan */
    double seconds;                   /* of the race */
    /* Checks the call before the race: a call that fails is fast, and must not win.  NULL: it must
       run without an error. */
    bool (*is_right)(struct scene_call *call, struct error *error);
    void (*run)(void *call, int64_t k); /* NULL: run_call */
    rival_maker *rivals;
    int rival_count;
    struct scene_call *others; /* rivals that are calls, one for each team; or NULL */
    const char *limit;         /* the limit in words; NULL: the rival's name */
    double more;               /* seconds that are added to the limit */
    double bars[TEAMS];
    bool in_flops; /* work is counted in flops, not in bytes */
    bool compares; /* adds a line: all threads compared with one; its bar is for two threads */
    bool scaling_has_bytes;
    double scaling_bar;
    double rows; /* rows of a kv head that a call attends to; 0: no attention */
};
bool bench_race(struct bench *bench, const struct bench_case *each, struct error *error);

#endif
