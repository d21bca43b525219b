/* kvmill tune: measures variants and tunables of the kernels of a pack, and stores the results in a
   database.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/signals.h"
#include "../base/terminal.h"
#include "../base/text.h"
#include "../tune/database.h"
#include "../tune/environment.h"
#include "commands.h"
#include "inputs.h"
#include "make.h"
#include "tune_follow.h"
#include "tune_lead.h"
#include "tune_progress.h"
#include "tune_walk.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"db", "DB", "the database (required); created if it does not exist, continued if it does",
     &file_values},
    {"budget", "TIME", "longest time to take: 90, 90s, 10m, 2h (default 10m)", NULL},
    {"jobs", "N", "compilers to run at a time (default: one per processor)", NULL},
    {"threads", "N", "threads to measure with (default 1)", NULL},
    {"strategy", "NAME", "exhaustive, random, greedy, halving (default: by the size of the space)",
     &strategy_values},
    {"seed", "N", "seed of random choices (default 1)", NULL},
    {"samples", "N", "samples of a full measurement, 6 to 512 (default 27)", NULL},
    {"evaluations", "N", "limit of candidates per kernel and problem (default: no limit)", NULL},
    {"patience", "SECONDS", "time limit for checking a candidate, 1 to 3600 (default 60)", NULL},
    COMPILE_OPTIONS,
    {"resume", NULL, "has no effect: results in the database are never measured again", NULL},
    {"progress", "KIND", "text, or json: one line per candidate on standard output (default text)",
     &progress_values},
    {NULL, NULL, NULL, NULL},
};

/* The state of a run of the command. */
struct tuning {
    struct ranks ranks;
    struct inputs inputs;
    struct built_pack base;
    struct machine machine;
    struct text environment;
    struct tune_setting setting;
    struct database *database;
    struct sweeps known; /* the database's contents */
    struct tune_items items;
    struct turns turns;
    double budget; /* seconds */
    struct tune_progress progress;
    struct tune_standing standing; /* of the current item */
};

/* ---- Sweeps ---- */

static bool keep(void *context, const struct sweep_key *key, const struct sweep_result *result,
                 struct error *error) {
    struct tuning *tuning = context;
    bool is_new = !sweeps_have(&tuning->known, key, result->candidate);
    return database_add(tuning->database, key, result, error) &&
           sweeps_add(&tuning->known, key, result, error) &&
           progress_add(&tuning->progress, &tuning->standing, result, is_new, error);
}

static bool tune_item(struct tuning *tuning, const struct tune_item *item, double seconds,
                      struct error *error) {
    const struct tune_sink sink = {.context = tuning, .keep = keep};
    struct tune_standing *standing = &tuning->standing;
    *standing = (struct tune_standing){.symbol = item->symbol, .problem = item->problem->words};
    progress_begin(&tuning->progress, standing);
    bool done =
        tune_walk(&tuning->setting, item, &tuning->known, seconds, &sink, &standing->tally, error);
    progress_end(&tuning->progress, standing);
    return done;
}

/* Tunes all items.  Each gets an equal share of the time that is left. */
static bool tune_all(struct tuning *tuning, struct error *error) {
    int count = tuning->progress.works = tuning->items.count;
    for (int i = 0; i < count && !signals_noted; i++) {
        double left = progress_seconds_left(&tuning->progress);
        if (left > 0 && !tune_item(tuning, &tuning->items.items[i], left / (count - i), error))
            return false;
    }
    return true;
}

/* ---- Signals ---- */

/* Notes signals from before the database is opened: a process that ended at once would leave the
   database's log, and directories of builds. */
static void note_signals(void) {
    struct signal_actions before;
    signals_note(&before);
    signals_note_one(SIGINT); /* a shell's background jobs ignore it */
    signals_note_one(SIGTERM);
}

static bool interrupted(struct error *error) {
    return fail(error, 128 + signals_noted, "interrupted; what was measured is kept");
}

static bool finish(const struct tuning *tuning, struct error *error) {
    const struct tune_progress *progress = &tuning->progress;
    bool any = progress->measured + progress->failed + progress->known > 0;
    if (any)
        progress_finish(progress, signals_noted != 0);
    if (signals_noted)
        return interrupted(error);
    return any ||
           fail(error, EXIT_USER,
                "--budget: %g s ran out before the first candidate: reading and building took "
                "%.0f s; accepted: more, or the same again, since what was built is kept",
                tuning->budget, timer_now() - progress->end + tuning->budget);
}

/* ---- Options ---- */

static double clock_now(void *clock) {
    (void)clock;
    return timer_now();
}

static bool read_kind(const struct options *given, bool *json, struct error *error) {
    const char *progress = option_value(given, "progress");
    *json = progress != NULL && strcmp(progress, "json") == 0;
    return values_have(&progress_values, "progress", progress, error);
}

static bool read_options(const struct options *given, struct tuning *tuning, struct error *error) {
    long jobs = environment_processors(), threads = 1, patience = 60;
    long seed = 1, samples = 27, evaluations = 0;
    tuning->budget = 600;
    if (!read_kind(given, &tuning->progress.json, error) ||
        !values_have(&strategy_values, "strategy", option_value(given, "strategy"), error) ||
        !option_seconds(given, "budget", &tuning->budget, error) ||
        !option_integer(given, "jobs", 1, 256, &jobs, error) ||
        !option_integer(given, "threads", 1, 256, &threads, error) ||
        !option_integer(given, "seed", 0, 1000000000, &seed, error) ||
        !option_integer(given, "samples", 6, MOST_SAMPLES, &samples, error) ||
        !option_integer(given, "evaluations", 1, 1000000, &evaluations, error) ||
        !option_integer(given, "patience", 1, 3600, &patience, error) ||
        !make_read_options(given, error))
        return false;
    tuning->progress.end = timer_now() + tuning->budget;
    tuning->setting = (struct tune_setting){.jobs = (int)jobs,
                                            .threads = (int)threads,
                                            .patience = (int)patience,
                                            .search = {.strategy = option_value(given, "strategy"),
                                                       .seed = (uint64_t)seed,
                                                       .samples = (int)samples,
                                                       .evaluations = evaluations,
                                                       .now = clock_now},
                                            .interrupted = &signals_noted};
    return true;
}

