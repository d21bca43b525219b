/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_file.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../gen/text.h"
#include "database.h"
#include "sweep_text.h"

static bool read_database(const char *path, struct sweeps *sweeps, struct error *error) {
    struct database *database = database_open(path, DATABASE_READ, error);
    bool done = database != NULL && database_read(database, sweeps, error);
    database_close(database);
    return done;
}

static bool read_stream(FILE *stream, const char *path, struct text *text, struct error *error) {
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, stream)) > 0)
        if (!text_append(text, block, got))
            return out_of_memory(error);
    if (ferror(stream))
        return fail_errno(error, "read", path);
    if (text->data != NULL && strlen(text->data) != text->length)
        return fail(error, EXIT_USER, "%.600s: is neither a tuning database nor its text", path);
    return true;
}

static bool read_text(const char *path, struct sweeps *sweeps, struct error *error) {
    struct text text = {0};
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_errno(error, "open", path) || (error->exit_code = EXIT_USER, false);
    bool done = read_stream(stream, path, &text, error) &&
                sweeps_parse(path, text.data != NULL ? text.data : "", sweeps, error);
    fclose(stream);
    text_free(&text);
    return done;
}

bool sweeps_read_file(const char *path, struct sweeps *sweeps, struct error *error) {
    *sweeps = (struct sweeps){0};
    return is_database(path) ? read_database(path, sweeps, error) : read_text(path, sweeps, error);
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
           strcmp(a->isa, b->isa) == 0 && a->threads == b->threads;
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

/* What tells specs of one model apart; the whole spec is long. */
static const struct {
    const char *key, *before;
} spec_parts[] = {{"num_heads", ""}, {"num_kv_heads", "/"}, {"head_dim", "x"}, {"dtype", " "},
                  {"T1", " "},       {"quant_bit", " int"}, {"math", " "}};

static size_t print_part(const json_t *value, const char *before, char *words, size_t size) {
    if (json_is_integer(value))
        return (size_t)snprintf(words, size, "%s%lld", before,
                                (long long)json_integer_value(value));
    if (json_is_string(value))
        return (size_t)snprintf(words, size, "%s%.20s", before, json_string_value(value));
    return 0;
}

/* "32/8x128 float16", or "" for text that is no such JSON. */
static void spec_words(const char *spec, char *words, size_t size) {
    size_t at = 0;
    json_t *object = json_loads(spec, 0, NULL);
    *words = '\0';
    for (size_t i = 0; i < sizeof spec_parts / sizeof *spec_parts && at + 1 < size; i++) {
        const json_t *value = json_object_get(object, spec_parts[i].key);
        at += print_part(value, at > 0 ? spec_parts[i].before : "", words + at, size - at);
    }
    json_decref(object);
}

void sweep_work_words(const struct sweep_key *key, char words[WORK_SIZE]) {
    char spec[48];
    spec_words(key->spec, spec, sizeof spec);
    snprintf(words, WORK_SIZE, "%s%s%.60s, %.20s, %d thread%s", spec, *spec != '\0' ? ", " : "",
             key->problem, key->isa, key->threads, key->threads > 1 ? "s" : "");
}
