/* kvmill tune: measure what the kernels of a pack leave open, and keep it in a database.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../bench/results.h"
#include "../tune/database.h"
#include "../tune/environment.h"
#include "../tune/machine.h"
#include "../tune/resume.h"
#include "candidate.h"
#include "commands.h"
#include "inputs.h"
#include "tune_space.h"

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
    struct database *database;
    struct sweeps known; /* what the database had before */
    const char *environment;
    struct search_options search;
    double end; /* of the budget */
    long jobs, threads, patience;
    bool json;
    int64_t measured, failed;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    interrupted = number;
}

/* ---- Work: a kernel, and what it is run on ---- */

struct work_item {
    const struct spec *spec;
    struct kernel kernel;
    char symbol[SYMBOL_SIZE];
    char problem[64];
    struct attention_size size;
};

enum { MOST_WORK = 64, POSITIONS = 4096, CHUNK = 512 };

static const struct problem {
    const char *words;
    struct attention_size size;
    void (*find_kernel)(const kvmill_plan *plan, const char *word, char kernel[SYMBOL_SIZE]);
} problems[] = {
    {"decode 1 on 4096", {1, 1, POSITIONS}, bench_kernel_in_plan},
    {"prefill 512 on 512", {1, CHUNK, CHUNK}, bench_last_kernel_in_plan},
};

struct work_list {
    struct work_item items[MOST_WORK];
    int count;
};

static bool is_listed(const struct work_list *list, const struct work_item *item) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].symbol, item->symbol) == 0 &&
            strcmp(list->items[i].problem, item->problem) == 0)
            return true;
    return false;
}

/* Plans without kernels of their own, and specs that share a kernel, add nothing. */
static void add_work(struct work_list *list, const struct spec *spec, const struct problem *problem,
                     const kvmill_plan *plan) {
    struct work_item *item = &list->items[list->count];
    struct error ignored;
    if (list->count == MOST_WORK)
        return;
    *item = (struct work_item){.spec = spec, .size = problem->size};
    snprintf(item->problem, sizeof item->problem, "%s", problem->words);
    problem->find_kernel(plan, "; attend with ", item->symbol);
    if (kernel_parse(item->symbol, &item->kernel, &ignored) &&
        item->kernel.family->tunables != NULL && !is_listed(list, item))
        list->count++;
}

static bool add_spec(struct work_list *list, const struct spec *spec, const kvmill_pack *pack,
                     struct error *error) {
    const kvmill_plan_options with = {
        .struct_size = sizeof with, .packs = &pack, .pack_count = 1, .threads = 1};
    kvmill_plan *plan;
    kvmill_error reason;
    if (!is_attention_spec(spec) || attention_op_of(spec) != KVMILL_MULTI_HEAD_CACHE_ATTENTION ||
        spec->attention.op.dynamic_batching)
        return true;
    if (kvmill_plan_multi_head_cache_attention(&spec->attention.op, &with, &plan, &reason) !=
        KVMILL_OK)
        return fail(error, EXIT_BUG, "%s", reason.message);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        add_work(list, spec, &problems[i], plan);
    kvmill_plan_destroy(plan);
    return true;
}

static bool list_work(const struct tuning *tuning, struct work_list *list, struct error *error) {
    for (size_t i = 0; i < tuning->inputs.specs.count; i++)
        if (!add_spec(list, &tuning->inputs.specs.items[i], tuning->base.pack, error))
            return false;
    return list->count > 0 ||
           fail(error, EXIT_USER,
                "nothing to tune: no spec is a MultiHeadCacheAttention with a static batch whose "
                "kernel leaves something open on this CPU");
}

/* ---- The pack without what is tuned ---- */

struct rest {
    kvmill_pack pack;
    const struct kvmill_kernel **kernels;
};

static bool set_rest(struct rest *rest, const kvmill_pack *pack, const char *symbol,
                     struct error *error) {
    rest->pack = *pack;
    rest->pack.count = 0;
    rest->kernels = malloc((pack->count + 1) * sizeof *rest->kernels);
    if (rest->kernels == NULL)
        return out_of_memory(error);
    for (uint32_t i = 0; i < pack->count; i++)
        if (!symbols_do_the_same(symbol, pack->kernels[i]->symbol))
            rest->kernels[rest->pack.count++] = pack->kernels[i];
    rest->pack.kernels = rest->kernels;
    return true;
}

