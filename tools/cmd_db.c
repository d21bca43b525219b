/* kvmill db: works on tuning databases without measuring: export, import, merge, diff, verify,
   prune, simulate.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/output.h"
#include "../base/text.h"
#include "../gen/families.h"
#include "../tune/assignment.h"
#include "../tune/database.h"
#include "../tune/machine.h"
#include "../tune/ranking.h"
#include "../tune/sweep_name.h"
#include "../tune/sweep_text.h"
#include "commands.h"
#include "db_diff.h"
#include "db_simulate.h"

static const struct option_help options[] = {
    {"db", "DB", "the database", &file_values},
    {"o", "FILE", "export: write to FILE instead of standard output", &file_values},
    {"winners", NULL, "export: only the defaults and the winners", NULL},
    {"any-cpu", NULL, "import, merge: allow results of several CPUs", NULL},
    {"foreign", NULL, "prune: results of CPUs other than this machine's", NULL},
    {"stale", NULL, "prune: results with other templates, compilers or flags", NULL},
    {"failed", NULL, "prune: results of candidates that failed", NULL},
    {"superseded", NULL, "prune: results replaced by a later or longer measurement", NULL},
    {"dry-run", NULL, "import, merge, prune: only say what would happen", NULL},
    {"within", "PERCENT", "simulate: how close to the best is good enough (default 2)", NULL},
    {"seeds", "N", "simulate: number of runs (default 20)", NULL},
    {NULL, NULL, NULL, NULL},
};

/* ---- Arguments ---- */

static bool get_database(const struct options *given, const char **path, struct error *error) {
    *path = option_value(given, "db");
    return (*path != NULL && **path != '\0') ||
           fail(error, EXIT_USER, "kvmill db %s: no --db; accepted: --db DB", given->rest[0]);
}

/* Refuses the arguments after the action unless there are `least` to `most` of them. */
static bool check_files(const struct options *given, int least, int most, const char *accepted,
                        struct error *error) {
    int files = given->rest_count - 1;
    return (files >= least && files <= most) ||
           fail(error, EXIT_USER, "kvmill db %s: %d files; accepted: %s", given->rest[0], files,
                accepted);
}

static bool read_database(const struct options *given, struct sweeps *sweeps, struct error *error) {
    const char *path;
    return check_files(given, 0, 0, "none but --db", error) && get_database(given, &path, error) &&
           sweeps_read_file(path, sweeps, error);
}

static size_t count_results(const struct sweeps *sweeps) {
    size_t count = 0;
    for (size_t i = 0; i < sweeps->count; i++)
        count += sweeps->items[i].count;
    return count;
}

/* ---- Selecting results ---- */

/* Whether a result is wanted.  The ranking contains its candidate. */
typedef bool wanted(const struct ranking *ranking, const struct sweep_result *result,
                    const void *context);

static bool add_wanted(const struct sweep *sweep, wanted *is_wanted, const void *context,
                       struct sweeps *some, struct error *error) {
    struct ranking ranking;
    bool done = sweep_rank(sweep, &ranking, error);
    for (size_t i = 0; done && i < sweep->count; i++)
        if (is_wanted(&ranking, &sweep->results[i], context))
            done = sweeps_add(some, &sweep->key, &sweep->results[i], error);
    ranking_free(&ranking);
    return done;
}

/* ---- export ---- */

static bool is_taken(const struct assignments *assignments, const char *candidate) {
    for (int i = 0; i < assignments->count; i++)
        if (assignments->items[i].taken != NULL &&
            strcmp(assignments->items[i].taken->result->candidate, candidate) == 0)
            return true;
    return false;
}

/* Whether a result is the default, the winner, or the candidate that a pack uses for a problem of
   the kernel. */
static bool is_winner(const struct ranking *ranking, const struct sweep_result *result,
                      const void *assignments) {
    for (int i = 0; ranking->winner >= 0 && i < (int)ranking->count; i++)
        if (ranking->items[i].result == result)
            return i == 0 || i == ranking->winner || is_taken(assignments, result->candidate);
    return false;
}

