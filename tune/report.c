/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "regret.h"
#include "sweep_file.h"

/* ---- Figures ---- */

void print_seconds(double seconds, const char *micro, char text[FIGURE_SIZE]) {
    if (seconds < 1e-3)
        snprintf(text, FIGURE_SIZE, "%.*f %ss", seconds < 1e-5 ? 3 : 1, seconds * 1e6, micro);
    else
        snprintf(text, FIGURE_SIZE, seconds < 1 ? "%.3f ms" : "%.3f s",
                 seconds < 1 ? seconds * 1e3 : seconds);
}

void print_rate(double rate, enum limit_kind kind, char text[FIGURE_SIZE]) {
    snprintf(text, FIGURE_SIZE, "%.1f %s", rate / 1e9, kind == LIMIT_FLOPS ? "GFLOP/s" : "GB/s");
}

void print_day(int64_t measured, char text[FIGURE_SIZE]) {
    struct tm fields;
    time_t seconds = measured / 1000000;
    gmtime_r(&seconds, &fields);
    strftime(text, FIGURE_SIZE, "%Y-%m-%d", &fields);
}

void print_failures(const struct report_entry *entry, char text[FAILURES_SIZE]) {
    size_t at = 0;
    strcpy(text, "none");
    for (int i = OUTCOME_MEASURED + 1; i < OUTCOMES; i++)
        if (entry->failures[i] > 0 && at < FAILURES_SIZE)
            at += (size_t)snprintf(text + at, FAILURES_SIZE - at, "%s%d %s", at > 0 ? ", " : "",
                                   entry->failures[i], outcome_word((enum outcome)i));
}

const struct standing *report_default(const struct report_entry *entry) {
    return ranking_has_default(&entry->ranking) ? &entry->ranking.items[0] : NULL;
}

const struct standing *report_winner(const struct report_entry *entry) {
    return entry->ranking.winner >= 0 ? &entry->ranking.items[entry->ranking.winner] : NULL;
}

struct standing report_compared(const struct report_entry *entry, const struct standing *s) {
    static const struct standing none;
    const struct standing *preset = report_default(entry);
    struct standing compared = preset != NULL ? *preset : none;
    if (s != NULL && s->against > 0) {
        compared.time.median = s->against;
        compared.share = s->share * s->time.median / s->against;
    }
    return compared;
}

double report_mean_gain(const struct report *report) {
    struct regret regret = {0};
    for (size_t i = 0; i < report->count; i++)
        regret_add(&regret, report->entries[i].sweep, &report->entries[i].ranking);
    return regret_mean(&regret);
}

double report_rate(const struct report_entry *entry, double seconds) {
    const struct standing *first = &entry->ranking.items[0];
    const struct sweep_key *key = &entry->sweep->key;
    return (first->result->limit == LIMIT_FLOPS ? key->flops : key->bytes) / seconds;
}

/* ---- Which parameters matter ---- */

/* Returns the ratio of the greatest to the least among the best speeds of a parameter's values. */
static double influence(const struct report_entry *entry, int parameter) {
    double best[MOST_VALUES] = {0}, least = HUGE_VAL, most = 0;
    for (size_t i = 0; i < entry->ranking.count; i++) {
        double *own = &best[sweep_space_point(entry->space, i)->at[parameter]];
        if (entry->ranking.items[i].gain.median > *own)
            *own = entry->ranking.items[i].gain.median;
    }
    for (int v = 0; v < sweep_space_of(entry->space)->parameters[parameter].count; v++)
        if (best[v] > 0) {
            least = best[v] < least ? best[v] : least;
            most = best[v] > most ? best[v] : most;
        }
    return most / least;
}

/* Finds the three most important parameters.  Lists them in the order of the space, so that maps
   look alike. */
static int find_parameters(const struct report_entry *entry, int chosen[3]) {
    const struct space *space = sweep_space_of(entry->space);
    double influences[MOST_PARAMETERS];
    int count = 0;
    for (int i = 0; i < space->count; i++)
        influences[i] = influence(entry, i);
    for (int i = 0; i < space->count; i++) {
        int ahead = 0;
        for (int k = 0; k < space->count; k++)
            ahead += influences[k] > influences[i] || (influences[k] == influences[i] && k < i);
        if (ahead < 3 && space->parameters[i].count > 1)
            chosen[count++] = i;
    }
    return count;
}

static void find_pairs(struct report_entry *entry) {
    int chosen[3], count = find_parameters(entry, chosen);
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count; k++) {
            entry->pairs[entry->pair_count][0] = chosen[i];
            entry->pairs[entry->pair_count++][1] = chosen[k];
        }
}

/* ---- The past ---- */

static int compare_past(const void *a, const void *b) {
    const struct report_past *x = a, *y = b;
    return (x->measured > y->measured) - (x->measured < y->measured);
}