/* ---- One sweep ---- */

struct walk {
    struct tuning *tuning;
    const struct work_item *item;
    struct tune_work work;
    struct rest rest;
    struct tune_space *space;
    struct search *search;
    struct sweep_key key;
    struct point points[MOST_CANDIDATES];
    struct candidate candidates[MOST_CANDIDATES];
    int count, samples;
    double best; /* speed over the preset */
    struct tune_times times;
};

static const struct sweep *known_sweep(const struct walk *walk) {
    for (size_t i = 0; i < walk->tuning->known.count; i++)
        if (sweep_key_compare(&walk->tuning->known.items[i].key, &walk->key) == 0)
            return &walk->tuning->known.items[i];
    return NULL;
}

static void set_key(struct walk *walk) {
    struct machine *machine = &walk->tuning->machine;
    walk->key = (struct sweep_key){
        .cpu = machine->cpu,
        .compiler = machine->compiler,
        .flags = machine->flags,
        .templates = machine->templates,
        .isa = (char *)walk->item->kernel.isa->name,
        .spec = (char *)walk->item->symbol,
        .problem = (char *)walk->item->problem,
        .threads = (int)walk->tuning->threads,
        .bytes = tune_work_bytes(&walk->work),
        .flops = tune_work_flops(&walk->work),
    };
}

static bool open_search(struct walk *walk, double seconds, struct error *error) {
    struct search_options search = walk->tuning->search;
    struct resumption resumption = {0};
    search.seconds = seconds;
    walk->space = tune_space_open(&walk->item->kernel, &walk->tuning->inputs.isas, error);
    if (walk->space == NULL)
        return false;
    walk->search = search_open(tune_space_of(walk->space), &search, error);
    const struct sweep *known = walk->search != NULL ? known_sweep(walk) : NULL;
    if (known != NULL &&
        !search_resume(walk->search, tune_space_of(walk->space), known, &resumption, error))
        return false;
    if (resumption.known > 0 && !walk->tuning->json)
        printf("  %d candidates are known\n", resumption.known);
    return walk->search != NULL;
}

static bool open_walk(struct walk *walk, double seconds, struct error *error) {
    const struct work_item *item = walk->item;
    struct tuning *tuning = walk->tuning;
    if (!tune_work_open(&walk->work, &item->spec->attention.op, &item->size, tuning->base.pack,
                        (int)tuning->threads, error) ||
        !set_rest(&walk->rest, tuning->base.pack, item->symbol, error))
        return false;
    set_key(walk);
    return open_search(walk, seconds, error);
}

static void close_walk(struct walk *walk) {
    search_close(walk->search);
    tune_space_close(walk->space);
    free(walk->rest.kernels);
    tune_work_close(&walk->work);
}

/* ---- Asking ---- */

/* Questions that may be answered together; false when there are no more. */
static bool ask(struct walk *walk, struct error *error) {
    struct question question;
    enum answer answer = ANSWER_WAIT;
    walk->count = walk->samples = 0;
    while (walk->count < MOST_CANDIDATES &&
           (answer = search_ask(walk->search, &question)) == ANSWER_POINT) {
        walk->points[walk->count] = question.point;
        walk->candidates[walk->count++] =
            (struct candidate){.kernel = tune_space_kernel(walk->space, &question.point)};
        walk->samples = walk->samples > question.samples ? walk->samples : question.samples;
    }
    if (answer == ANSWER_NO_MEMORY)
        return out_of_memory(error);
    return walk->count > 0;
}

/* ---- Answering ---- */

static bool check_all(struct walk *walk, struct error *error) {
    const struct tuning *tuning = walk->tuning;
    for (int i = 0; i < walk->count; i++)
        if (!candidate_check(&walk->candidates[i], &walk->work, &walk->rest.pack,
                             (int)tuning->threads, (unsigned)tuning->patience, error))
            return false;
    return true;
}

