/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_space.h"

#include <stdlib.h>
#include <string.h>

struct sweep_space {
    const struct ranking *ranking;
    char *text;           /* all candidates, split into words */
    struct point *points; /* by item of the ranking */
    struct space space;
    struct parameter parameters[MOST_PARAMETERS];
    int64_t numbers[MOST_PARAMETERS][MOST_VALUES];
    const char *words[MOST_PARAMETERS][MOST_VALUES];
};

/* ---- Words of the candidates ---- */

static bool refuse(const char *candidate, const char *why, struct error *error) {
    return fail(error, EXIT_USER, "candidate \"%.200s\": %s", candidate, why);
}

static int add_word(const char *words[MOST_VALUES], int *count, const char *word) {
    for (int i = 0; i < *count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    if (*count == MOST_VALUES)
        return -1;
    words[*count] = word;
    return (*count)++;
}

/* Adds a setting of a candidate.  The first candidate defines the names of the parameters. */
static bool note_setting(struct sweep_space *s, bool first, int i, char *setting) {
    char *equals = strchr(setting, '=');
    if (equals == NULL || i == MOST_PARAMETERS)
        return false;
    *equals = '\0';
    if (first)
        s->parameters[s->space.count++].name = setting;
    return i < s->space.count && strcmp(s->parameters[i].name, setting) == 0 &&
           add_word(s->words[i], &s->parameters[i].count, equals + 1) >= 0;
}

static bool note_candidate(struct sweep_space *s, bool first, char *words) {
    int i = 0;
    char *rest;
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        if (!note_setting(s, first, i++, word))
            return false;
    return i > 0 && i == s->space.count;
}

/* ---- Numbers and their order ---- */

static bool read_number(const char *word, int64_t *number) {
    char *end;
    *number = strtoll(word, &end, 10);
    return end != word && *end == '\0';
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Makes a parameter a number if all its values are numbers. */
static void find_kind(struct sweep_space *s, int i) {
    struct parameter *p = &s->parameters[i];
    p->words = s->words[i];
    for (int k = 0; k < p->count; k++)
        if (!read_number(s->words[i][k], &s->numbers[i][k]))
            return;
    qsort(s->numbers[i], (size_t)p->count, sizeof(int64_t), compare);
    p->words = NULL;
    p->values = s->numbers[i];
}

/* ---- Points ---- */

static bool allows(const struct space *space, const struct point *point) {
    return sweep_space_at(space->context, point) != NULL;
}

static bool find_points(struct sweep_space *s, struct error *error) {
    struct space free_space = {s->parameters, s->space.count, NULL, NULL};
    for (size_t i = 0; i < s->ranking->count; i++)
        if (!space_parse(&free_space, s->ranking->items[i].result->candidate, &s->points[i], error))
            return false;
    for (int i = 0; i < s->space.count; i++)
        s->parameters[i].preset = s->points[0].at[i];
    return true;
}

static bool note_candidates(struct sweep_space *s, struct error *error) {
    char *at = s->text;
    for (size_t i = 0; i < s->ranking->count; i++) {
        const char *candidate = s->ranking->items[i].result->candidate;
        strcpy(at, candidate);
        if (!note_candidate(s, i == 0, at))
            return refuse(candidate, "accepted: name=value ..., the same names as others", error);
        at += strlen(candidate) + 1;
    }
    for (int i = 0; i < s->space.count; i++)
        find_kind(s, i);
    return true;
}

static size_t text_size(const struct ranking *ranking) {
    size_t size = 1;
    for (size_t i = 0; i < ranking->count; i++)
        size += strlen(ranking->items[i].result->candidate) + 1;
    return size;
}

struct sweep_space *sweep_space_open(const struct ranking *ranking, struct error *error) {
    struct sweep_space *s = calloc(1, sizeof *s);
    if (s == NULL || (s->text = malloc(text_size(ranking))) == NULL ||
        (s->points = calloc(ranking->count + 1, sizeof *s->points)) == NULL) {
        out_of_memory(error);
        sweep_space_close(s);
        return NULL;
    }
    s->ranking = ranking;
    s->space = (struct space){s->parameters, 0, allows, s};
    if (note_candidates(s, error) && find_points(s, error))
        return s;
    sweep_space_close(s);
    return NULL;
}

void sweep_space_close(struct sweep_space *space) {
    if (space != NULL) {
        free(space->text);
        free(space->points);
    }
    free(space);
}

const struct space *sweep_space_of(const struct sweep_space *space) {
    return &space->space;
}

const struct standing *sweep_space_at(const struct sweep_space *space, const struct point *point) {
    for (size_t i = 0; i < space->ranking->count; i++)
        if (points_equal(&space->points[i], point))
            return &space->ranking->items[i];
    return NULL;
}

const struct point *sweep_space_point(const struct sweep_space *space, size_t i) {
    return &space->points[i];
}
