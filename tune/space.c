/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "random.h"

/* ---- Checks of a space ---- */

static bool is_word(const char *text, bool may_begin_with_digit) {
    if (*text == '\0' || (!may_begin_with_digit && isdigit((unsigned char)*text)))
        return false;
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && *text != '_')
            return false;
    return true;
}

static bool check_values(const struct parameter *p, struct error *error) {
    for (int i = 0; i < p->count; i++)
        if (p->words != NULL ? !is_word(p->words[i], true)
                             : i > 0 && p->values[i - 1] >= p->values[i])
            return fail(error, EXIT_BUG, "parameter %s: value %d is not a word, or is out of order",
                        p->name, i);
    return true;
}

static bool check_parameter(const struct parameter *p, struct error *error) {
    if (!is_word(p->name, false))
        return fail(error, EXIT_BUG, "parameter \"%s\"; accepted: a C identifier", p->name);
    if ((p->values == NULL) == (p->words == NULL))
        return fail(error, EXIT_BUG, "parameter %s: has values and words, or neither", p->name);
    if (p->count < 1 || p->count > MOST_VALUES || p->preset < 0 || p->preset >= p->count)
        return fail(error, EXIT_BUG, "parameter %s: %d values, default %d; accepted: 1 to %d",
                    p->name, p->count, p->preset, MOST_VALUES);
    return check_values(p, error);
}

static int find_parameter(const struct space *space, const char *name, size_t length) {
    for (int i = 0; i < space->count; i++)
        if (strncmp(space->parameters[i].name, name, length) == 0 &&
            space->parameters[i].name[length] == '\0')
            return i;
    return -1;
}

bool space_check(const struct space *space, struct error *error) {
    struct point preset;
    if (space->count < 1 || space->count > MOST_PARAMETERS)
        return fail(error, EXIT_BUG, "a space of %d parameters; accepted: 1 to %d", space->count,
                    MOST_PARAMETERS);
    for (int i = 0; i < space->count; i++) {
        const char *name = space->parameters[i].name;
        if (!check_parameter(&space->parameters[i], error))
            return false;
        if (find_parameter(space, name, strlen(name)) != i)
            return fail(error, EXIT_BUG, "parameter %s: there are two", name);
    }
    preset = space_default(space);
    return space_holds(space, &preset) ||
           fail(error, EXIT_BUG, "the default point is not in its space");
}

/* ---- Points ---- */

bool space_holds(const struct space *space, const struct point *point) {
    return space->allows == NULL || space->allows(space, point);
}

struct point space_default(const struct space *space) {
    struct point point = {0};
    for (int i = 0; i < space->count; i++)
        point.at[i] = (uint8_t)space->parameters[i].preset;
    return point;
}