static bool add_winners(const struct sweeps *sweeps, const struct sweep *sweep,
                        struct sweeps *winners, struct error *error) {
    struct assignments assignments;
    bool done = assignments_make(sweeps, sweep->key.spec, &assignments, error) &&
                add_wanted(sweep, is_winner, &assignments, winners, error);
    assignments_free(&assignments);
    return done;
}

static bool write_text(const struct options *given, const struct sweeps *sweeps,
                       struct error *error) {
    const char *path = option_value(given, "o");
    struct text text = {0};
    bool done = sweeps_print(sweeps, &text, error);
    if (done && path == NULL)
        put_shown(text.data, stdout);
    else if (done)
        done = output_write_file(path, &text, error);
    text_free(&text);
    return done;
}

static bool export_winners(const struct options *given, const struct sweeps *sweeps,
                           struct error *error) {
    struct sweeps winners = {0};
    bool done = true;
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = add_winners(sweeps, &sweeps->items[i], &winners, error);
    sweeps_sort(&winners);
    done = done && write_text(given, &winners, error);
    sweeps_free(&winners);
    return done;
}

static bool export(const struct options *given, struct error *error) {
    struct sweeps sweeps = {0};
    bool done = read_database(given, &sweeps, error) &&
                (option_value(given, "winners") ? export_winners(given, &sweeps, error)
                                                : write_text(given, &sweeps, error));
    sweeps_free(&sweeps);
    return done;
}

/* ---- import and merge: the same action; results come as databases or as text ---- */

static bool check_cpu(const char *file, const struct sweeps *sweeps, const char **cpu,
                      struct error *error) {
    for (size_t i = 0; i < sweeps->count; i++) {
        const char *own = sweeps->items[i].key.cpu;
        if (*cpu != NULL && strcmp(*cpu, own) != 0)
            return fail(error, EXIT_USER,
                        "%.300s: has results of \"%.120s\", others are of \"%.120s\"; --any-cpu "
                        "mixes them",
                        file, own, *cpu);
        *cpu = own;
    }
    return true;
}

/* Reads all files.  Unless --any-cpu is given, each must have the CPU of the results before it. */
static bool read_files(const struct options *given, const struct sweeps *old, struct sweeps *all,
                       struct error *error) {
    const char *cpu = NULL;
    bool done = true, mixed = option_value(given, "any-cpu") != NULL;
    if (old->count > 0)
        cpu = old->items[0].key.cpu;
    for (int i = 1; done && i < given->rest_count; i++) {
        struct sweeps sweeps;
        const char *of_all = all->count > 0 ? all->items[0].key.cpu : cpu;
        done = sweeps_read_file(given->rest[i], &sweeps, error) &&
               (mixed || check_cpu(given->rest[i], &sweeps, &of_all, error)) &&
               sweeps_add_all(all, &sweeps, error);
        sweeps_free(&sweeps);
    }
    return done;
}

static bool add_files(const struct options *given, struct database *database, const char *path,
                      struct error *error) {
    struct sweeps old = {0}, all = {0};
    struct additions additions = {0};
    bool dry = option_value(given, "dry-run") != NULL;
    bool done = database_read(database, &old, error) && read_files(given, &old, &all, error) &&
                (dry || database_add_all(database, &all, &additions, error));
    if (done && dry)
        print_shown(stdout, "%s: %zu results would be added, except those it already has\n", path,
                    count_results(&all));
    else if (done)
        print_shown(stdout, "%s: %" PRId64 " results added, %" PRId64 " were already there\n", path,
                    additions.added, additions.known);
    sweeps_free(&old);
    sweeps_free(&all);
    return done;
}

static bool import(const struct options *given, struct error *error) {
    const char *path;
    if (!check_files(given, 1, 1000, "one or more databases or exports", error) ||
        !get_database(given, &path, error))
        return false;
    struct database *database = database_open(path, DATABASE_CREATE, error);
    bool done = database != NULL && add_files(given, database, path, error);
    database_close(database);
    return done;
}

