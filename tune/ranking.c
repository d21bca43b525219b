/* SPDX-License-Identifier: Apache-2.0 */
#include "ranking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The results that count ---- */

static bool counts_more(const struct sweep_result *a, const struct sweep_result *b) {
    return a->sample_count != b->sample_count ? a->sample_count > b->sample_count
                                              : a->measured > b->measured;
}

static struct standing *find_standing(const struct ranking *ranking, const char *candidate) {
    for (size_t i = ranking->count; i-- > 0;)
        if (strcmp(ranking->items[i].result->candidate, candidate) == 0)
            return &ranking->items[i];
    return NULL;
}

static void collect(const struct sweep *sweep, struct ranking *ranking) {
    for (size_t i = 0; i < sweep->count; i++) {
        const struct sweep_result *result = &sweep->results[i];
        struct standing *standing = find_standing(ranking, result->candidate);
        if (standing == NULL)
            ranking->items[ranking->count++] = (struct standing){.result = result};
        else if (counts_more(result, standing->result))
            standing->result = result;
    }
}

/* ---- Figures ---- */

static double share_of(const struct sweep_key *key, const struct standing *standing) {
    const struct sweep_result *result = standing->result;
    double work = result->limit == LIMIT_FLOPS ? key->flops : key->bytes;
    return result->limit == LIMIT_NONE ? 0 : work / standing->time.median / result->limit_rate;
}

static bool find_times(const struct sweep_key *key, struct ranking *ranking) {
    struct summary baseline;
    for (size_t i = 0; i < ranking->count; i++) {
        struct standing *s = &ranking->items[i];
        if (s->result->outcome != OUTCOME_MEASURED)
            continue;
        if (!summarise(s->result->samples, s->result->sample_count, (int)ranking->count, &s->time))
            return false;
        if (s->result->baseline != NULL &&
            !summarise(s->result->baseline, s->result->sample_count, 1, &baseline))
            return false;
        s->against = s->result->baseline != NULL ? baseline.median : 0;
        s->share = share_of(key, s);
    }
    return true;
}

static const struct standing *find_default(const struct ranking *ranking) {
    for (size_t i = 0; i < ranking->count; i++)
        if (ranking->items[i].result->is_default && ranking->items[i].time.count > 0)
            return &ranking->items[i];
    return NULL;
}

static bool find_gain(const struct standing *preset, int compared, struct standing *s) {
    const struct sweep_result *result = s->result;
    if (s == preset)
        s->gain = (struct summary){s->time.count, 1, 1, 1, 1, 1, 1, 1};
    else if (result->baseline != NULL)
        return summarise_ratio(result->baseline, result->samples, result->sample_count, compared,
                               &s->gain);
    else
        s->gain = summary_quotient(&preset->time, &s->time);
    return true;
}

static bool find_gains(struct ranking *ranking) {
    const struct standing *preset = find_default(ranking);
    for (size_t i = 0; preset != NULL && i < ranking->count; i++)
        if (ranking->items[i].time.count > 0 &&
            !find_gain(preset, (int)ranking->count, &ranking->items[i]))
            return false;
    return true;
}

/* ---- Order ---- */

/* Orders the default first, then other measured candidates, then failures. */
static int class_of(const struct standing *s) {
    return s->time.count == 0 ? 2 : s->result->is_default ? 0 : 1;
}

double standing_cost(const struct standing *s) {
    return s->gain.median > 0 ? 1 / s->gain.median : s->time.median;
}

static int compare(const void *a, const void *b) {
    const struct standing *x = a, *y = b;
    if (class_of(x) != class_of(y))
        return class_of(x) - class_of(y);
    double first = standing_cost(x), second = standing_cost(y);
    if (first != second)
        return first < second ? -1 : 1;
    return strcmp(x->result->candidate, y->result->candidate);
}

/* ---- The winner ---- */

bool ranking_has_default(const struct ranking *ranking) {
    return ranking->count > 0 && ranking->items[0].result->is_default &&
           ranking->items[0].time.count > 0;
}

/* Finds the winner among all items except the default.  Failures take part, with a gain of 0. */
static bool find_winner(struct ranking *ranking) {
    int first = ranking_has_default(ranking), count = (int)ranking->count - first;
    struct contender_result *contenders = calloc((size_t)count + 1, sizeof *contenders);
    if (contenders == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        const struct standing *s = &ranking->items[first + i];
        contenders[i] =
            (struct contender_result){s->result->candidate, s->result->code_bytes, s->gain};
    }
    ranking->choice = choose(contenders, count);
    free(contenders);
    if (ranking->choice.winner != NO_CONTENDER) {
        ranking->choice.winner += first;
        ranking->choice.fastest += first;
    }
    ranking->winner = ranking->choice.winner == NO_CONTENDER ? first - 1 : ranking->choice.winner;
    return true;
}

bool ranking_is_as_good(const struct ranking *ranking, const struct standing *standing) {
    const struct choice *choice = &ranking->choice;
    if (choice->winner != NO_CONTENDER)
        return gains_tie(&ranking->items[choice->fastest].gain, &standing->gain);
    return ranking->winner >= 0 && standing->gain.high >= 1 && standing->gain.median > 1 - TIE_BAND;
}

bool sweep_rank(const struct sweep *sweep, struct ranking *ranking, struct error *error) {
    *ranking = (struct ranking){.items = calloc(sweep->count + 1, sizeof *ranking->items)};
    if (ranking->items == NULL)
        return out_of_memory(error);
    collect(sweep, ranking);
    if (!find_times(&sweep->key, ranking) || !find_gains(ranking))
        return out_of_memory(error);
    qsort(ranking->items, ranking->count, sizeof *ranking->items, compare);
    return find_winner(ranking) || out_of_memory(error);
}

void ranking_free(struct ranking *ranking) {
    free(ranking->items);
    *ranking = (struct ranking){0};
}

void ranking_reason(const struct ranking *ranking, char reason[REASON_SIZE]) {
    const struct choice *choice = &ranking->choice;
    if (ranking->winner < 0)
        snprintf(reason, REASON_SIZE, "the default was not measured: nothing to compare with");
    else if (choice->winner == NO_CONTENDER)
        snprintf(reason, REASON_SIZE, "no candidate is measurably faster than the default");
    else if (choice->ties == 1)
        snprintf(reason, REASON_SIZE, "the fastest, by more than %.1f %%", 100 * choice->band);
    else
        snprintf(reason, REASON_SIZE,
                 "among %d within %.1f %% of the fastest, the one with the least code",
                 choice->ties, 100 * choice->band);
}
