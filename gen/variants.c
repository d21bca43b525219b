/* SPDX-License-Identifier: Apache-2.0 */
#include "variants.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pack.h"

/* ---- Tunables and points of the templates ---- */

static bool add_value(struct tunable *tunable, const char **text) {
    char *end;
    int64_t value = strtoll(*text, &end, 10);
    if (end == *text || tunable->value_count == MOST_TUNABLE_VALUES)
        return false;
    tunable->values[tunable->value_count++] = value;
    *text = end + (*end == ',');
    return true;
}

/* Reads "NAME PRESET VALUES WHAT". */
static bool read_tunable(const char *line, struct tunable_space *space) {
    struct tunable *tunable = &space->tunables[space->count];
    int at = 0;
    if (space->count == MOST_TUNABLES ||
        sscanf(line, "%79[a-z] %" SCNd64 " %n", tunable->name, &tunable->preset, &at) != 2)
        return false;
    for (line += at; *line != ' ' && *line != '\n';)
        if (!add_value(tunable, &line))
            return false;
    snprintf(tunable->what, sizeof tunable->what, "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
    space->count++;
    return true;
}

bool tuning_add(const struct tunable *tunable, int64_t value, char tuning[TUNING_SIZE]) {
    size_t length = strlen(tuning), room = TUNING_SIZE - length;
    if (value == tunable->preset)
        return true;
    return (size_t)snprintf(tuning + length, room, "%s%s%" PRId64, length ? "_" : "", tunable->name,
                            value) < room;
}

/* Reads "NAME=VALUE ..." of all tunables, in order. */
static bool read_point(const char *line, struct kernel *point, const struct tunable_space *space) {
    for (int i = 0; i < space->count; i++) {
        const char *equals = strchr(line, '=');
        char *end;
        if (equals == NULL)
            return false;
        int64_t value = strtoll(equals + 1, &end, 10);
        if (!tuning_add(&space->tunables[i], value, point->tuning))
            return false;
        line = end;
    }
    return true;
}

static bool read_line(const char *line, const struct kernel *kernel, struct tunable_space *space,
                      struct error *error) {
    static const char tunable[] = "tunable ", point[] = "point ";
    struct kernel next = *kernel;
    next.tuning[0] = '\0';
    if (strncmp(line, tunable, strlen(tunable)) == 0 && read_tunable(line + strlen(tunable), space))
        return true;
    if (strncmp(line, point, strlen(point)) == 0 && read_point(line + strlen(point), &next, space))
        return kernel_list_add(&space->points, &next, error);
    return fail(error, EXIT_BUG, "a template declares no tunable here: %.*s",
                (int)strcspn(line, "\n"), line);
}

bool tunable_space_read(const struct kernel *kernel, struct tunable_space *space,
                        struct error *error) {
    struct text text = {0};
    *space = (struct tunable_space){0};
    bool done =
        kernel_space(kernel, &text, error) && (text_append(&text, "", 1) || out_of_memory(error));
    for (const char *line = text.data; done && *line != '\0'; line = strchr(line, '\n') + 1)
        done = read_line(line, kernel, space, error);
    text_free(&text);
    return done;
}

void tunable_space_free(struct tunable_space *space) {
    kernel_list_free(&space->points);
}

void tunable_words(const struct tunable *tunable, char words[TUNABLE_WORDS_SIZE]) {
    int length = 0;
    words[0] = '\0';
    for (int i = 0; i < tunable->value_count && length < TUNABLE_WORDS_SIZE; i++)
        length += snprintf(words + length, TUNABLE_WORDS_SIZE - (size_t)length, "%s%" PRId64,
                           i ? ", " : "", tunable->values[i]);
}

int64_t tunable_value(const struct tunable *tunable, const struct kernel *point) {
    const char *tuning = point->tuning;
    char name[TUNING_SIZE];
    int64_t value;
    while (next_tunable(&tuning, name, &value))
        if (strcmp(name, tunable->name) == 0)
            return value;
    return tunable->preset;
}

/* ---- Tunings of users ---- */

static const struct tunable *find_tunable(const struct tunable_space *space, const char *name) {
    for (int i = 0; i < space->count; i++)
        if (strcmp(space->tunables[i].name, name) == 0)
            return &space->tunables[i];
    return NULL;
}

static bool refuse_name(const struct tunable_space *space, const char *name, struct error *error) {
    char accepted[256] = "";
    for (int i = 0; i < space->count; i++)
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", space->tunables[i].name);
    return fail(error, EXIT_USER, "\"%s\" is not a tunable of this kernel; accepted: %s", name,
                accepted);
}

static bool check_value(const struct tunable *tunable, int64_t value, struct error *error) {
    char accepted[TUNABLE_WORDS_SIZE];
    for (int i = 0; i < tunable->value_count; i++)
        if (tunable->values[i] == value)
            return true;
    tunable_words(tunable, accepted);
    return fail(error, EXIT_USER, "%s is %" PRId64 "; accepted: %s", tunable->name, value,
                accepted);
}

static bool check_values(const struct kernel *kernel, const struct tunable_space *space,
                         struct error *error) {
    const char *tuning = kernel->tuning;
    char name[TUNING_SIZE];
    int64_t value;
    while (next_tunable(&tuning, name, &value)) {
        const struct tunable *tunable = find_tunable(space, name);
        if (tunable == NULL)
            return refuse_name(space, name, error);
        if (!check_value(tunable, value, error))
            return false;
    }
    return true;
}

/* Whether the tuning is a point by its only name: tunables in their order, without presets. */
static bool is_point(const struct kernel *kernel, const struct tunable_space *space) {
    for (size_t i = 0; i < space->points.count; i++)
        if (strcmp(space->points.items[i].tuning, kernel->tuning) == 0)
            return true;
    return false;
}

bool tuning_check(const struct kernel *kernel, struct error *error) {
    struct tunable_space space;
    if (*kernel->tuning == '\0')
        return true;
    struct kernel preset = *kernel;
    preset.tuning[0] = '\0';
    bool done = tunable_space_read(&preset, &space, error) && check_values(kernel, &space, error);
    if (done && !is_point(kernel, &space))
        done = fail(error, EXIT_USER,
                    "\"%s\" breaks a limit of its template, or the order of the tunables, or "
                    "names one that has its preset; `kvmill plan --variants` lists them",
                    kernel->tuning);
    tunable_space_free(&space);
    return done;
}

/* ---- Other variants ---- */

/* Returns the last instruction set with the same plain one: the list has extensions after what they
   extend. */
static const struct isa *most_extended(const struct isa *isa, const struct isa_list *isas) {
    const struct isa *most = isa;
    for (int i = 0; i < isas->count; i++)
        if (kvmill_isa_plain(isas->items[i]) == kvmill_isa_plain(isa))
            most = isas->items[i];
    return most;
}

bool kernel_alternatives(const struct kernel *kernel, const struct isa_list *isas,
                         struct kernel_list *list, struct error *error) {
    for (int i = 0; i < MOST_ALTERNATIVES && kernel->family->variants[i] != NULL; i++) {
        struct kernel other = *kernel;
        other.variant = kernel->family->variants[i];
        other.tuning[0] = '\0';
        other.isa = most_extended(kernel->isa, isas);
        while (other.isa != NULL && !kernel->family->legal(&other))
            other.isa = kvmill_isa_extended(other.isa);
        if (other.isa != NULL && !kernel_list_add(list, &other, error))
            return false;
    }
    return true;
}
