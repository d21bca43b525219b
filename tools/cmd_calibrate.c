/* kvmill calibrate: measures numbers that depend on the processor, and stores them where the
   library finds them.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/json.h"
#include "../base/terminal.h"
#include "../bench/tune_work.h"
#include "../gen/generators.h"
#include "../gen/places.h"
#include "../import/spec_file.h"
#include "../runtime/core/calibration.h"
#include "../runtime/core/cpu.h"
#include "../tune/statistics.h"
#include "best_isa.h"
#include "built_pack.h"
#include "calibration_file.h"
#include "commands.h"
#include "make.h"
#include "tune_progress.h"

static const struct option_help options[] = {
    {"o", "FILE", "where to write (default: where the library looks for it)", &file_values},
    {"budget", "TIME", "about how long to measure: 90, 90s, 10m, 2h (default 20s)", NULL},
    COMPILE_OPTIONS,
    JSON_OPTION,
    {NULL, NULL, NULL, NULL},
};

/* ---- The numbers to measure ---- */

/* The problem (of tune_problems) on which each number is measured. */
static const char *const problem_of[KERNEL_NUMBERS] = {"update 8 functional", "decode 1 on 4096",
                                                       "gather", "update 8 functional"};
enum { AROUND = KERNEL_NUMBERS - 1 };

/* A value, and its speed relative to the previous best value. */
struct trial {
    int number;
    int64_t value;
    struct summary gain;
};

enum { MOST_TRIALS = KERNEL_NUMBERS * MOST_ACCEPTED, MOST_RACES = 6, LEAST_SAMPLES = 9 };

struct calibrating {
    bool json;
    double end;
    int races_left; /* an estimate */
    struct spec_list specs;
    struct built_pack built;
    struct calibration presets, best;
    struct trial trials[MOST_TRIALS];
    int trial_count;
    struct tune_times times;
};

static const struct calibration_number *number_at(int i) {
    return &kvmill_calibration_numbers[i];
}

static const struct tune_problem *problem_named(const char *words) {
    const struct tune_problem *problem = tune_problems;
    while (strcmp(problem->words, words) != 0)
        problem++;
    return problem;
}

/* Returns the i-th spec with the number's name as its purpose, or NULL. */
static const struct spec *spec_of(const struct calibrating *all, int number, int i) {
    for (size_t s = 0; s < all->specs.count; s++)
        if (strcmp(all->specs.items[s].purpose, number_at(number)->name) == 0 && i-- == 0)
            return &all->specs.items[s];
    return NULL;
}

/* ---- Races between values of a number ---- */

static const kvmill_plan_options *options_of(const struct calibrating *all,
                                             kvmill_plan_options *made) {
    *made = (kvmill_plan_options){
        .struct_size = sizeof *made, .packs = &all->built.pack, .pack_count = 1, .threads = 1};
    return made;
}

/* Makes a plan for each value and checks its results.  Restores the best calibration afterwards. */
static bool plan_all(const struct calibrating *all, struct tune_work *work, int number,
                     const int64_t *values, int count, struct owned_plan *plans,
                     struct error *error) {
    kvmill_plan_options made;
    bool done = true;
    for (int i = 0; done && i < count; i++) {
        struct calibration tried = all->best;
        *kvmill_calibration_at(&tried, number_at(number)) = values[i];
        kvmill_calibration_set(&tried);
        done = tune_work_plan(work, options_of(all, &made), &plans[i], error) &&
               tune_work_check(work, &plans[i], error);
    }
    kvmill_calibration_set(&all->best);
    return done;
}

static double share_of_time(const struct calibrating *all) {
    double now = timer_now(), left = all->end - now;
    return now + (left > 0 ? left / all->races_left : 0);
}

static bool take_gains(struct calibrating *all, int number, const int64_t *values, int count,
                       struct error *error) {
    const struct tune_times *times = &all->times;
    for (int i = 0; i < count; i++) {
        struct trial *trial = &all->trials[all->trial_count++];
        *trial = (struct trial){.number = number, .value = values[i]};
        if (!summarise_ratio(times->preset, times->candidate[i], times->samples, count,
                             &trial->gain))
            return out_of_memory(error);
    }
    return true;
}

