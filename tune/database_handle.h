/* The SQLite side of a database: errors, limits, statements, transactions.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_DATABASE_HANDLE_H
#define KVMILL_TUNE_DATABASE_HANDLE_H

#include <sqlite3.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"

struct database {
    sqlite3 *handle;
    char *path;
    bool is_ours;                /* its schema is */
    int64_t rounds, most_rounds; /* of SQLite's machine, in the work at hand */
    int64_t rows, most_rows;     /* that it has read */
};

/* What SQLite said last. */
bool database_fail(const struct database *database, struct error *error);

/* Nothing in it is run, and nothing in it is taken for a part of SQLite. */
void database_restrict(struct database *database);

/* For the work that begins: thousands of steps for each result there could be, and no more rows
   than fit. */
void database_allow_work(struct database *database);
bool database_count_row(struct database *database, struct error *error);

bool database_execute(struct database *database, const char *text, struct error *error);
sqlite3_stmt *database_prepare(struct database *database, const char *text, struct error *error);

/* Texts into and out of a statement: `length` bytes, -1: all; NULL for a NULL.  Where memory does
   not last for one, database_has_texts fails, and so does the next step. */
void database_bind(sqlite3_stmt *statement, int at, const char *text, int length);
const char *database_text(sqlite3_stmt *statement, int at);
bool database_has_texts(struct error *error);

/* SQLITE_ROW and SQLITE_DONE are both fine; *row tells. */
bool database_step(struct database *database, sqlite3_stmt *statement, bool *row,
                   struct error *error);
bool database_read_integer(struct database *database, const char *text, int64_t *value,
                           struct error *error);

/* A transaction; `finish` commits it if `done`, else undoes it.  The first error is told. */
bool database_begin(struct database *database, struct error *error);
bool database_finish(struct database *database, bool done, struct error *error);

#endif
