/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_lead.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvmill.h>

#include "../base/text.h"
#include "../base/timer.h"
#include "../tune/sweep_text.h"
#include "tune_follow.h"

/* Seconds: how often to check for lost ranks; the pause before a follower without work asks again;
   and how long a rank on another machine may be silent, in addition to the check of a candidate. */
static const double look_every = 0.2, ask_again = 0.3, silence = 120;

enum task_state { TASK_OPEN, TASK_TAKEN, TASK_DONE };

/* A kernel and a problem, for one kind of machine. */
struct task {
    char *symbol, *problem;
    enum task_state state;
    struct tune_standing standing;
};

/* A kind of machine: results of the same kind may be compared. */
struct kind {
    struct machine machine;
    struct task *tasks; /* in the order of each follower's items */
    int count;
};

enum follower_state { FOLLOWER_STARTS, FOLLOWER_WORKS, FOLLOWER_LOST, FOLLOWER_ENDED };

struct follower {
    enum follower_state state;
    int rank;
    char *place; /* NULL before its first message */
    pid_t process;
    struct kind *kind;
    struct task *task;
    double heard, waited; /* time of the last message; seconds spent waiting for turns */
};

struct lead {
    const struct lead_setting *setting;
    struct follower *followers; /* by rank; the first has only a place */
    struct kind **kinds;
    int kind_count;
    bool failed;
    struct error why; /* the last unexpected end of a follower */
};

/* ---- Kinds and their tasks ---- */

static void free_kind(struct kind *kind) {
    if (kind == NULL)
        return;
    for (int i = 0; kind->tasks != NULL && i < kind->count; i++) {
        free(kind->tasks[i].symbol);
        free(kind->tasks[i].problem);
    }
    free(kind->tasks);
    free(kind);
}

static bool set_task(struct task *task, json_t *item) {
    const char *symbol, *problem;
    if (json_unpack(item, "[s, s]", &symbol, &problem) != 0)
        return false;
    task->symbol = strdup(symbol);
    task->problem = strdup(problem);
    task->standing = (struct tune_standing){.symbol = task->symbol, .problem = task->problem};
    return task->symbol != NULL && task->problem != NULL;
}

/* Returns the kind of a follower's offer, or NULL if out of memory, or if the offer is
   malformed. */
static struct kind *read_kind(json_t *offer) {
    const char *cpu, *compiler, *flags, *templates;
    json_t *items;
    struct kind *kind = calloc(1, sizeof *kind);
    if (kind == NULL ||
        json_unpack(offer, "{s:s, s:s, s:s, s:s, s:o}", "cpu", &cpu, "compiler", &compiler, "flags",
                    &flags, "templates", &templates, "items", &items) != 0) {
        free(kind);
        return NULL;
    }
    struct machine *machine = &kind->machine;
    snprintf(machine->cpu, sizeof machine->cpu, "%s", cpu);
    snprintf(machine->compiler, sizeof machine->compiler, "%s", compiler);
    snprintf(machine->flags, sizeof machine->flags, "%s", flags);
    snprintf(machine->templates, sizeof machine->templates, "%s", templates);
    kind->count = (int)json_array_size(items);
    kind->tasks = calloc((size_t)kind->count + 1, sizeof *kind->tasks);
    bool done = kind->tasks != NULL;
    for (int i = 0; done && i < kind->count; i++)
        done = set_task(&kind->tasks[i], json_array_get(items, (size_t)i));
    if (done)
        return kind;
    free_kind(kind);
    return NULL;
}

/* Whether kinds are equal.  Their items count, too: in a virtual machine the same CPU may have
   fewer instruction sets, and so other kernels. */
static bool kinds_are_alike(const struct kind *a, const struct kind *b) {
    bool alike = strcmp(a->machine.cpu, b->machine.cpu) == 0 &&
                 strcmp(a->machine.compiler, b->machine.compiler) == 0 &&
                 strcmp(a->machine.flags, b->machine.flags) == 0 && a->count == b->count;
    for (int i = 0; alike && i < a->count; i++)
        alike = strcmp(a->tasks[i].symbol, b->tasks[i].symbol) == 0 &&
                strcmp(a->tasks[i].problem, b->tasks[i].problem) == 0;
    return alike;
}

