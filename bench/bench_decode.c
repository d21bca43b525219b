/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_limits.h"
#include "attention_race.h"

const struct kind decode_kind = {"decode", attend_words, bench_kernel_in_plan};
static const struct kind verify = {"verify", attend_words, bench_kernel_in_plan};

/* ---- One new token on a long cache ---- */

/* The fastest reading of a team: seconds for a byte. */
static double best_reading(const struct race *race, const int readings[READINGS],
                           const char **name) {
    double best = 0;
    for (int i = 0; i < READINGS; i++) {
        const struct contender *contender = &race->contenders[readings[i]];
        const struct reader *reader = contender->context;
        double each = contender->median / (double)reader->bytes;
        if (best == 0 || each < best) {
            best = each;
            *name = contender->name;
        }
    }
    return best;
}

static void enter_readings(struct race *race, struct bench *bench, int team,
                           struct reader readers[READINGS], int readings[READINGS]) {
    for (int i = 0; i < READINGS; i++) {
        readers[i] =
            (struct reader){&bench->scene, bench->pools[team], kinds_of_reading[i].streams, 0};
        readings[i] =
            race_enter(race, kinds_of_reading[i].name, run_reader, &readers[i], bench->pools[team]);
    }
}

static void add_decode(struct bench *bench, const struct race *race,
                       const struct attention_size *size, int team, int contender,
                       const int readings[READINGS]) {
    const char *name = "";
    double bytes = attention_read_bytes(&bench->scene.geometry, size);
    double each = best_reading(race, readings, &name);
    struct bench_result *result =
        bench_add(bench, &decode_kind, size, team, race_seconds(race, contender));
    result->bytes = bytes;
    bench_compare(result, name, each * bytes,
                  attention_decode_bar(&bench->scene.geometry, bench->isa));
}

bool bench_decode(struct bench *bench, const struct attention_size *size, struct error *error) {
    static struct race race;
    struct reader readers[TEAMS][READINGS];
    int contenders[TEAMS] = {0}, readings[TEAMS][READINGS];
    race_begin(&race);
    if (!attention_set_shape(&bench->scene, size->batch, size->positions, size->tokens, error))
        return false;
    for (int t = 0; t < bench->teams; t++) {
        contenders[t] = race_enter_call(&race, bench, size, t, run_attention);
        enter_readings(&race, bench, t, readers[t], readings[t]);
    }
    if (!bench_check(&race.calls[race.call_count - 1], bench, attention_check_run, error))
        return false;
    race_run(&race);
    for (int t = 0; t < bench->teams; t++)
        add_decode(bench, &race, size, t, contenders[t], readings[t]);
    bench_add_scaling(bench, &decode_kind, size, race_seconds(&race, contenders[0]),
                      race_seconds(&race, contenders[bench->teams - 1]),
                      size->batch == 1 ? 1.9 : 0);
    return true;
}

/* ---- Few new tokens on a long cache, to be verified ---- */

/* As long as memory is the limit, a few cost little more than one. */
static double verify_bar(const struct bench *bench) {
    return attention_decode_bar(&bench->scene.geometry, bench->isa) >= 0.8 ? 1 / 1.3 : 0;
}

bool bench_verify(struct bench *bench, int64_t positions, struct error *error) {
    static const int64_t tokens[] = {1, 2, 4, 8};
    enum { KINDS = sizeof tokens / sizeof *tokens };
    static struct race race;
    struct attention_size size[KINDS];
    race_begin(&race);
    if (!attention_set_shape(&bench->scene, 1, positions, tokens[KINDS - 1], error))
        return false;
    for (int i = 0; i < KINDS; i++) {
        size[i] = (struct attention_size){1, tokens[i], positions};
        race_enter_call(&race, bench, &size[i], 0, run_attention);
        if (!bench_check(&race.calls[i], bench, attention_check_run, error))
            return false;
    }
    race_run(&race);
    for (int i = 1; i < KINDS; i++) {
        struct bench_result *result =
            bench_add(bench, &verify, &size[i], 0, race_seconds(&race, i));
        result->bytes = attention_read_bytes(&bench->scene.geometry, &size[i]);
        bench_compare(result, "one query", race_seconds(&race, 0), verify_bar(bench));
    }
    return true;
}
