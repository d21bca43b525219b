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
    bool is_ours;                /* it has kvmill's schema */
    int64_t rounds, most_rounds; /* of SQLite's virtual machine, in the current work */
    int64_t rows, most_rows;     /* read in the current work */
};

/* Reports SQLite's last error.  Returns false. */
bool database_fail(const struct database *database, struct error *error);

/* Restricts the database: SQLite does not execute code from its schema, does not trust the schema,
   and has limits for lengths and numbers. */
void database_restrict(struct database *database);

/* Starts the limits for the next work: thousands of steps for each result that could be in the
   file, and no more rows than fit in it. */
void database_allow_work(struct database *database);
bool database_count_row(struct database *database, struct error *error);

bool database_execute(struct database *database, const char *text, struct error *error);
sqlite3_stmt *database_prepare(struct database *database, const char *text, struct error *error);

/* Store a text in a statement, and read one from it.  A `length` of -1 means all of the text; a
   NULL is stored as NULL.  If memory runs out, database_has_texts fails, and so does the next
   step. */
void database_bind(sqlite3_stmt *statement, int at, const char *text, int length);
const char *database_text(sqlite3_stmt *statement, int at);
bool database_has_texts(struct error *error);

/* Executes a step.  *row tells whether there is a row (SQLITE_ROW) or not (SQLITE_DONE). */
bool database_step(struct database *database, sqlite3_stmt *statement, bool *row,
                   struct error *error);
bool database_read_integer(struct database *database, const char *text, int64_t *value,
                           struct error *error);

/* Begin and finish a transaction.  database_finish commits it if `done`, else undoes it.  The first
   error is reported. */
bool database_begin(struct database *database, struct error *error);
bool database_finish(struct database *database, bool done, struct error *error);

#endif