/* Races the values against the best calibration so far, and adds a trial for each. */
static bool race(struct calibrating *all, const struct spec *spec, int number,
                 const int64_t *values, int count, struct error *error) {
    struct owned_plan plans[MOST_ACCEPTED] = {{0}};
    kvmill_calibration_set(&all->best);
    struct tune_work *work =
        tune_work_open(problem_named(problem_of[number]), spec, all->built.pack, 1, error);
    const struct tune_length length = {LEAST_SAMPLES, MOST_SAMPLES, share_of_time(all)};
    bool done =
        work != NULL && plan_all(all, work, number, values, count, plans, error) &&
        (tune_work_race(work, plans, count, &length, &all->times) || out_of_memory(error)) &&
        take_gains(all, number, values, count, error);
    for (int i = 0; i < count; i++)
        owned_plan_close(&plans[i]);
    tune_work_close(work);
    all->races_left -= all->races_left > 1;
    return done;
}

/* Returns the value of the last `count` trials that is measurably faster than `holding`, or
   `holding` if there is none. */
static int64_t winner_of(const struct calibrating *all, int64_t holding, int count) {
    struct contender_result results[MOST_ACCEPTED];
    const struct trial *trials = &all->trials[all->trial_count - count];
    char names[MOST_ACCEPTED][24];
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%020" PRId64, trials[i].value);
        results[i] = (struct contender_result){.name = names[i], .gain = trials[i].gain};
    }
    struct choice choice = choose(results, count);
    return choice.winner == NO_CONTENDER ? holding : trials[choice.winner].value;
}

/* ---- A number ---- */

/* Tries all accepted values, except the present one. */
static bool measure_streams(struct calibrating *all, int number, struct error *error) {
    int64_t *holding = kvmill_calibration_at(&all->best, number_at(number));
    int64_t values[MOST_ACCEPTED];
    int count = 0;
    for (int i = 0; i < MOST_ACCEPTED && number_at(number)->accepted[i] != 0; i++)
        if (number_at(number)->accepted[i] != *holding)
            values[count++] = number_at(number)->accepted[i];
    if (!race(all, spec_of(all, number, 0), number, values, count, error))
        return false;
    *holding = winner_of(all, *holding, count);
    return true;
}

/* Moves the threshold by one step if that is faster.  Measures a result as large as the smaller of
   both thresholds: only with that threshold, it is stored around the caches. */
static bool step_around(struct calibrating *all, int step, bool *moved, struct error *error) {
    const int64_t *accepted = number_at(AROUND)->accepted;
    int64_t *holding = kvmill_calibration_at(&all->best, number_at(AROUND));
    int at = 0;
    while (accepted[at] != *holding)
        at++;
    *moved = false;
    if (at + step < 0 || at + step == MOST_ACCEPTED || accepted[at + step] == 0)
        return true;
    if (!race(all, spec_of(all, AROUND, step < 0 ? at - 1 : at), AROUND, &accepted[at + step], 1,
              error))
        return false;
    int64_t winner = winner_of(all, *holding, 1);
    *moved = winner != *holding;
    *holding = winner;
    return true;
}

/* Raises the threshold as long as that is faster.  If it is not faster at all, lowers the threshold
   as long as that is faster. */
static bool measure_around(struct calibrating *all, struct error *error) {
    bool moved, up = false, done = step_around(all, 1, &moved, error);
    while (done && moved) {
        up = true;
        done = step_around(all, 1, &moved, error);
    }
    for (moved = !up; done && moved;)
        done = step_around(all, -1, &moved, error);
    return done;
}

/* ---- Output ---- */

static void print_number(const struct calibrating *all, int number) {
    struct calibration best = all->best, presets = all->presets;
    int64_t value = *kvmill_calibration_at(&best, number_at(number));
    print_shown(stdout, "%-15s %9" PRId64 "%s", number_at(number)->name, value,
                value == *kvmill_calibration_at(&presets, number_at(number)) ? " (the preset)"
                                                                             : "");
    const char *before = "; with";
    for (int i = 0; i < all->trial_count; i++) {
        if (all->trials[i].number != number)
            continue;
        print_shown(stdout, "%s %" PRId64 ": %.2f times as fast (%.2f to %.2f)", before,
                    all->trials[i].value, all->trials[i].gain.median, all->trials[i].gain.low,
                    all->trials[i].gain.high);
        before = ", with";
    }
    print_shown(stdout, "\n");
    fflush(stdout);
}