/* places[i]: where candidate i is in the race; -1: it is not. */
static void race(struct walk *walk, int places[MOST_CANDIDATES]) {
    struct attention_plan plans[MOST_CANDIDATES];
    int count = 0;
    for (int i = 0; i < walk->count; i++) {
        places[i] = walk->candidates[i].outcome == OUTCOME_MEASURED ? count : -1;
        if (places[i] >= 0)
            plans[count++] = walk->candidates[i].plan;
    }
    if (count > 0)
        tune_work_race(&walk->work, plans, count, walk->samples, &walk->times);
}

static int64_t now_in_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void report_candidate(struct walk *walk, const struct sweep_result *result, double speed) {
    struct tuning *tuning = walk->tuning;
    const char *word = outcome_word(result->outcome);
    double left = tuning->end - timer_now();
    walk->best = speed > walk->best ? speed : walk->best;
    if (tuning->json) {
        json_t *line =
            json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f}", "kernel", walk->item->symbol,
                      "problem", walk->item->problem, "candidate", result->candidate, "outcome",
                      word, "speed", speed, "best", walk->best, "seconds_left", left);
        json_dumpf(line, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        json_decref(line);
        printf("\n");
        fflush(stdout);
    } else if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r  %" PRId64 " done, best %.3f, %.0f s left   ",
                tuning->measured + tuning->failed, walk->best, left > 0 ? left : 0);
    }
}

static double speed_of(const struct walk *walk, int place) {
    struct summary gain;
    if (!summarise_ratio(walk->times.preset, walk->times.candidate[place], walk->samples, 1, &gain))
        return 0;
    return gain.median;
}

static bool keep(struct walk *walk, int i, int place, struct error *error) {
    struct tuning *tuning = walk->tuning;
    const struct candidate *candidate = &walk->candidates[i];
    const struct space *space = tune_space_of(walk->space);
    const struct point preset = space_default(space);
    struct text name = {0};
    bool measured = place >= 0;
    double speed = measured ? speed_of(walk, place) : 0;
    if (!space_print(space, &walk->points[i], &name))
        return out_of_memory(error);
    const struct sweep_result result = {
        .candidate = name.data,
        .is_default = points_equal(&walk->points[i], &preset),
        .outcome = candidate->outcome,
        .message = (char *)candidate->message,
        .samples = measured ? walk->times.candidate[place] : NULL,
        .baseline = measured ? walk->times.preset : NULL,
        .sample_count = measured ? walk->samples : 0,
        .limit = measured ? tune_work_limit(&walk->work) : LIMIT_NONE,
        .limit_rate = measured ? walk->times.limit_rate : 0,
        .code_bytes = candidate->code_bytes,
        .measured = now_in_microseconds() + i,
        .environment = (char *)tuning->environment,
    };
    bool done = database_add(tuning->database, &walk->key, &result, error) &&
                (search_tell(walk->search, &walk->points[i], candidate->outcome,
                             measured ? 1 / speed : 0, result.sample_count) ||
                 out_of_memory(error));
    *(measured ? &tuning->measured : &tuning->failed) += 1;
    report_candidate(walk, &result, speed);
    text_free(&name);
    return done;
}

static bool answer(struct walk *walk, struct error *error) {
    int places[MOST_CANDIDATES];
    bool done = candidates_build(walk->candidates, walk->count, (int)walk->tuning->jobs, error) &&
                !interrupted && check_all(walk, error) && !interrupted;
    if (done)
        race(walk, places);
    for (int i = 0; done && i < walk->count; i++)
        done = keep(walk, i, places[i], error);
    for (int i = 0; i < walk->count; i++)
        candidate_close(&walk->candidates[i]);
    return done;
}

static bool tune_item(struct tuning *tuning, const struct work_item *item, double seconds,
                      struct error *error) {
    static struct walk walk;
    walk = (struct walk){.tuning = tuning, .item = item};
    error->exit_code = 0;
    if (!tuning->json)
        printf("%s, %s\n", item->symbol, item->problem);
    bool done = open_walk(&walk, seconds, error);
    while (done && !interrupted && ask(&walk, error))
        done = answer(&walk, error);
    close_walk(&walk);
    if (!tuning->json && walk.best > 0)
        printf("  best of these: %.3f of the preset's speed\n", walk.best);
    return error->exit_code == 0 || interrupted;
}