/* ---- The command ---- */

static bool open_database(const struct options *given, struct tuning *tuning, struct error *error) {
    const char *path = option_value(given, "db");
    if (path == NULL || *path == '\0')
        return fail(error, EXIT_USER, "kvmill tune: no database; accepted: --db DB");
    tuning->database = database_open(path, DATABASE_CREATE, error);
    return tuning->database != NULL && database_read(tuning->database, &tuning->known, error);
}

static bool read_environment(struct tuning *tuning, struct error *error) {
    struct environment environment;
    environment_read("", &environment);
    char rank[32] = "";
    if (tuning->ranks.count > 1)
        snprintf(rank, sizeof rank, "rank %d: ", tuning->ranks.rank);
    say_remarks(&environment, tuning->setting.threads, "tune", rank);
    return environment_print(&environment, &tuning->environment) || out_of_memory(error);
}

static bool open_setting(struct tuning *tuning, struct error *error) {
    struct tune_setting *setting = &tuning->setting;
    if (!read_environment(tuning, error) || !machine_read(&tuning->machine, error) ||
        !built_pack_make_within(&tuning->inputs.pack, progress_seconds_left(&tuning->progress),
                                &tuning->base, error))
        return false;
    setting->isas = &tuning->inputs.isas;
    setting->pack = tuning->base.pack;
    setting->machine = &tuning->machine;
    setting->environment = tuning->environment.data;
    setting->builds = builds_open(ranks_directory(), error);
    return setting->builds != NULL &&
           tune_items_list(&tuning->inputs.specs, setting->pack, setting->isas, &tuning->items,
                           error) &&
           (tuning->ranks.rank > 0 ||
            tune_items_say_left(&tuning->items, setting->pack, setting->isas, error));
}

static void close_tuning(struct tuning *tuning) {
    tune_items_free(&tuning->items);
    if (tuning->setting.turns != NULL)
        turns_close(tuning->setting.turns);
    builds_close(tuning->setting.builds);
    database_close(tuning->database);
    sweeps_free(&tuning->known);
    built_pack_free(&tuning->base);
    inputs_free(&tuning->inputs);
    text_free(&tuning->environment);
}

static bool tune_alone(const struct options *given, struct tuning *tuning, struct error *error) {
    bool opened = open_database(given, tuning, error) && open_setting(tuning, error);
    if (signals_noted)
        return interrupted(error); /* whatever failed: a signal ends compilers, too */
    return opened && tune_all(tuning, error) && finish(tuning, error);
}

static bool lead(const struct options *given, struct tuning *tuning, struct error *error) {
    bool lost;
    bool opened = open_database(given, tuning, error) && machine_read(&tuning->machine, error);
    if (signals_noted || !opened)
        return signals_noted ? interrupted(error) : false;
    const struct lead_setting setting = {.ranks = &tuning->ranks,
                                         .machine = &tuning->machine,
                                         .database = tuning->database,
                                         .known = &tuning->known,
                                         .progress = &tuning->progress,
                                         .patience = tuning->setting.patience,
                                         .interrupted = &signals_noted};
    bool done = tune_lead(&setting, &lost, error) && finish(tuning, error);
    lead_dismiss(&tuning->ranks, done && !lost);
    return done;
}

/* Opens a rank other than 0.  The first on a machine builds the pack; the others find it in the
   cache. */
static bool open_follower(struct tuning *tuning, struct error *error) {
    if (!turns_open(&tuning->turns, ranks_directory(), error))
        return false;
    tuning->setting.turns = &tuning->turns;
    tuning->turns.interrupted = &signals_noted;
    return turns_take(&tuning->turns, TURN_ALONE, error) && open_setting(tuning, error) &&
           turns_take(&tuning->turns, TURN_NONE, error);
}

/* Runs a rank other than 0.  Always returns true: rank 0 reports errors, and does not wait for a
   rank that has failed. */
static bool follow(struct tuning *tuning, bool ready, struct error *error) {
    struct ranks *ranks = &tuning->ranks;
    struct error ignored;
    bool together = false;
    if (!follow_greet(ranks, error) || !ready || !open_follower(tuning, error) ||
        !follow_work(ranks, &tuning->setting, &tuning->items, &together, error)) {
        turns_take(tuning->setting.turns, TURN_NONE, &ignored);
        follow_rest(ranks, error, &signals_noted, &together);
    }
    if (together)
        ranks_close(ranks);
    return true;
}

static bool tune(const struct options *given, struct error *error) {
    static struct tuning tuning;
    if (!ranks_open(&tuning.ranks, error))
        return false;
    bool done =
        read_options(given, &tuning, error) && inputs_read(given, NULL, &tuning.inputs, error);
    note_signals();
    if (tuning.ranks.rank > 0)
        done = follow(&tuning, done, error);
    else if (done)
        done = tuning.ranks.count > 1 ? lead(given, &tuning, error)
                                      : tune_alone(given, &tuning, error);
    if (done && tuning.ranks.rank == 0)
        say_next("kvmill report --db", option_value(given, "db"), "");
    close_tuning(&tuning);
    return done;
}

const struct command tune_command = {
    .name = "tune",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options] --db DB",
    .summary = "Measure which kernels are fastest on this machine, and keep the results.",
    .options = options,
    .run = tune,
};
