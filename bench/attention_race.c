/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_race.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const double seconds_per_race = 1.0;

/* ---- Names ---- */

void bench_format_name(const struct kvmill_format *format, char name[24]) {
    static const char *const names[] = {"",     "float32", "float16", "bfloat16",
                                        "int8", "int4",    "q8_0",    "q4_0"};
    int length = snprintf(name, 24, "%s", names[format->element]);
    if (format->group > 0)
        snprintf(name + length, 24 - (size_t)length, " g%d", format->group);
}

void bench_set_name(struct bench *bench) {
    const struct kvmill_cache_geometry *g = &bench->scene.geometry;
    char key[24], value[24];
    bench_format_name(&g->key, key);
    bench_format_name(&g->value, value);
    bool same = memcmp(&g->key, &g->value, sizeof g->key) == 0;
    snprintf(bench->name, sizeof bench->name,
             "%" PRId64 "/%" PRId64 " x %d %s%s%s%s, layout %" PRId64 "%s%s", g->heads, g->kv_heads,
             g->key.dim, key, same ? "" : " and ", same ? "" : value,
             g->math == KVMILL_MATH_FAST ? " fast" : "", g->layout, bench->cap ? ", " : "",
             bench->cap ? bench->cap : "");
}

const char attend_words[] = "; attend with ", write_words[] = "; write K with ";

/* Behind the double underscore of a symbol, up to the next one. */
void bench_set_isa(struct bench *bench) {
    char kernel[SYMBOL_SIZE];
    bench_kernel_in_plan(bench->scene.usual.plan, attend_words, kernel);
    const char *at = strstr(kernel, "__");
    at = at != NULL ? at + 2 : "";
    snprintf(bench->isa, sizeof bench->isa, "%.*s", (int)strcspn(at, "_"), at);
}

/* ---- Races ---- */

void race_begin(struct race *race) {
    race->count = race->call_count = 0;
}

void race_run(struct race *race) {
    timer_race(race->contenders, race->count, seconds_per_race);
}

void run_attention(void *context, int64_t k) {
    (void)k;
    attention_call_move(context);
    attention_call_run(context, NULL);
}

int race_enter(struct race *race, const char *name, void (*run)(void *, int64_t), void *context,
               struct pool *pool) {
    race->contenders[race->count] =
        (struct contender){.name = name, .run = run, .context = context, .pool = pool};
    return race->count++;
}

int race_enter_call(struct race *race, struct bench *bench, const struct attention_size *size,
                    int team, void (*run)(void *, int64_t)) {
    struct attention_call *call = &race->calls[race->call_count++];
    attention_call_open(call, &bench->scene, size, bench->pools[team]);
    return race_enter(race, "", run, call, bench->pools[team]);
}

double race_seconds(const struct race *race, int contender) {
    return race->contenders[contender].median;
}

static int threads_of(const struct bench *bench, int team) {
    return pool_threads(bench->pools[team]);
}

/* ---- Results ---- */

struct bench_result *bench_add(struct bench *bench, const struct kind *kind,
                               const struct attention_size *size, int team, double seconds) {
    struct bench_result *result = bench_results_add(bench->results);
    snprintf(result->what, sizeof result->what, "%s %s, batch %" PRId64 ", %" PRId64 " on %" PRId64,
             kind->name, bench->name, size->batch, size->tokens, size->positions);
    kind->find_kernel(bench->scene.usual.plan, kind->words, result->kernel);
    result->threads = threads_of(bench, team);
    result->seconds = seconds;
    return result;
}

/* Two threads are to be 1.9 times as fast as one, or what the bar says. */
void bench_add_scaling(struct bench *bench, const struct kind *kind,
                       const struct attention_size *size, double one, double all, double bar) {
    if (bench->teams < TEAMS)
        return;
    struct bench_result *result = bench_add(bench, kind, size, 1, all);
    bench_compare(result, "one thread", one, threads_of(bench, 1) == 2 ? bar : 0);
}

bool bench_check(struct attention_call *call, const struct bench *bench,
                 bool (*is_right)(struct attention_call *, struct error *), struct error *error) {
    struct error reason;
    return is_right(call, &reason) ||
           fail(error, reason.exit_code, "%s, %" PRId64 " on %" PRId64 ": %.900s", bench->name,
                call->size.tokens, call->size.positions, reason.text);
}
