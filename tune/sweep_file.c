/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/input.h"
#include "database.h"
#include "sweep_text.h"

static bool read_database(const char *path, struct sweeps *sweeps, struct error *error) {
    struct database *database = database_open(path, DATABASE_READ, error);
    bool done = database != NULL && database_read(database, sweeps, error);
    database_close(database);
    return done;
}

static bool read_text(const char *path, struct sweeps *sweeps, struct error *error) {
    static const struct input_kind text_input = {.words = "the text of a tuning database",
                                                 .most = 256 << 20};
    struct text text = {0};
    bool done = input_read(path, &text_input, &text, error);
    if (done && strlen(text.data) != text.length)
        done = fail(error, EXIT_USER, "%.600s: is neither a tuning database nor its text", path);
    done = done && sweeps_parse(path, text.data, sweeps, error);
    text_free(&text);
    return done;
}

bool sweeps_read_file(const char *path, struct sweeps *sweeps, struct error *error) {
    *sweeps = (struct sweeps){0};
    bool is;
    return is_database(path, &is, error) &&
           (is ? read_database(path, sweeps, error) : read_text(path, sweeps, error));
}

/* ---- A directory ---- */

static bool is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int is_text(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".tune") == 0;
}

static bool add_text(const char *directory, const char *name, struct sweeps *sweeps,
                     struct error *error) {
    struct text path = {0};
    struct sweeps more = {0};
    bool done = (text_print(&path, "%s/%s", directory, name) || out_of_memory(error)) &&
                read_text(path.data, &more, error) && sweeps_add_all(sweeps, &more, error);
    sweeps_free(&more);
    text_free(&path);
    return done;
}

static bool read_directory(const char *path, struct sweeps *sweeps, struct error *error) {
    struct dirent **entries;
    int count = scandir(path, &entries, is_text, alphasort);
    if (count < 0)
        return fail_errno(error, "read", path);
    bool done = true;
    for (int i = 0; i < count; i++) {
        done = done && add_text(path, entries[i]->d_name, sweeps, error);
        free(entries[i]);
    }
    free(entries);
    sweeps_sort(sweeps);
    return done;
}

bool sweeps_read_files(const char *path, struct sweeps *sweeps, struct error *error) {
    *sweeps = (struct sweeps){0};
    return is_directory(path) ? read_directory(path, sweeps, error)
                              : sweeps_read_file(path, sweeps, error);
}

bool sweeps_same_work(const struct sweep_key *a, const struct sweep_key *b) {
    return strcmp(a->spec, b->spec) == 0 && strcmp(a->problem, b->problem) == 0 &&
           strcmp(a->isa, b->isa) == 0 && a->threads == b->threads && a->bytes == b->bytes &&
           a->flops == b->flops;
}

int64_t sweep_time(const struct sweep *sweep) {
    int64_t latest = 0;
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->results[i].measured > latest)
            latest = sweep->results[i].measured;
    return latest;
}

const struct sweep *sweeps_latest(const struct sweeps *sweeps, const struct sweep_key *key) {
    const struct sweep *latest = NULL;
    for (size_t i = 0; i < sweeps->count; i++)
        if (sweeps_same_work(&sweeps->items[i].key, key) &&
            (latest == NULL || sweep_time(&sweeps->items[i]) > sweep_time(latest)))
            latest = &sweeps->items[i];
    return latest;
}

/* ---- In words ---- */

/* Whether a word of a symbol means that something is missing: "none", or a count of 0. */
static bool says_nothing(const char *word, size_t length) {
    return (length == 4 && memcmp(word, "none", 4) == 0) ||
           (length == 2 && word[1] == '0' && word[0] >= 'a');
}

void sweep_kernel_words(const struct sweep_key *key, char words[WORK_SIZE]) {
    static const char start[] = "kvmill_";
    const char *end = strstr(key->spec, "__");
    size_t at = 0;
    *words = '\0';
    if (end == NULL || strncmp(key->spec, start, strlen(start)) != 0)
        return;
    for (const char *word = key->spec + strlen(start); word < end; word += strcspn(word, "_") + 1) {
        size_t length = strcspn(word, "_");
        if (!says_nothing(word, length) && at + length + 2 < WORK_SIZE)
            at += (size_t)snprintf(words + at, WORK_SIZE - at, "%s%.*s", at > 0 ? " " : "",
                                   (int)length, word);
    }
}

void sweep_problem_words(const struct sweep_key *key, char words[WORK_SIZE]) {
    snprintf(words, WORK_SIZE, "%.60s, %.20s, %d thread%s", key->problem, key->isa, key->threads,
             key->threads > 1 ? "s" : "");
}

void sweep_work_words(const struct sweep_key *key, char words[WORK_SIZE]) {
    char kernel[WORK_SIZE], problem[WORK_SIZE];
    sweep_kernel_words(key, kernel);
    sweep_problem_words(key, problem);
    snprintf(words, WORK_SIZE, "%.64s%s%.90s", kernel, *kernel != '\0' ? ": " : "", problem);
}
