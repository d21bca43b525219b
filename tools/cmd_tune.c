/* kvmill tune: measure what the kernels of a pack leave open, and keep it in a database.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tune/database.h"
#include "../tune/environment.h"
#include "commands.h"
#include "inputs.h"
#include "tune_walk.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"db", "DB", "the database (required); made if it is not there, gone on with if it is"},
    {"budget", "TIME", "stop after so long: 90, 90s, 10m, 2h (10m)"},
    {"jobs", "N", "compilers at a time (all processors)"},
    {"threads", "N", "threads to measure with (1)"},
    {"strategy", "NAME", "exhaustive, random, greedy, halving (by the size of the space)"},
    {"seed", "N", "of what is random (1)"},
    {"samples", "N", "of a full measurement, 6 to 512 (27)"},
    {"evaluations", "N", "of each kernel and problem at most (no bound)"},
    {"patience", "SECONDS", "for the check of a candidate, 1 to 3600 (60)"},
    {"resume", NULL, "as without it: what the database knows is not measured again"},
    {"progress", "KIND", "text, json: a line for each candidate on standard output (text)"},
    {NULL, NULL, NULL},
};

/* All of a run of the command. */
struct tuning {
    struct inputs inputs;
    struct built_pack base;
    struct machine machine;
    struct text environment;
    struct tune_setting setting;
    struct database *database;
    struct sweeps known; /* what the database had before */
    struct tune_items items;
    double budget, end; /* seconds, and when they are over */
    bool json;
    int64_t measured, failed, known_before;
    const struct tune_item *item; /* under way */
    double best;                  /* of its candidates: speed over the preset's */
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    interrupted = number;
}

/* ---- Progress ---- */

static double seconds_left(const struct tuning *tuning) {
    double left = tuning->end - timer_now();
    return left > 0 ? left : 0;
}

static void print_json(const struct tuning *tuning, const struct sweep_result *result,
                       double speed) {
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "kernel", tuning->item->symbol,
                             "problem", tuning->item->problem->words, "candidate",
                             result->candidate, "outcome", outcome_word(result->outcome), "speed",
                             speed, "best", tuning->best, "seconds_left", seconds_left(tuning));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(line);
    printf("\n");
    fflush(stdout);
}

/* The line is written over by the next, and cleared at the end of a sweep. */
static void print_line(const struct tuning *tuning) {
    int left = (int)seconds_left(tuning);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r  %" PRId64 " done, %" PRId64 " failed, best so far %.3f, %d:%02d left ",
                tuning->measured, tuning->failed, tuning->best, left / 60, left % 60);
}

static void clear_line(void) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%64s\r", "");
}

/* ---- Sweeps ---- */

static bool keep(void *context, const struct sweep_key *key, const struct sweep_result *result,
                 struct error *error) {
    struct tuning *tuning = context;
    double speed;
    if (!tune_speed(result, &speed, error) || !database_add(tuning->database, key, result, error))
        return false;
    *(result->outcome == OUTCOME_MEASURED ? &tuning->measured : &tuning->failed) += 1;
    tuning->best = speed > tuning->best ? speed : tuning->best;
    if (tuning->json)
        print_json(tuning, result, speed);
    else
        print_line(tuning);
    return true;
}

static bool tune_item(struct tuning *tuning, const struct tune_item *item, double seconds,
                      struct error *error) {
    const struct tune_sink sink = {.context = tuning, .keep = keep};
    int64_t before = tuning->measured + tuning->failed;
    int known;
    tuning->item = item;
    tuning->best = 0;
    if (!tuning->json)
        printf("%s, %s\n", item->symbol, item->problem->words);
    fflush(stdout);
    bool done = tune_walk(&tuning->setting, item, &tuning->known, seconds, &sink, &known, error);
    tuning->known_before += known;
    if (tuning->json)
        return done;
    clear_line();
    printf("  %" PRId64 " candidates", tuning->measured + tuning->failed - before);
    printf(known > 0 ? ", %d known before" : "", known);
    printf(tuning->best > 0 ? ", best %.3f of the preset's speed\n" : "\n", tuning->best);
    return done;
}

/* Each gets its share of what is left. */
static bool tune_all(struct tuning *tuning, struct error *error) {
    int count = tuning->items.count;
    for (int i = 0; i < count && !interrupted; i++) {
        double left = seconds_left(tuning);
        if (left > 0 && !tune_item(tuning, &tuning->items.items[i], left / (count - i), error))
            return false;
    }
    if (!tuning->json)
        printf("%" PRId64 " candidates measured, %" PRId64 " failed%s\n", tuning->measured,
               tuning->failed, interrupted ? "; the same command goes on" : "");
    if (interrupted)
        return fail(error, 128 + interrupted, "interrupted; what was measured is kept");
    return tuning->measured + tuning->failed + tuning->known_before > 0 ||
           fail(error, EXIT_USER,
                "--budget of %g s is over before the first candidate: building the pack takes "
                "longer; accepted: more",
                tuning->budget);
}

