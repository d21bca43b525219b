/* A search: its trials, what it asks for, and what it was told.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "strategy_kind.h"

enum { FULL_SAMPLES = 27 };

/* ---- Opening ---- */

static void begin(struct search *search, const struct space *space,
                  const struct strategy_kind *kind, const struct search_options *options) {
    *search =
        (struct search){.space = space, .kind = kind, .options = *options, .random = options->seed};
    if (search->options.samples == 0)
        search->options.samples = FULL_SAMPLES;
    if (options->seconds > 0)
        search->start = options->now(options->clock);
    search->at.here = space_default(space);
}

struct search *search_begin(const struct space *space, const struct strategy_kind *kind,
                            const struct search_options *options, struct error *error) {
    struct search *search = malloc(sizeof *search);
    if (search == NULL) {
        out_of_memory(error);
        return NULL;
    }
    begin(search, space, kind, options);
    return search;
}

void search_close(struct search *search) {
    if (search != NULL)
        free(search->trials);
    free(search);
}

/* ---- Trials ---- */

struct trial *search_find(const struct search *search, const struct point *point) {
    for (size_t i = 0; i < search->count; i++)
        if (points_equal(&search->trials[i].point, point))
            return &search->trials[i];
    return NULL;
}

bool trial_is_measured(const struct trial *trial) {
    return trial->state == TRIAL_TOLD && trial->outcome == OUTCOME_MEASURED;
}

static bool make_room(struct search *search) {
    if (search->count < search->room)
        return true;
    size_t room = 2 * search->room + BATCH;
    struct trial *grown = realloc(search->trials, room * sizeof *grown);
    if (grown == NULL)
        return false;
    search->trials = grown;
    search->room = room;
    return true;
}

/* Returns a new trial, or NULL if out of memory. */
static struct trial *add_trial(struct search *search, const struct point *point) {
    if (!make_room(search)) {
        search->no_memory = true;
        return NULL;
    }
    struct trial *trial = &search->trials[search->count++];
    *trial = (struct trial){.point = *point, .state = TRIAL_TOLD};
    return trial;
}

static bool is_known(const struct trial *trial, int samples) {
    return trial->samples >= samples || (trial->samples > 0 && trial->outcome != OUTCOME_MEASURED);
}

void search_want(struct search *search, const struct point *point, int samples) {
    struct trial *trial = search_find(search, point);
    if (trial == NULL)
        trial = add_trial(search, point);
    if (trial == NULL || trial->state != TRIAL_TOLD)
        return;
    trial->wanted = samples;
    if (is_known(trial, samples))
        return;
    size_t index = (size_t)(trial - search->trials);
    trial->state = TRIAL_WAITS;
    if (index < search->waiting)
        search->waiting = index;
}

/* Whether this search has not asked for a point.  Results of an earlier run do not count, so that
   this search takes the same path. */
static bool is_fresh(const struct search *search, const struct point *point) {
    const struct trial *trial = search_find(search, point);
    return trial == NULL || trial->wanted == 0;
}

static bool first_fresh(struct search *search, struct point *point) {
    for (bool more = space_first(search->space, point); more;
         more = space_next(search->space, point))
        if (is_fresh(search, point))
            return true;
    return false;
}

bool search_fresh(struct search *search, struct point *point) {
    enum { TRIES = 64 };
    for (int try = 0; try < TRIES; try++) {
        *point = space_random(search->space, &search->random);
        if (is_fresh(search, point))
            return true;
    }
    return first_fresh(search, point);
}

/* ---- Asking ---- */

static struct trial *next_waiting(struct search *search) {
    for (; search->waiting < search->count; search->waiting++)
        if (search->trials[search->waiting].state == TRIAL_WAITS)
            return &search->trials[search->waiting];
    return NULL;
}

bool search_has_questions(struct search *search) {
    return next_waiting(search) != NULL;
}

bool search_has_enough(const struct search *search) {
    int64_t most = search->options.evaluations;
    return most > 0 && search->evaluations >= most;
}

static bool budget_is_spent(const struct search *search) {
    const struct search_options *options = &search->options;
    return search_has_enough(search) ||
           (options->seconds > 0 &&
            options->now(options->clock) - search->start >= options->seconds);
}

/* Finds questions when no results are outstanding.  Returns false if the search is over.  Asks for
   the default first, because every other point is compared with it. */
static bool find_questions(struct search *search) {
    struct point first = space_default(search->space);
    search_want(search, &first, search->options.samples);
    while (!search_has_questions(search) && !search->no_memory)
        if (!search->kind->advance(search))
            return false;
    return !search->no_memory;
}

static bool is_default(const struct search *search, const struct trial *trial) {
    struct point first = space_default(search->space);
    return points_equal(&trial->point, &first);
}

static enum answer ask_for(struct search *search, struct trial *trial, struct question *question) {
    if (budget_is_spent(search) && !is_default(search, trial))
        return search->under_way > 0 ? ANSWER_WAIT : ANSWER_EXPIRED;
    trial->state = TRIAL_UNDER_WAY;
    search->under_way++;
    search->evaluations++;
    *question = (struct question){trial->point, trial->wanted};
    return ANSWER_POINT;
}

enum answer search_ask(struct search *search, struct question *question) {
    struct trial *trial = next_waiting(search);
    if (trial == NULL && search->under_way > 0)
        return ANSWER_WAIT;
    if (trial == NULL && !find_questions(search))
        return search->no_memory ? ANSWER_NO_MEMORY : ANSWER_DONE;
    return ask_for(search, next_waiting(search), question);
}

/* ---- Telling ---- */

static void note(struct search *search, struct trial *trial, enum outcome outcome, double cost,
                 int samples) {
    if (trial->state == TRIAL_UNDER_WAY)
        search->under_way--;
    else
        search->evaluations++;
    trial->state = TRIAL_TOLD;
    trial->outcome = outcome;
    trial->cost = cost;
    trial->samples = samples > 0 ? samples : 1;
}

bool search_tell(struct search *search, const struct point *point, enum outcome outcome,
                 double cost, int samples) {
    struct trial *trial = search_find(search, point);
    if (trial == NULL)
        trial = add_trial(search, point);
    if (trial == NULL)
        return false;
    note(search, trial, outcome, cost, samples);
    return true;
}

/* Returns a trial's number of samples, at most that of a full measurement: more are not better. */
static int worth(const struct search *search, const struct trial *trial) {
    int full = search->options.samples;
    return trial->samples < full ? trial->samples : full;
}

static bool is_better(const struct search *search, const struct trial *a, const struct trial *b) {
    int first = worth(search, a), second = worth(search, b);
    return first != second ? first > second : a->cost < b->cost;
}

bool search_best(const struct search *search, struct point *best) {
    const struct trial *found = NULL;
    for (size_t i = 0; i < search->count; i++)
        if (trial_is_measured(&search->trials[i]) &&
            (found == NULL || is_better(search, &search->trials[i], found)))
            found = &search->trials[i];
    if (found != NULL)
        *best = found->point;
    return found != NULL;
}

int search_samples(const struct search *search) {
    return search->options.samples;
}
