/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            return fail(error, EXIT_ENVIRONMENT, "out of memory");
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

void sweep_work_words(const struct sweep_key *key, char words[WORK_SIZE]) {
    snprintf(words, WORK_SIZE, "%.100s, %.20s, %d thread%s", key->problem, key->isa, key->threads,
             key->threads > 1 ? "s" : "");
}