/* Adds a kind, or frees it if an equal one is in the list.  Returns the one in the list. */
static struct kind *add_kind(struct lead *lead, struct kind *kind) {
    for (int i = 0; i < lead->kind_count; i++)
        if (kinds_are_alike(lead->kinds[i], kind)) {
            free_kind(kind);
            return lead->kinds[i];
        }
    lead->kinds[lead->kind_count++] = kind;
    return kind;
}

static struct task *find_task(const struct kind *kind, const struct sweep_key *key) {
    for (int i = 0; kind != NULL && i < kind->count; i++)
        if (strcmp(kind->tasks[i].symbol, key->spec) == 0 &&
            strcmp(kind->tasks[i].problem, key->problem) == 0)
            return &kind->tasks[i];
    return NULL;
}

static int count_tasks(const struct kind *kind, enum task_state state) {
    int count = 0;
    for (int i = 0; i < kind->count; i++)
        count += kind->tasks[i].state == state;
    return count;
}

static int count_followers(const struct lead *lead, const struct kind *kind) {
    int count = 0;
    for (int rank = 1; rank < lead->setting->ranks->count; rank++)
        count +=
            lead->followers[rank].kind == kind && lead->followers[rank].state == FOLLOWER_WORKS;
    return count;
}

/* ---- Followers that end ---- */

static void open_again(struct follower *follower) {
    if (follower->task != NULL && follower->task->state == TASK_TAKEN)
        follower->task->state = TASK_OPEN;
    follower->task = NULL;
}

