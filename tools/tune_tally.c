/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_tally.h"

#include "../base/text.h"
#include "../tune/ranking.h"

/* Takes the winner's speed.  If the preset stays, takes that of the fastest other candidate, which
   is item 1. */
static void take_speed(const struct ranking *ranking, struct tune_tally *tally) {
    size_t i = ranking->winner > 0 ? (size_t)ranking->winner : 1;
    tally->faster = ranking->winner > 0;
    if (ranking->winner < 0 || i >= ranking->count)
        return;
    tally->speed = ranking->items[i].gain.median;
    tally->low = ranking->items[i].gain.low;
    tally->high = ranking->items[i].gain.high;
}

bool tune_tally_count(const struct sweep *sweep, struct tune_tally *tally, struct error *error) {
    const struct tune_tally none = {.known = tally->known, .cut = tally->cut};
    struct ranking ranking = {0};
    *tally = none;
    bool done = sweep == NULL || sweep_rank(sweep, &ranking, error);
    for (size_t i = 0; done && i < ranking.count; i++)
        *(ranking.items[i].result->outcome == OUTCOME_MEASURED ? &tally->measured
                                                               : &tally->failed) += 1;
    if (done)
        take_speed(&ranking, tally);
    ranking_free(&ranking);
    return done;
}

void tune_tally_print(const struct tune_tally *tally) {
    print_shown(stdout, "%d candidate%s measured", tally->measured,
                tally->measured == 1 ? "" : "s");
    if (tally->failed > 0)
        print_shown(stdout, ", %d failed", tally->failed);
    if (tally->known > 0)
        print_shown(stdout, ", %d of them known before", tally->known);
    if (tally->cut)
        print_shown(stdout, ", not all");
    if (tally->faster)
        print_shown(stdout, "; best %.3f of the preset's speed (%.3f to %.3f)", tally->speed,
                    tally->low, tally->high);
    else if (tally->speed > 1)
        print_shown(stdout, "; none is measurably faster than the preset: %.3f is within the noise",
                    tally->speed);
    else if (tally->speed > 0)
        print_shown(stdout, "; none is faster than the preset");
}

/* ---- In messages between ranks ---- */

void tune_tally_set(const struct tune_tally *tally, json_t *message) {
    json_object_set_new(message, "measured", json_integer(tally->measured));
    json_object_set_new(message, "failed", json_integer(tally->failed));
    json_object_set_new(message, "known", json_integer(tally->known));
    json_object_set_new(message, "cut", json_boolean(tally->cut));
    json_object_set_new(message, "faster", json_boolean(tally->faster));
    json_object_set_new(message, "speed", json_real(tally->speed));
    json_object_set_new(message, "low", json_real(tally->low));
    json_object_set_new(message, "high", json_real(tally->high));
}

void tune_tally_get(json_t *message, struct tune_tally *tally) {
    int cut = 0, faster = 0;
    *tally = (struct tune_tally){0};
    json_unpack(message, "{s?i, s?i, s?i, s?b, s?b, s?F, s?F, s?F}", "measured", &tally->measured,
                "failed", &tally->failed, "known", &tally->known, "cut", &cut, "faster", &faster,
                "speed", &tally->speed, "low", &tally->low, "high", &tally->high);
    tally->cut = cut;
    tally->faster = faster;
}