static bool add_past(struct report_entry *entry, const struct sweep *sweep, const char *source,
                     struct error *error) {
    struct ranking ranking;
    bool done = sweep_rank(sweep, &ranking, error);
    if (done && ranking.winner >= 0)
        entry->past[entry->past_count++] =
            (struct report_past){sweep_time(sweep), source, ranking.items[0].time.median,
                                 ranking.items[ranking.winner].time.median};
    ranking_free(&ranking);
    return done;
}

/* Whether a sweep is known already: several databases may have copies of it. */
static bool is_noted(const struct report_entry *entry, const struct sweep *sweep) {
    for (int i = 0; i < entry->past_count; i++)
        if (entry->past[i].measured == sweep_time(sweep))
            return true;
    return false;
}

static bool find_past(const struct report_source *sources, int count, struct report_entry *entry,
                      struct error *error) {
    size_t most = 0;
    for (int s = 0; s < count; s++)
        most += sources[s].sweeps.count;
    entry->past = calloc(most + 1, sizeof *entry->past);
    if (entry->past == NULL)
        return out_of_memory(error);
    for (int s = 0; s < count; s++)
        for (size_t i = 0; i < sources[s].sweeps.count; i++) {
            const struct sweep *sweep = &sources[s].sweeps.items[i];
            if (sweeps_same_work(&sweep->key, &entry->sweep->key) &&
                strcmp(sweep->key.cpu, entry->sweep->key.cpu) == 0 && !is_noted(entry, sweep) &&
                !add_past(entry, sweep, sources[s].name, error))
                return false;
        }
    qsort(entry->past, (size_t)entry->past_count, sizeof *entry->past, compare_past);
    return true;
}

/* ---- Names ---- */

static void append_apart(const struct report_entry *entry, const char *words,
                         char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "%s%s", words, entry->apart.data != NULL ? entry->apart.data : "");
}

void report_name(const struct report_entry *entry, char name[NAME_SIZE]) {
    char words[WORK_SIZE];
    sweep_work_words(&entry->sweep->key, words);
    append_apart(entry, words, name);
}

void report_problem_name(const struct report_entry *entry, char name[NAME_SIZE]) {
    char words[WORK_SIZE];
    sweep_problem_words(&entry->sweep->key, words);
    append_apart(entry, words, name);
}

/* ---- Entries ---- */

static void count_outcomes(struct report_entry *entry) {
    for (size_t i = 0; i < entry->ranking.count; i++)
        entry->failures[entry->ranking.items[i].result->outcome]++;
    entry->measured = entry->failures[OUTCOME_MEASURED];
    entry->failures[OUTCOME_MEASURED] = 0;
}

/* Makes an entry.  Candidates that are not "name=value ..." are reported, but have no map. */
static bool open_entry(const struct sweep *sweep, const struct report_source *sources, int count,
                       struct report_entry *entry, struct error *error) {
    struct error why;
    *entry = (struct report_entry){.sweep = sweep};
    if (!sweep_tell_apart(&sweep->key, &sources[0].sweeps, FACTS_WITH_CPU, &entry->apart))
        return out_of_memory(error);
    if (!sweep_rank(sweep, &entry->ranking, error))
        return false;
    count_outcomes(entry);
    entry->space = sweep_space_open(&entry->ranking, &why);
    if (entry->space == NULL && why.exit_code != EXIT_USER) {
        *error = why;
        return false;
    }
    if (entry->space != NULL && report_default(entry) != NULL)
        find_pairs(entry);
    return find_past(sources, count, entry, error);
}

/* Whether no later sweep of the list is about the same work on the same CPU. */
static bool is_latest(const struct sweeps *sweeps, const struct sweep *sweep) {
    for (const struct sweep *other = sweeps->items; other < sweeps->items + sweeps->count; other++)
        if (sweeps_same_work(&other->key, &sweep->key) &&
            strcmp(other->key.cpu, sweep->key.cpu) == 0 &&
            (sweep_time(other) > sweep_time(sweep) ||
             (sweep_time(other) == sweep_time(sweep) && other < sweep)))
            return false;
    return true;
}

bool report_open(const struct report_source *sources, int count, struct report *report,
                 struct error *error) {
    const struct sweeps *sweeps = &sources[0].sweeps;
    *report = (struct report){.entries = calloc(sweeps->count + 1, sizeof *report->entries),
                              .name = sources[0].name};
    if (report->entries == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < sweeps->count; i++)
        if (is_latest(sweeps, &sweeps->items[i]) &&
            !open_entry(&sweeps->items[i], sources, count, &report->entries[report->count++],
                        error))
            return false;
    return true;
}

void report_free(struct report *report) {
    for (size_t i = 0; report->entries != NULL && i < report->count; i++) {
        ranking_free(&report->entries[i].ranking);
        sweep_space_close(report->entries[i].space);
        text_free(&report->entries[i].apart);
        free(report->entries[i].past);
    }
    free(report->entries);
    *report = (struct report){0};
}
