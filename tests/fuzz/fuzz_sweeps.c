/* Sweeps as text, which is written as it was read; and a file that is opened as a tuning database,
   read, checked and changed.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../tune/database.h"
#include "../../tune/ranking.h"
#include "../../tune/sweep_text.h"
#include "../common.h"
#include "../sweeps.h"
#include "fuzz.h"

static void check_again(const struct sweeps *sweeps) {
    OWN(sweeps_free) struct sweeps again = {0};
    struct error error = {0};
    FREED char *text = sweeps_text(sweeps);
    fuzz_require(sweeps_parse("again.tune", text, &again, &error), "%s\n%s", error.text, text);
    FREED char *other = sweeps_text(&again);
    fuzz_require(strcmp(text, other) == 0, "%s\nis read as\n%s", text, other);
}

static void check_sweeps(const struct sweeps *sweeps) {
    struct ranking ranking;
    struct error error = {0};
    for (size_t i = 0; i < sweeps->count; i++)
        if (fuzz_accepts(sweep_rank(&sweeps->items[i], &ranking, &error), &error))
            ranking_free(&ranking);
    check_again(sweeps);
}

void fuzz_tune(const unsigned char *data, size_t size) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    struct error error = {0};
    FREED char *text = strndup((const char *)data, size);
    fuzz_require(text != NULL, "out of memory");
    if (fuzz_accepts(sweeps_parse("file.tune", text, &sweeps, &error), &error))
        check_sweeps(&sweeps);
}

static void read_all(struct database *database) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    struct error error = {0};
    fuzz_accepts(database_check(database, &error), &error);
    if (fuzz_accepts(database_read(database, &sweeps, &error), &error))
        check_sweeps(&sweeps);
}

static void add_one(struct database *database) {
    struct error error = {0};
    const struct sweep_key key = made_key(0);
    const struct sweep_result result = made_result(1, 1, 0, 0.01);
    fuzz_accepts(database_add(database, &key, &result, &error), &error);
}

static void open_as(const char *path, enum database_use use, void (*work)(struct database *)) {
    struct error error = {0};
    struct database *database = database_open(path, use, &error);
    if (fuzz_accepts(database != NULL, &error))
        work(database);
    database_close(database);
}

void fuzz_database(const unsigned char *data, size_t size) {
    /* SQLite opens files by name only. */
    const char *path = scratch_path("database");
    write_bytes(path, data, size);
    open_as(path, DATABASE_READ, read_all);
    open_as(path, DATABASE_WRITE, add_one);
}