/* ---- All of it ---- */

static double clock_now(void *clock) {
    (void)clock;
    return timer_now();
}

/* Each work gets its share of what is left. */
static bool tune_all(struct tuning *tuning, struct error *error) {
    static struct work_list list;
    if (!list_work(tuning, &list, error))
        return false;
    for (int i = 0; i < list.count && !interrupted; i++) {
        double left = tuning->end - timer_now();
        if (left > 0 && !tune_item(tuning, &list.items[i], left / (list.count - i), error))
            return false;
    }
    if (!tuning->json)
        printf("%" PRId64 " candidates measured, %" PRId64 " failed%s\n", tuning->measured,
               tuning->failed, interrupted ? "; the same command goes on" : "");
    return !interrupted || fail(error, 128 + interrupted, "interrupted; what was measured is kept");
}

static void warn(const struct environment *environment, int threads) {
    struct remark remarks[MOST_REMARKS];
    int count = environment_remarks(environment, threads, remarks);
    for (int i = 0; i < count; i++)
        fprintf(stderr, "kvmill tune: %s: %s\n", grade_word(remarks[i].grade), remarks[i].text);
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

static bool read_options(const struct options *given, struct tuning *tuning, struct error *error) {
    long seed = 1, samples = 27, evaluations = 0;
    double seconds = 600;
    const char *budget = option_value(given, "budget"), *progress = option_value(given, "progress");
    tuning->jobs = sysconf(_SC_NPROCESSORS_ONLN);
    tuning->threads = 1;
    tuning->patience = 60;
    tuning->json = progress != NULL && strcmp(progress, "json") == 0;
    if (progress != NULL && !tuning->json && strcmp(progress, "text") != 0)
        return fail(error, EXIT_USER, "--progress is \"%s\"; accepted: text, json", progress);
    bool done = (budget == NULL || read_budget(budget, &seconds, error)) &&
                option_integer(given, "jobs", 1, 256, &tuning->jobs, error) &&
                option_integer(given, "threads", 1, 256, &tuning->threads, error) &&
                option_integer(given, "seed", 0, 1000000000, &seed, error) &&
                option_integer(given, "samples", 6, MOST_SAMPLES, &samples, error) &&
                option_integer(given, "evaluations", 1, 1000000, &evaluations, error) &&
                option_integer(given, "patience", 1, 3600, &tuning->patience, error);
    tuning->end = timer_now() + seconds;
    tuning->search = (struct search_options){.strategy = option_value(given, "strategy"),
                                             .seed = (uint64_t)seed,
                                             .samples = (int)samples,
                                             .evaluations = evaluations,
                                             .now = clock_now};
    return done;
}

static bool open_tuning(const struct options *given, struct tuning *tuning, struct error *error) {
    const char *path = option_value(given, "db");
    if (path == NULL || *path == '\0')
        return fail(error, EXIT_USER, "kvmill tune: no database; accepted: --db DB");
    if (!read_options(given, tuning, error) || !inputs_read(given, NULL, &tuning->inputs, error) ||
        !machine_read(&tuning->machine, error))
        return false;
    tuning->database = database_open(path, DATABASE_CREATE, error);
    return tuning->database != NULL && database_read(tuning->database, &tuning->known, error) &&
           built_pack_make(&tuning->inputs.pack, &tuning->base, error);
}

static bool tune(const struct options *given, struct error *error) {
    static struct tuning tuning;
    struct environment environment;
    struct text words = {0};
    struct sigaction action = {.sa_handler = interrupt};
    environment_read("", &environment);
    bool done = open_tuning(given, &tuning, error) &&
                (environment_print(&environment, &words) || out_of_memory(error));
    tuning.environment = words.data;
    if (done) {
        warn(&environment, (int)tuning.threads);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        done = tune_all(&tuning, error);
    }
    database_close(tuning.database);
    sweeps_free(&tuning.known);
    built_pack_free(&tuning.base);
    inputs_free(&tuning.inputs);
    text_free(&words);
    return done;
}

const struct command tune_command = {
    .name = "tune",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options] --db DB",
    .summary = "Measure what kernels leave open, and keep the results.",
    .options = options,
    .run = tune,
};