/* ---- Options ---- */

static double clock_now(void *clock) {
    (void)clock;
    return timer_now();
}

/* "90", "90s", "10m", "2h" */
static bool read_budget(const char *text, double *seconds, struct error *error) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *end;
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && number > 0 && number < 1e6) {
            *seconds = number * units[i].seconds;
            return true;
        }
    return fail(error, EXIT_USER, "--budget is \"%s\"; accepted: 90, 90s, 10m, 2h", text);
}

static bool read_kind(const struct options *given, bool *json, struct error *error) {
    const char *progress = option_value(given, "progress");
    *json = progress != NULL && strcmp(progress, "json") == 0;
    return progress == NULL || *json || strcmp(progress, "text") == 0 ||
           fail(error, EXIT_USER, "--progress is \"%s\"; accepted: text, json", progress);
}

static bool read_options(const struct options *given, struct tuning *tuning, struct error *error) {
    long jobs = sysconf(_SC_NPROCESSORS_ONLN), threads = 1, patience = 60;
    long seed = 1, samples = 27, evaluations = 0;
    const char *budget = option_value(given, "budget");
    tuning->budget = 600;
    if (!read_kind(given, &tuning->json, error) ||
        (budget != NULL && !read_budget(budget, &tuning->budget, error)) ||
        !option_integer(given, "jobs", 1, 256, &jobs, error) ||
        !option_integer(given, "threads", 1, 256, &threads, error) ||
        !option_integer(given, "seed", 0, 1000000000, &seed, error) ||
        !option_integer(given, "samples", 6, MOST_SAMPLES, &samples, error) ||
        !option_integer(given, "evaluations", 1, 1000000, &evaluations, error) ||
        !option_integer(given, "patience", 1, 3600, &patience, error))
        return false;
    tuning->end = timer_now() + tuning->budget;
    tuning->setting = (struct tune_setting){.jobs = (int)jobs,
                                            .threads = (int)threads,
                                            .patience = (int)patience,
                                            .search = {.strategy = option_value(given, "strategy"),
                                                       .seed = (uint64_t)seed,
                                                       .samples = (int)samples,
                                                       .evaluations = evaluations,
                                                       .now = clock_now},
                                            .interrupted = &interrupted};
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
    struct remark remarks[MOST_REMARKS];
    environment_read("", &environment);
    int count = environment_remarks(&environment, tuning->setting.threads, remarks);
    for (int i = 0; i < count; i++)
        fprintf(stderr, "kvmill tune: %s: %s\n", grade_word(remarks[i].grade), remarks[i].text);
    return environment_print(&environment, &tuning->environment) || out_of_memory(error);
}

static bool open_setting(struct tuning *tuning, struct error *error) {
    struct tune_setting *setting = &tuning->setting;
    if (!read_environment(tuning, error) || !machine_read(&tuning->machine, error) ||
        !built_pack_make(&tuning->inputs.pack, &tuning->base, error))
        return false;
    setting->isas = &tuning->inputs.isas;
    setting->pack = tuning->base.pack;
    setting->machine = &tuning->machine;
    setting->environment = tuning->environment.data;
    setting->builds = builds_open(error);
    return setting->builds != NULL && tune_items_list(&tuning->inputs.specs, setting->pack,
                                                      setting->isas, &tuning->items, error);
}

static void close_tuning(struct tuning *tuning) {
    tune_items_free(&tuning->items);
    builds_close(tuning->setting.builds);
    database_close(tuning->database);
    sweeps_free(&tuning->known);
    built_pack_free(&tuning->base);
    inputs_free(&tuning->inputs);
    text_free(&tuning->environment);
}

static bool tune(const struct options *given, struct error *error) {
    static struct tuning tuning;
    const struct sigaction action = {.sa_handler = interrupt};
    bool done = read_options(given, &tuning, error) &&
                inputs_read(given, NULL, &tuning.inputs, error) &&
                open_database(given, &tuning, error) && open_setting(&tuning, error);
    if (done) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        done = tune_all(&tuning, error);
    }
    close_tuning(&tuning);
    return done;
}

const struct command tune_command = {
    .name = "tune",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options] --db DB",
    .summary = "Measure what kernels leave open, and keep the results.",
    .options = options,
    .run = tune,
};