/* Ends a follower.  Prints the reason, and keeps it for the final error. */
__attribute__((format(printf, 5, 6))) static void end_follower(struct lead *lead,
                                                               struct follower *follower,
                                                               enum follower_state state, int code,
                                                               const char *format, ...) {
    char words[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    const char *place = follower->place != NULL ? follower->place : "";
    fail(&lead->why, code, "rank %d on %.*s %s", follower->rank, (int)strcspn(place, " "), place,
         words);
    print_shown(stderr, "kvmill tune: %s\n", lead->why.text);
    lead->failed = true;
    open_again(follower);
    follower->state = state;
}

/* Whether a follower is on this machine. */
static bool is_here(const struct lead *lead, const struct follower *follower) {
    const char *here = lead->followers[0].place;
    return follower->place != NULL && strcmp(follower->place, here) == 0;
}

static bool is_gone(const struct lead *lead, const struct follower *follower) {
    if (is_here(lead, follower))
        return kill(follower->process, 0) != 0 && errno == ESRCH;
    double since = follower->heard, end = lead->setting->progress->end;
    if (follower->state == FOLLOWER_STARTS && since < end)
        since = end; /* it is building the pack */
    return timer_now() > since + silence + lead->setting->patience;
}

static bool is_active(const struct follower *follower) {
    return follower->state == FOLLOWER_STARTS || follower->state == FOLLOWER_WORKS;
}

static struct task *next_task(const struct lead *lead, const struct kind *kind) {
    bool left = progress_seconds_left(lead->setting->progress) > 0;
    for (int i = 0; left && i < kind->count; i++)
        if (kind->tasks[i].state == TASK_OPEN)
            return &kind->tasks[i];
    return NULL;
}

/* Whether a follower works, or will get work at its next question. */
static bool is_busy(const struct lead *lead, const struct follower *follower) {
    return follower->state == FOLLOWER_STARTS ||
           (follower->state == FOLLOWER_WORKS &&
            (follower->task != NULL || next_task(lead, follower->kind) != NULL));
}

static void end_lost(struct lead *lead, bool *lost) {
    for (int rank = 1; rank < lead->setting->ranks->count; rank++) {
        struct follower *follower = &lead->followers[rank];
        if (is_active(follower) && is_gone(lead, follower)) {
            end_follower(lead, follower, FOLLOWER_LOST, EXIT_ENVIRONMENT,
                         "is lost; its results are kept, and the others continue%s",
                         is_here(lead, follower) ? "" : "; mpirun may wait for it without end");
            *lost = true;
        }
    }
}

/* Ends lost followers.  Returns whether any follower is busy, with what a lost one has left. */
static bool look(struct lead *lead, bool *lost) {
    bool busy = false;
    end_lost(lead, lost);
    for (int rank = 1; rank < lead->setting->ranks->count; rank++)
        busy = busy || is_busy(lead, &lead->followers[rank]);
    return busy;
}

/* ---- Messages from followers ---- */

static bool hear_greeting(struct lead *lead, struct follower *follower,
                          const struct message *message, struct error *error) {
    const char *version, *place;
    json_int_t process;
    if (json_unpack(message->head, "{s:s, s:s, s:I}", "version", &version, "place", &place,
                    "process", &process) != 0)
        return true;
    follower->place = strdup(place);
    follower->process = (pid_t)process;
    if (strcmp(version, KVMILL_VERSION) != 0)
        end_follower(lead, follower, FOLLOWER_ENDED, EXIT_USER,
                     "is refused: it is kvmill %s; accepted: %s, as rank 0", version,
                     KVMILL_VERSION);
    return follower->place != NULL || out_of_memory(error);
}

static bool hear_offer(struct lead *lead, struct follower *follower, const struct message *message,
                       struct error *error) {
    const struct machine *own = lead->setting->machine;
    struct kind *kind = read_kind(message->head);
    if (kind == NULL)
        return out_of_memory(error);
    if (strcmp(kind->machine.templates, own->templates) != 0) {
        end_follower(lead, follower, FOLLOWER_ENDED, EXIT_USER,
                     "is refused: its templates are %s; accepted: %s, as rank 0",
                     kind->machine.templates, own->templates);
        free_kind(kind);
        return true;
    }
    memcpy(kind->machine.family_templates, own->family_templates, sizeof own->family_templates);
    follower->kind = add_kind(lead, kind);
    follower->state = FOLLOWER_WORKS;
    return true;
}

static bool hear_failure(struct lead *lead, struct follower *follower,
                         const struct message *message, struct error *error) {
    int code = EXIT_ENVIRONMENT;
    (void)error;
    json_unpack(message->head, "{s:i}", "code", &code);
    end_follower(lead, follower, FOLLOWER_ENDED, code, "ends: %s", message->body);
    return true;
}

static bool hear_life(struct lead *lead, struct follower *follower, const struct message *message,
                      struct error *error) {
    (void)lead, (void)follower, (void)message, (void)error;
    return true; /* hear has noted the time */
}

/* ---- Results ---- */

/* Returns the task of a message with one result, or NULL if the result is not from the follower's
   kind of machine or tasks. */
static struct task *task_of_result(const struct follower *follower, const struct sweeps *sweeps) {
    if (follower->kind == NULL || sweeps->count != 1 || sweeps->items[0].count != 1 ||
        machine_misfit(&follower->kind->machine, &sweeps->items[0].key) != FITS)
        return NULL;
    return find_task(follower->kind, &sweeps->items[0].key);
}

static bool add_result(struct lead *lead, struct task *task, const struct sweep *sweep,
                       struct error *error) {
    const struct lead_setting *setting = lead->setting;
    return database_add(setting->database, &sweep->key, sweep->results, error) &&
           progress_add(setting->progress, &task->standing, sweep->results,
                        !sweeps_have(setting->known, &sweep->key, sweep->results->candidate),
                        error) &&
           sweeps_add(setting->known, &sweep->key, sweep->results, error);
}

static bool hear_result(struct lead *lead, struct follower *follower, const struct message *message,
                        struct error *error) {
    struct sweeps sweeps = {0};
    struct error fault = {.text = "it is not of its work"};
    struct task *task = NULL;
    bool done = true;
    if (sweeps_parse("result", message->body, &sweeps, &fault))
        task = task_of_result(follower, &sweeps);
    if (task != NULL)
        done = add_result(lead, task, &sweeps.items[0], error);
    else
        end_follower(lead, follower, FOLLOWER_ENDED, EXIT_BUG, "is refused: %s", fault.text);
    sweeps_free(&sweeps);
    return done;
}

/* ---- Work ---- */

/* Prints the known results of the task's kernel, for all machines and problems: a follower selects
   its own by key. */
static bool print_known(const struct lead *lead, const struct task *task, struct text *text,
                        struct error *error) {
    const struct sweeps *known = lead->setting->known;
    struct sweeps chosen = {calloc(known->count + 1, sizeof *known->items), 0};
    if (chosen.items == NULL)
        return out_of_memory(error);
    for (size_t i = 0; i < known->count; i++)
        if (strcmp(known->items[i].key.spec, task->symbol) == 0)
            chosen.items[chosen.count++] = known->items[i];
    sweeps_sort(&chosen);
    bool done = sweeps_print(&chosen, text, error);
    free(chosen.items); /* `known` owns the sweeps */
    return done;
}

/* Returns the time for a task: the time left, divided by the rounds that the open tasks need. */
static double seconds_for_task(const struct lead *lead, const struct kind *kind) {
    int tasks = count_tasks(kind, TASK_OPEN), followers = count_followers(lead, kind);
    int rounds = (tasks + followers - 1) / followers;
    return progress_seconds_left(lead->setting->progress) / rounds;
}

static bool give(struct lead *lead, struct follower *follower, struct task *task,
                 struct error *error) {
    struct error unreachable;
    struct text known = {0};
    double seconds = seconds_for_task(lead, follower->kind);
    if (!print_known(lead, task, &known, error))
        return false;
    task->state = TASK_TAKEN;
    task->standing.rank = follower->rank;
    follower->task = task;
    progress_begin(lead->setting->progress, &task->standing);
    json_t *head =
        json_pack("{s:i, s:f}", "item", (int)(task - follower->kind->tasks), "seconds", seconds);
    if (!ranks_send(lead->setting->ranks, follower->rank, head, known.data, &unreachable))
        end_follower(lead, follower, FOLLOWER_LOST, EXIT_ENVIRONMENT, "is lost");
    text_free(&known);
    return true;
}

static void finish_task(struct lead *lead, struct follower *follower, json_t *question) {
    struct task *task = follower->task;
    follower->task = NULL;
    if (task == NULL || task->state == TASK_DONE)
        return;
    task->state = TASK_DONE;
    tune_tally_get(question, &task->standing.tally);
    progress_end(lead->setting->progress, &task->standing);
}

/* Answers a question.  A follower without work asks again, because the work of a lost rank becomes
   open again.  All followers stay to the end: with MPI, a rank that ends early waits actively. */
static bool hear_question(struct lead *lead, struct follower *follower,
                          const struct message *message, struct error *error) {
    struct error ignored;
    json_unpack(message->head, "{s:F}", "waited", &follower->waited);
    finish_task(lead, follower, message->head);
    struct task *task = follower->state == FOLLOWER_WORKS ? next_task(lead, follower->kind) : NULL;
    if (task != NULL)
        return give(lead, follower, task, error);
    ranks_send(lead->setting->ranks, follower->rank,
               json_pack("{s:i, s:f}", "item", -1, "seconds", ask_again), NULL, &ignored);
    return true;
}

/* ---- The run ---- */

static const struct {
    const char *is;
    bool (*hear)(struct lead *lead, struct follower *follower, const struct message *message,
                 struct error *error);
} kinds_of_message[] = {
    {"greeting", hear_greeting}, {"offer", hear_offer}, {"question", hear_question},
    {"result", hear_result},     {"life", hear_life},   {"failure", hear_failure},
};

/* Handles a message.  A follower that was counted as lost takes part again. */
static bool hear(struct lead *lead, const struct message *message, struct error *error) {
    struct follower *follower = &lead->followers[message->from];
    const char *is = json_string_value(json_object_get(message->head, "is"));
    follower->heard = timer_now();
    if (follower->state == FOLLOWER_LOST)
        follower->state = follower->kind != NULL ? FOLLOWER_WORKS : FOLLOWER_STARTS;
    if (is == NULL || (follower->state == FOLLOWER_ENDED && strcmp(is, "question") != 0))
        return true;
    for (size_t i = 0; i < sizeof kinds_of_message / sizeof *kinds_of_message; i++)
        if (strcmp(kinds_of_message[i].is, is) == 0)
            return kinds_of_message[i].hear(lead, follower, message, error);
    return true;
}

static bool open_lead(struct lead *lead, struct error *error) {
    int count = lead->setting->ranks->count;
    lead->followers = calloc((size_t)count, sizeof *lead->followers);
    lead->kinds = calloc((size_t)count, sizeof *lead->kinds);
    if (lead->followers == NULL || lead->kinds == NULL)
        return out_of_memory(error);
    for (int rank = 0; rank < count; rank++)
        lead->followers[rank] = (struct follower){.rank = rank, .heard = timer_now()};
    lead->followers[0].place = follow_place();
    return lead->followers[0].place != NULL || out_of_memory(error);
}

static void close_lead(struct lead *lead) {
    for (int rank = 0; lead->followers != NULL && rank < lead->setting->ranks->count; rank++)
        free(lead->followers[rank].place);
    for (int i = 0; i < lead->kind_count; i++)
        free_kind(lead->kinds[i]);
    free(lead->followers);
    free(lead->kinds);
}

static bool listen(struct lead *lead, bool *lost, struct error *error) {
    struct message message;
    bool done = true;
    while (done && *lead->setting->interrupted == 0 && look(lead, lost))
        if (ranks_receive(lead->setting->ranks, look_every, &message)) {
            done = hear(lead, &message, error);
            message_free(&message);
        }
    return done;
}

/* Fails if followers have failed and tasks are open.  Tasks that the budget did not reach are no
   failure, as with one process. */
static bool judge(const struct lead *lead, struct error *error) {
    int left = 0, all = 0;
    for (int i = 0; i < lead->kind_count; i++) {
        left += count_tasks(lead->kinds[i], TASK_OPEN);
        all += lead->kinds[i]->count;
    }
    bool done = (all > 0 && left == 0) || progress_seconds_left(lead->setting->progress) <= 0 ||
                *lead->setting->interrupted != 0 || !lead->failed;
    return done || fail(error, lead->why.exit_code,
                        "no rank is left to work: %d of %d kernels and problems are not done; the "
                        "same command goes on; the last: %.600s",
                        left, all, lead->why.text);
}

static void say_waits(const struct lead *lead) {
    double waited = 0;
    for (int rank = 1; rank < lead->setting->ranks->count; rank++)
        waited += lead->followers[rank].waited;
    if (waited >= 0.05 && !lead->setting->progress->json)
        print_shown(stdout,
                    "%.1f s of the ranks were spent waiting for others of the same machine\n",
                    waited);
}

bool tune_lead(const struct lead_setting *setting, bool *lost, struct error *error) {
    struct lead lead = {.setting = setting};
    *lost = false;
    bool done = open_lead(&lead, error) && listen(&lead, lost, error);
    for (int i = 0; i < lead.kind_count; i++)
        setting->progress->works += lead.kinds[i]->count;
    say_waits(&lead);
    done = done && judge(&lead, error);
    close_lead(&lead);
    return done;
}

void lead_dismiss(struct ranks *ranks, bool together) {
    struct error ignored;
    for (int rank = 1; rank < ranks->count; rank++)
        ranks_send(ranks, rank, json_pack("{s:b}", "together", together), NULL, &ignored);
    if (together)
        ranks_close(ranks);
}
