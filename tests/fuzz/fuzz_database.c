/* A file that is opened as a tuning database: read, checked, added to.

   SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../base/output.h"
#include "../../tune/database.h"
#include "../sweeps.h"
#include "fuzz.h"
#include "fuzz_sweeps.h"

/* SQLite opens files of a name alone. */
static const char *write_database(const unsigned char *data, size_t size) {
    static char *path;
    if (path == NULL)
        path = path_join(fuzz_directory(), "database");
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_require(file >= 0 && write(file, data, size) == (ssize_t)size && close(file) == 0,
                 "%s: cannot write", path);
    return path;
}

static void read_all(struct database *database) {
    struct sweeps sweeps = {0};
    struct error error = {0};
    if (!database_check(database, &error))
        fuzz_require_refusal(&error);
    if (database_read(database, &sweeps, &error))
        fuzz_check_sweeps(&sweeps);
    else
        fuzz_require_refusal(&error);
    sweeps_free(&sweeps);
}

static void add_one(struct database *database) {
    struct error error = {0};
    const struct sweep_key key = made_key(0);
    const struct sweep_result result = made_result(1, 1, 0, 0.01);
    if (!database_add(database, &key, &result, &error))
        fuzz_require_refusal(&error);
}

static void open_as(const char *path, enum database_use use, void (*work)(struct database *)) {
    struct error error = {0};
    struct database *database = database_open(path, use, &error);
    if (database != NULL)
        work(database);
    else
        fuzz_require_refusal(&error);
    database_close(database);
}

void fuzz_database(const unsigned char *data, size_t size) {
    const char *path = write_database(data, size);
    open_as(path, DATABASE_READ, read_all);
    open_as(path, DATABASE_WRITE, add_one);
}
