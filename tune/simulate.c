/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate.h"

#include <stdlib.h>

static double clock_of(void *replay) {
    return ((struct replay *)replay)->seconds;
}

/* Returns the time relative to the default in the same run, from the first samples, or from the
   whole sweep if they had no common run.  Returns 0 if out of memory. */
static double cost_of(const struct standing *standing, int samples) {
    const struct sweep_result *result = standing->result;
    struct summary ratio = standing->gain;
    if (samples > result->sample_count)
        samples = result->sample_count;
    if (result->baseline != NULL &&
        !summarise_ratio(result->baseline, result->samples, samples, 1, &ratio))
        return 0;
    return 1 / ratio.median;
}

/* Returns a candidate's time relative to the best, from the whole sweep. */
static double slowdown_of(const struct standing *best, const struct standing *standing) {
    return best->gain.median / standing->gain.median;
}

static const struct standing *find_best(const struct ranking *ranking) {
    const struct standing *best = NULL;
    for (size_t i = 0; i < ranking->count; i++)
        if (ranking->items[i].gain.median > 0 &&
            (best == NULL || ranking->items[i].gain.median > best->gain.median))
            best = &ranking->items[i];
    return best;
}

struct player {
    const struct sweep_space *space;
    const struct standing *best;
    const struct replay_options *options;
    struct search *search;
    struct replay *replay;
};

static bool tell(struct player *player, const struct question *question) {
    const struct standing *standing = sweep_space_at(player->space, &question->point);
    bool measured = standing->time.count > 0;
    double cost = measured ? cost_of(standing, question->samples) : 0;
    player->replay->all++;
    player->replay->seconds +=
        player->options->build_seconds + question->samples * standing->time.median;
    if (measured && player->replay->evaluations == 0 &&
        slowdown_of(player->best, standing) <= 1 + player->options->within)
        player->replay->evaluations = player->replay->all;
    return (cost > 0 || !measured) &&
           search_tell(player->search, &question->point, standing->result->outcome, cost,
                       question->samples);
}

static bool play(struct player *player, struct error *error) {
    struct question question;
    struct point found;
    enum answer answer;
    while ((answer = search_ask(player->search, &question)) == ANSWER_POINT)
        if (!tell(player, &question))
            return out_of_memory(error);
    if (answer == ANSWER_NO_MEMORY)
        return out_of_memory(error);
    if (search_best(player->search, &found))
        player->replay->slowdown = slowdown_of(player->best, sweep_space_at(player->space, &found));
    return true;
}

bool simulate(const struct ranking *ranking, const struct sweep_space *space,
              const struct replay_options *options, struct replay *replay, struct error *error) {
    struct search_options search_options = {.strategy = options->strategy,
                                            .seed = options->seed,
                                            .evaluations = options->evaluations,
                                            .seconds = options->seconds,
                                            .now = clock_of,
                                            .clock = replay};
    struct player player = {space, find_best(ranking), options, NULL, replay};
    *replay = (struct replay){0};
    if (!ranking_has_default(ranking))
        return fail(error, EXIT_USER, "a sweep without a measured default cannot be replayed");
    player.search = search_open(sweep_space_of(space), &search_options, error);
    bool done = player.search != NULL && play(&player, error);
    search_close(player.search);
    return done;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void note(const struct replay *replay, int64_t *evaluations, struct comparison *comparison) {
    *evaluations = replay->evaluations > 0 ? replay->evaluations : replay->all;
    comparison->misses += replay->evaluations == 0;
    if (replay->slowdown > comparison->slowdown)
        comparison->slowdown = replay->slowdown;
}

bool simulate_seeds(const struct ranking *ranking, const struct sweep_space *space,
                    const struct replay_options *options, int seeds, struct comparison *comparison,
                    struct error *error) {
    struct replay_options each = *options;
    struct replay replay;
    int64_t *evaluations = malloc((size_t)seeds * sizeof *evaluations);
    bool done = evaluations != NULL || out_of_memory(error);
    *comparison = (struct comparison){0};
    for (int i = 0; done && i < seeds; i++) {
        each.seed = (uint64_t)i + 1;
        done = simulate(ranking, space, &each, &replay, error);
        if (done)
            note(&replay, &evaluations[i], comparison);
    }
    if (done) {
        qsort(evaluations, (size_t)seeds, sizeof *evaluations, compare);
        comparison->median = evaluations[seeds / 2];
        comparison->worst = evaluations[seeds - 1];
    }
    free(evaluations);
    return done;
}
