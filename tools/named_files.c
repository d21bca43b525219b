/* SPDX-License-Identifier: Apache-2.0 */
#include "named_files.h"

#include <stdio.h>
#include <string.h>

enum { ACCEPTED_SIZE = 512 };

static const char *name_at(const struct file_names *names, int place) {
    return names->name_at(names->holder, place);
}

/* Writes "past_cache=FILE.npy, update=FILE.npy", with all names. */
static const char *join_names(const struct file_names *names, char text[ACCEPTED_SIZE]) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < names->count; i++)
        if (name_at(names, i) != NULL && at < ACCEPTED_SIZE)
            at += (size_t)snprintf(text + at, ACCEPTED_SIZE - at, "%s%.40s=FILE.npy",
                                   at ? ", " : "", name_at(names, i));
    return text;
}

static bool is_named(const char *name, const char *value) {
    size_t length = name != NULL ? strlen(name) : 0;
    return name != NULL && strncmp(name, value, length) == 0 && value[length] == '=' &&
           value[length + 1] != '\0';
}

int named_file_place(const struct file_names *names, const char *option, const char *value,
                     struct error *error) {
    char accepted[ACCEPTED_SIZE];
    for (int i = 0; i < names->count; i++)
        if (is_named(name_at(names, i), value))
            return i;
    fail(error, EXIT_USER, "--%s %.200s: accepted: %s", option, value, join_names(names, accepted));
    return -1;
}

const char *named_file_of(const struct file_names *names, int place, const char *value) {
    return value + strlen(name_at(names, place)) + 1;
}

bool named_files_check(const struct file_names *outputs, const char *const *files,
                       struct error *error) {
    char accepted[ACCEPTED_SIZE];
    int count = 0;
    for (int i = 0; i < outputs->count; i++) {
        count += files[i] != NULL;
        for (int j = 0; files[i] != NULL && j < i; j++)
            if (files[j] != NULL && strcmp(files[i], files[j]) == 0)
                return fail(error, EXIT_USER, "--out: %.60s and %.60s both go to %.200s",
                            name_at(outputs, j), name_at(outputs, i), files[i]);
    }
    return count > 0 ||
           fail(error, EXIT_USER, "no output; accepted: --out %s", join_names(outputs, accepted));
}
