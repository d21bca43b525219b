/* The report as JSON, for other programs.

   SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

static void set_summary(json_t *object, const char *key, const struct summary *summary) {
    if (summary->median > 0)
        json_object_set_new(object, key,
                            json_pack("{s:f, s:f, s:f}", "median", summary->median, "low",
                                      summary->low, "high", summary->high));
}

/* Returns a candidate, and the default in the races with it. */
static json_t *json_of_standing(const struct report_entry *entry, size_t i) {
    const struct standing *s = &entry->ranking.items[i];
    const struct standing compared = report_compared(entry, s);
    json_t *object = json_pack("{s:s, s:b, s:b, s:s}", "candidate", s->result->candidate, "default",
                               s->result->is_default, "winner", (int)i == entry->ranking.winner,
                               "outcome", outcome_word(s->result->outcome));
    if (s->time.count == 0)
        return object;
    json_set_positive(object, "seconds", s->time.median);
    json_set_positive(object, "default_seconds", compared.time.median);
    json_set_positive(object, "share_of_limit", s->share);
    json_set_positive(object, "default_share_of_limit", compared.share);
    set_summary(object, "speed_over_default", &s->gain);
    json_object_set_new(object, "code_bytes", json_integer(s->result->code_bytes));
    return object;
}

static json_t *json_of_candidates(const struct report_entry *entry) {
    json_t *array = json_array();
    for (size_t i = 0; i < entry->ranking.count; i++)
        json_array_append_new(array, json_of_standing(entry, i));
    return array;
}

static json_t *json_of_past(const struct report_entry *entry) {
    char day[FIGURE_SIZE];
    json_t *array = json_array();
    for (int i = 0; i < entry->past_count; i++) {
        const struct report_past *past = &entry->past[i];
        print_day(past->measured, day);
        json_array_append_new(array, json_pack("{s:s, s:s, s:f, s:f}", "day", day, "database",
                                               past->source, "default_seconds", past->preset,
                                               "winner_seconds", past->winner));
    }
    return array;
}

static json_t *json_of_entry(const struct report_entry *entry) {
    const struct sweep_key *key = &entry->sweep->key;
    char words[NAME_SIZE], reason[REASON_SIZE];
    report_name(entry, words);
    ranking_reason(&entry->ranking, reason);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:o}", "work", words, "kernel",
                     key->spec, "problem", key->problem, "isa", key->isa, "threads", key->threads,
                     "cpu", key->cpu, "choice", reason, "candidates", json_of_candidates(entry),
                     "history", json_of_past(entry));
}

json_t *report_json(const struct report *report) {
    json_t *works = json_array();
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(works, json_of_entry(&report->entries[i]));
    return json_pack("{s:s, s:f, s:o}", "database", report->name, "mean_speed_over_default",
                     report_mean_gain(report), "works", works);
}
