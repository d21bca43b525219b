/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_limits.h"
#include "attention_race.h"

const struct kind prefill_kind = {"prefill", attend_words, bench_last_kernel_in_plan};

static void add_prefill(struct bench *bench, const struct race *race,
                        const struct attention_size *size, int team, int contender, int peak) {
    const struct adder *adder = race->contenders[peak].context;
    double flops = attention_flops(&bench->scene.geometry, size);
    struct bench_result *result =
        bench_add(bench, &prefill_kind, size, team, race_seconds(race, contender));
    result->flops = flops;
    bench_compare(result, "multiply-add", flops / (2 * adder->count) * race_seconds(race, peak),
                  attention_prefill_bar(&bench->scene.geometry, bench->isa, size->tokens));
}

bool bench_prefill(struct bench *bench, const struct attention_size *size, struct error *error) {
    static struct race race;
    struct adder adders[TEAMS];
    int contenders[TEAMS] = {0}, peaks[TEAMS];
    race_begin(&race);
    if (!attention_set_shape(&bench->scene, size->batch, size->positions, size->tokens, error))
        return false;
    for (int t = 0; t < bench->teams; t++) {
        adders[t] = (struct adder){peak_of(bench->isa), bench->pools[t], 0};
        contenders[t] = race_enter_call(&race, bench, size, t, run_attention);
        peaks[t] = race_enter(&race, "multiply-add", run_adder, &adders[t], bench->pools[t]);
    }
    if (!bench_check(&race.calls[race.call_count - 1], bench, attention_check_run, error))
        return false;
    race_run(&race);
    for (int t = 0; t < bench->teams; t++)
        add_prefill(bench, &race, size, t, contenders[t], peaks[t]);
    bench_add_scaling(bench, &prefill_kind, size, race_seconds(&race, contenders[0]),
                      race_seconds(&race, contenders[bench->teams - 1]),
                      size->tokens >= 512 ? 1.9 : 0);
    return true;
}