/* ---- diff ---- */

static bool diff(const struct options *given, struct error *error) {
    struct sweeps first = {0}, second = {0};
    bool done = check_files(given, 2, 2, "two databases or exports", error) &&
                sweeps_read_file(given->rest[1], &first, error) &&
                sweeps_read_file(given->rest[2], &second, error) &&
                db_print_differences(&first, &second, error);
    sweeps_free(&first);
    sweeps_free(&second);
    return done;
}

/* ---- verify ---- */

static void print_machine(const struct machine *machine) {
    print_shown(stdout, "cpu %s\ncompiler %s\nflags %s\ntemplates %s\n", machine->cpu,
                machine->compiler, machine->flags, machine->templates);
    for (size_t i = 0; i < MOST_FAMILIES && family_at(i) != NULL; i++)
        print_shown(stdout, "%s templates %s\n", family_at(i)->name, machine->family_templates[i]);
}

static bool print_fits(const char *path, const size_t results[MISFITS], struct error *error) {
    size_t refused = 0;
    for (enum misfit misfit = FITS; misfit < MISFITS; misfit++)
        if (results[misfit] > 0) {
            print_shown(stdout, "%zu results: %s\n", results[misfit], misfit_words(misfit));
            refused += misfit != FITS ? results[misfit] : 0;
        }
    return refused == 0 ||
           fail(
               error, EXIT_USER,
               "%.500s: %zu results are not valid on this machine and are refused; accepted: those "
               "of its CPU, compiler, flags and templates; `kvmill db prune` removes others",
               path, refused);
}

static bool check_pages(const char *path, struct error *error) {
    bool is;
    if (!is_database(path, &is, error))
        return false;
    if (!is)
        return true;
    struct database *database = database_open(path, DATABASE_READ, error);
    bool done = database != NULL && database_check(database, error);
    database_close(database);
    return done;
}

static bool verify(const struct options *given, struct error *error) {
    struct sweeps sweeps = {0};
    struct machine machine;
    size_t results[MISFITS];
    bool done = read_database(given, &sweeps, error) &&
                check_pages(option_value(given, "db"), error) && machine_read(&machine, error);
    if (done) {
        print_shown(stdout, "%zu results in %zu sweeps: whole\n\nhere:\n", count_results(&sweeps),
                    sweeps.count);
        print_machine(&machine);
        print_shown(stdout, "\n");
        machine_filter(&machine, 0, &sweeps, results);
        done = print_fits(option_value(given, "db"), results, error);
    }
    sweeps_free(&sweeps);
    return done;
}

/* ---- prune ---- */

struct pruning {
    bool foreign, stale, failed, superseded;
    struct machine machine;
    const struct sweep_key *key; /* the key of the current sweep */
};

static bool is_misfit(const struct pruning *pruning) {
    enum misfit misfit = machine_misfit(&pruning->machine, pruning->key);
    return misfit == FOREIGN_CPU ? pruning->foreign : misfit != FITS && pruning->stale;
}

static bool counts(const struct ranking *ranking, const struct sweep_result *result) {
    for (size_t i = 0; i < ranking->count; i++)
        if (ranking->items[i].result == result)
            return true;
    return false;
}

static bool is_pruned(const struct ranking *ranking, const struct sweep_result *result,
                      const void *context) {
    const struct pruning *pruning = context;
    return is_misfit(pruning) || (pruning->failed && result->outcome != OUTCOME_MEASURED) ||
           (pruning->superseded && !counts(ranking, result));
}

static bool read_pruning(const struct options *given, struct pruning *pruning,
                         struct error *error) {
    *pruning = (struct pruning){.foreign = option_value(given, "foreign"),
                                .stale = option_value(given, "stale"),
                                .failed = option_value(given, "failed"),
                                .superseded = option_value(given, "superseded")};
    if (!pruning->foreign && !pruning->stale && !pruning->failed && !pruning->superseded)
        return fail(error, EXIT_USER,
                    "kvmill db prune: nothing to remove; accepted: one or more of "
                    "--foreign, --stale, --failed, --superseded");
    return machine_read(&pruning->machine, error);
}