static json_t *json_of_trials(const struct calibrating *all, int number) {
    json_t *array = json_array();
    for (int i = 0; i < all->trial_count; i++) {
        const struct trial *trial = &all->trials[i];
        if (trial->number == number)
            json_array_append_new(array,
                                  json_pack("{s:I, s:f, s:f, s:f}", "value",
                                            (json_int_t)trial->value, "speed", trial->gain.median,
                                            "least", trial->gain.low, "most", trial->gain.high));
    }
    return array;
}

static json_t *json_of(const struct calibrating *all, const char *path) {
    struct calibration best = all->best, presets = all->presets;
    char processor[PROCESSOR_SIZE];
    json_t *numbers = json_array();
    for (int i = 0; i < KERNEL_NUMBERS; i++)
        json_array_append_new(
            numbers, json_pack("{s:s, s:I, s:I, s:o}", "name", number_at(i)->name, "value",
                               (json_int_t)*kvmill_calibration_at(&best, number_at(i)), "preset",
                               (json_int_t)*kvmill_calibration_at(&presets, number_at(i)), "tried",
                               json_of_trials(all, i)));
    kvmill_processor_words(processor);
    return json_pack("{s:s, s:s, s:o}", "file", path, "processor", processor, "numbers", numbers);
}

/* ---- The command ---- */

/* Sets isas to the best usable instruction set, without its extensions. */
static bool list_isas(struct isa_list *isas, struct error *error) {
    const char *best = best_isa();
    kvmill_error reason;
    int cap;
    if (kvmill_isa_cap(NULL, &cap, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s", reason.message);
    best = kvmill_isa_plain(kvmill_isa_by_name(best, strlen(best)))->name;
    return isa_list_parse(best, best, isas, error);
}

static bool open_pack(struct calibrating *all, struct error *error) {
    struct isa_list isas;
    struct pack pack = {.name = "calibrate", .specs = &all->specs};
    char *path = path_join(data_directory(), "configs/calibrate.json");
    bool done = (path != NULL || out_of_memory(error)) && list_isas(&isas, error) &&
                specs_read(path, &all->specs, error) &&
                specs_kernels(&all->specs, &isas, &pack.kernels, error) &&
                built_pack_make(&pack, &all->built, error);
    kernel_list_free(&pack.kernels);
    free(path);
    return done;
}

/* The numbers that are measured inside an engine stay as the file has them. */
static struct calibration to_begin_with(const char *path) {
    struct calibration begin = calibration_of(path), presets = kvmill_calibration_presets();
    for (int i = 0; i < KERNEL_NUMBERS; i++)
        *kvmill_calibration_at(&begin, number_at(i)) =
            *kvmill_calibration_at(&presets, number_at(i));
    return begin;
}

static bool measure_all(struct calibrating *all, const char *path, struct error *error) {
    bool done = true;
    all->presets = kvmill_calibration_presets();
    all->best = to_begin_with(path);
    all->races_left = MOST_RACES;
    for (int i = 0; done && i < KERNEL_NUMBERS; i++) {
        say_doing("measuring", number_at(i)->name);
        done = i == AROUND ? measure_around(all, error) : measure_streams(all, i, error);
        say_done();
        if (done && !all->json)
            print_number(all, i);
    }
    return done;
}

static bool finish(const struct calibrating *all, const char *path, bool named,
                   struct error *error) {
    if (!calibration_write(&all->best, path, named, error))
        return false;
    if (all->json)
        return json_print(json_of(all, path), error);
    print_shown(stdout, "%s: written\n", path);
    return true;
}

static bool calibrate(const struct options *given, struct error *error) {
    static struct calibrating all;
    struct environment environment;
    char path[CALIBRATION_PATH];
    double budget = 20;
    all = (struct calibrating){.json = option_value(given, "json") != NULL, .built = {.file = -1}};
    if (!calibration_place(option_value(given, "o"), path, error) ||
        !option_seconds(given, "budget", &budget, error) || !make_read_options(given, error))
        return false;
    all.end = timer_now() + budget;
    environment_read("", &environment);
    say_remarks(&environment, 1, "calibrate", "");
    bool done = open_pack(&all, error) && measure_all(&all, path, error) &&
                finish(&all, path, option_value(given, "o") != NULL, error);
    built_pack_free(&all.built);
    spec_list_free(&all.specs);
    return done;
}

const struct command calibrate_command = {
    .name = "calibrate",
    .synopsis = "[-o FILE] [options]",
    .summary = "Measure this processor once, for the library and for generate.",
    .options = options,
    .run = calibrate,
};