bool points_equal(const struct point *a, const struct point *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- All points ---- */

/* Moves to the next combination, legal or not. */
static bool advance(const struct space *space, struct point *point) {
    for (int i = space->count - 1; i >= 0; i--) {
        if (++point->at[i] < space->parameters[i].count)
            return true;
        point->at[i] = 0;
    }
    return false;
}

bool space_first(const struct space *space, struct point *point) {
    *point = (struct point){0};
    return space_holds(space, point) || space_next(space, point);
}

bool space_next(const struct space *space, struct point *point) {
    while (advance(space, point))
        if (space_holds(space, point))
            return true;
    return false;
}

int64_t space_count(const struct space *space, int64_t most) {
    struct point point;
    int64_t count = 0;
    for (bool more = space_first(space, &point); more && count < most;
         more = space_next(space, &point))
        count++;
    return count;
}

/* ---- Some points ---- */

static struct point nth_point(const struct space *space, uint64_t n) {
    struct point point;
    space_first(space, &point);
    while (n-- > 0)
        space_next(space, &point);
    return point;
}

/* Tries combinations, then counts the legal ones: that is faster if hardly any is legal. */
struct point space_random(const struct space *space, uint64_t *random) {
    enum { TRIES = 1000 };
    for (int try = 0; try < TRIES; try++) {
        struct point point = {0};
        for (int i = 0; i < space->count; i++)
            point.at[i] = (uint8_t)random_below(random, (uint64_t)space->parameters[i].count);
        if (space_holds(space, &point))
            return point;
    }
    return nth_point(space, random_below(random, (uint64_t)space_count(space, INT64_MAX)));
}

static int step(const struct space *space, const struct point *point, int i, int direction,
                struct point *neighbour) {
    for (int at = point->at[i] + direction; at >= 0 && at < space->parameters[i].count;
         at += direction) {
        *neighbour = *point;
        neighbour->at[i] = (uint8_t)at;
        if (space_holds(space, neighbour))
            return 1;
    }
    return 0;
}

static int other_words(const struct space *space, const struct point *point, int i,
                       struct point *neighbours) {
    int count = 0;
    for (int at = 0; at < space->parameters[i].count; at++) {
        neighbours[count] = *point;
        neighbours[count].at[i] = (uint8_t)at;
        count += at != point->at[i] && space_holds(space, &neighbours[count]);
    }
    return count;
}

int space_neighbours(const struct space *space, const struct point *point,
                     struct point *neighbours) {
    int count = 0;
    for (int i = 0; i < space->count; i++) {
        if (space->parameters[i].words != NULL) {
            count += other_words(space, point, i, neighbours + count);
            continue;
        }
        count += step(space, point, i, -1, neighbours + count);
        count += step(space, point, i, 1, neighbours + count);
    }
    return count;
}

/* ---- As text ---- */

static bool print_value(const struct parameter *p, int at, struct text *text) {
    return p->words != NULL ? text_print(text, "%s", p->words[at])
                            : text_print(text, "%lld", (long long)p->values[at]);
}

bool space_print(const struct space *space, const struct point *point, struct text *text) {
    for (int i = 0; i < space->count; i++) {
        const struct parameter *p = &space->parameters[i];
        if (!text_print(text, "%s%s=", i > 0 ? " " : "", p->name) ||
            !print_value(p, point->at[i], text))
            return false;
    }
    return true;
}

static bool refuse_name(const struct space *space, const char *name, size_t length,
                        struct error *error) {
    const char *names[MOST_PARAMETERS + 1] = {NULL};
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (int i = 0; i < space->count; i++)
        names[i] = space->parameters[i].name;
    const char *nearest = nearest_word(word, names);
    return fail(error, EXIT_USER, "\"%s\" is not a parameter; %s%s%s", word,
                nearest ? "did you mean \"" : "accepted: name=value", nearest ? nearest : "",
                nearest ? "\"?" : "");
}

static bool refuse_value(const struct parameter *p, const char *value, size_t length,
                         struct error *error) {
    struct text accepted = {0};
    bool printed = true;
    for (int at = 0; printed && at < p->count; at++)
        printed = (at == 0 || text_print(&accepted, ", ")) && print_value(p, at, &accepted);
    fail(error, EXIT_USER, "%s=%.*s; accepted: %.800s", p->name, (int)(length < 40 ? length : 40),
         value, printed ? accepted.data : "other values");
    text_free(&accepted);
    return false;
}

/* Whether a value is that of index `at`.  Compares text: 04 and 4 are not the same candidate. */
static bool is_value(const struct parameter *p, int at, const char *value, size_t length) {
    char number[32];
    const char *word = number;
    if (p->words != NULL)
        word = p->words[at];
    else
        snprintf(number, sizeof number, "%lld", (long long)p->values[at]);
    return strlen(word) == length && strncmp(word, value, length) == 0;
}

static bool parse_value(const struct parameter *p, const char *value, size_t length, uint8_t *at,
                        struct error *error) {
    for (int i = 0; i < p->count; i++)
        if (is_value(p, i, value, length)) {
            *at = (uint8_t)i;
            return true;
        }
    return refuse_value(p, value, length, error);
}

static bool parse_setting(const struct space *space, const char *text, size_t length,
                          bool given[MOST_PARAMETERS], struct point *point, struct error *error) {
    const char *equals = memchr(text, '=', length);
    size_t name = equals != NULL ? (size_t)(equals - text) : length;
    int i = find_parameter(space, text, name);
    if (i < 0)
        return refuse_name(space, text, name, error);
    if (equals == NULL || given[i])
        return fail(error, EXIT_USER, "%s: %s; accepted: name=value, each once",
                    space->parameters[i].name, equals == NULL ? "has no value" : "is given twice");
    given[i] = true;
    return parse_value(&space->parameters[i], equals + 1, length - name - 1, &point->at[i], error);
}

bool space_parse(const struct space *space, const char *text, struct point *point,
                 struct error *error) {
    bool given[MOST_PARAMETERS] = {false};
    *point = space_default(space);
    for (const char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (!parse_setting(space, at, length, given, point, error))
            return false;
        at += length;
    }
    return space_holds(space, point) ||
           fail(error, EXIT_USER, "\"%.200s\": these values cannot be combined", text);
}