static bool select_pruned(const struct sweeps *sweeps, struct pruning *pruning,
                          struct sweeps *pruned, struct error *error) {
    bool done = true;
    *pruned = (struct sweeps){0};
    for (size_t i = 0; done && i < sweeps->count; i++) {
        pruning->key = &sweeps->items[i].key;
        done = add_wanted(&sweeps->items[i], is_pruned, pruning, pruned, error);
    }
    return done;
}

static bool prune_database(const struct options *given, struct pruning *pruning,
                           struct database *database, struct error *error) {
    struct sweeps sweeps = {0}, pruned = {0};
    bool dry = option_value(given, "dry-run") != NULL;
    bool done = database_read(database, &sweeps, error) &&
                select_pruned(&sweeps, pruning, &pruned, error) &&
                (dry || database_remove_all(database, &pruned, error));
    if (done)
        print_shown(stdout, "%s: %zu of %zu results %s\n", option_value(given, "db"),
                    count_results(&pruned), count_results(&sweeps),
                    dry ? "would be removed" : "removed");
    sweeps_free(&sweeps);
    sweeps_free(&pruned);
    return done;
}

static bool prune(const struct options *given, struct error *error) {
    const char *path;
    struct pruning pruning;
    if (!check_files(given, 0, 0, "none but --db", error) || !get_database(given, &path, error) ||
        !read_pruning(given, &pruning, error))
        return false;
    struct database *database = database_open(path, DATABASE_WRITE, error);
    bool done = database != NULL && prune_database(given, &pruning, database, error);
    database_close(database);
    return done;
}

/* ---- simulate ---- */

static bool simulate_all(const struct options *given, struct error *error) {
    long percent = 2, seeds = 20;
    struct sweeps sweeps = {0};
    bool done = option_integer(given, "within", 0, 100, &percent, error) &&
                option_integer(given, "seeds", 1, 1000, &seeds, error) &&
                read_database(given, &sweeps, error) &&
                db_simulate(&sweeps, percent, (int)seeds, error);
    sweeps_free(&sweeps);
    return done;
}

/* ---- The command ---- */

static const struct {
    const char *name;
    bool (*run)(const struct options *given, struct error *error);
} actions[] = {
    {"export", export}, {"import", import}, {"merge", import},          {"diff", diff},
    {"verify", verify}, {"prune", prune},   {"simulate", simulate_all},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static bool print_actions(FILE *stream, struct error *error) {
    (void)error;
    for (int i = 0; i < ACTIONS; i++)
        print_shown(stream, "%s ", actions[i].name);
    return true;
}

const struct values action_values = {.name = "actions", .places = FILES, .print = print_actions};

#define ACTION_NAMES "export, import, merge, diff, verify, prune, simulate"

static bool db(const struct options *given, struct error *error) {
    const char *names[ACTIONS + 1] = {NULL};
    if (given->rest_count == 0)
        return fail(error, EXIT_USER, "kvmill db: no action; accepted: " ACTION_NAMES);
    const char *word = given->rest[0];
    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(actions[i].name, word) == 0)
            return actions[i].run(given, error);
        names[i] = actions[i].name;
    }
    char suggestion[SUGGESTION_SIZE];
    suggest_word(word, names, suggestion);
    return fail(error, EXIT_USER, "kvmill db: \"%.40s\"; %saccepted: " ACTION_NAMES, word,
                suggestion);
}

const struct command db_command = {
    .name = "db",
    .synopsis = "export|verify|prune|simulate --db DB [options]\n"
                "       kvmill db import|merge --db DB FILE...\n"
                "       kvmill db diff FILE FILE",
    .summary = "Export, import, merge, compare, check and prune tuning databases.",
    .options = options,
    .arguments = &action_values,
    .run = db,
};
