/* SPDX-License-Identifier: Apache-2.0 */
#include "database_handle.h"

#include <sys/stat.h>

enum { STEPS = 10000 /* of SQLite's virtual machine, in a round */ };

/* ---- Errors ---- */

#define RESTORE "; restore it, or import an export of it into a new one"

static const struct {
    int code, exit_code;
    const char *words;
} meanings[] = {
    {SQLITE_NOTADB, EXIT_USER,
     "is not a tuning database; accepted: a file that kvmill tune or db wrote"},
    {SQLITE_CORRUPT, EXIT_USER, "is damaged" RESTORE},
    {SQLITE_READONLY, EXIT_ENVIRONMENT, "cannot write: it is read-only"},
    {SQLITE_BUSY, EXIT_ENVIRONMENT, "is locked by another process for more than 10 seconds"},
    {SQLITE_FULL, EXIT_ENVIRONMENT,
     "cannot write: the disk is full; its earlier contents are intact"},
    {SQLITE_IOERR, EXIT_ENVIRONMENT, "cannot be read or written; its earlier contents are intact"},
    {SQLITE_CANTOPEN, EXIT_ENVIRONMENT, "cannot open"},
    {SQLITE_NOMEM, EXIT_ENVIRONMENT, "out of memory"},
    {SQLITE_PERM, EXIT_ENVIRONMENT, "cannot open"},
    {SQLITE_INTERRUPT, EXIT_USER, "needs more work than a database of its size should" RESTORE},
    {SQLITE_TOOBIG, EXIT_USER, "has a value that is larger than any result's"},
    {SQLITE_CONSTRAINT, EXIT_USER, "is damaged" RESTORE},
    {SQLITE_MISMATCH, EXIT_USER, "is damaged" RESTORE},
};

bool database_fail(const struct database *database, struct error *error) {
    int code = sqlite3_extended_errcode(database->handle) & 0xff;
    const char *said = sqlite3_errmsg(database->handle);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code)
            return fail(error, meanings[i].exit_code, "%.600s: %s (SQLite: %.200s)", database->path,
                        meanings[i].words, said);
    return fail(error, database->is_ours ? EXIT_BUG : EXIT_USER, "%.600s: SQLite: %.200s",
                database->path, said);
}

/* ---- Limits, so that a malicious file cannot keep this process busy ---- */

static int count_round(void *context) {
    struct database *database = context;
    return ++database->rounds > database->most_rounds;
}

static int64_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

void database_allow_work(struct database *database) {
    enum { LEAST_ROUNDS = 200, BYTES_OF_ROUND = 500, BYTES_OF_ROW = 32 };
    char *log = sqlite3_mprintf("%s-wal", database->path);
    int64_t size = size_of(database->path) + (log != NULL ? size_of(log) : 0);
    sqlite3_free(log);
    database->rounds = database->rows = 0;
    database->most_rounds = LEAST_ROUNDS + size / BYTES_OF_ROUND;
    database->most_rows = size / BYTES_OF_ROW;
}

bool database_count_row(struct database *database, struct error *error) {
    return ++database->rows <= database->most_rows ||
           fail(error, EXIT_USER, "%.600s: has more rows than a file of its size can hold" RESTORE,
                database->path);
}

void database_restrict(struct database *database) {
    static const struct {
        int what, most;
    } limits[] = {{SQLITE_LIMIT_LENGTH, 64 << 20},
                  {SQLITE_LIMIT_SQL_LENGTH, 1 << 16},
                  {SQLITE_LIMIT_COLUMN, 64},
                  {SQLITE_LIMIT_EXPR_DEPTH, 64},
                  {SQLITE_LIMIT_COMPOUND_SELECT, 4},
                  {SQLITE_LIMIT_ATTACHED, 0},
                  {SQLITE_LIMIT_VARIABLE_NUMBER, 64},
                  {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
                  {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64}};
    static const struct {
        int what, on;
    } settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                    {SQLITE_DBCONFIG_DQS_DDL, 0},        {SQLITE_DBCONFIG_DQS_DML, 0}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        sqlite3_limit(database->handle, limits[i].what, limits[i].most);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        sqlite3_db_config(database->handle, settings[i].what, settings[i].on, NULL);
    sqlite3_progress_handler(database->handle, STEPS, count_round, database);
    database_allow_work(database);
}

/* ---- Statements ---- */

bool database_execute(struct database *database, const char *text, struct error *error) {
    return sqlite3_exec(database->handle, text, NULL, NULL, NULL) == SQLITE_OK ||
           database_fail(database, error);
}

sqlite3_stmt *database_prepare(struct database *database, const char *text, struct error *error) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database->handle, text, -1, &statement, NULL) == SQLITE_OK)
        return statement;
    database_fail(database, error);
    return NULL;
}

/* Whether memory ran out for a text, which is then NULL.  Its statement must not be executed. */
static _Thread_local bool has_lost_text;

void database_bind(sqlite3_stmt *statement, int at, const char *text, int length) {
    has_lost_text |= sqlite3_bind_text(statement, at, text, length, SQLITE_TRANSIENT) != SQLITE_OK;
}

const char *database_text(sqlite3_stmt *statement, int at) {
    const char *text = (const char *)sqlite3_column_text(statement, at);
    has_lost_text |= text == NULL && sqlite3_errcode(sqlite3_db_handle(statement)) == SQLITE_NOMEM;
    return text;
}

bool database_has_texts(struct error *error) {
    bool lost = has_lost_text;
    has_lost_text = false;
    return !lost || out_of_memory(error);
}

bool database_step(struct database *database, sqlite3_stmt *statement, bool *row,
                   struct error *error) {
    *row = false;
    if (!database_has_texts(error))
        return false;
    int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    return *row || code == SQLITE_DONE || database_fail(database, error);
}

bool database_read_integer(struct database *database, const char *text, int64_t *value,
                           struct error *error) {
    bool row;
    sqlite3_stmt *statement = database_prepare(database, text, error);
    if (statement == NULL)
        return false;
    bool done = database_step(database, statement, &row, error);
    *value = done && row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return done;
}

/* ---- Transactions ---- */

/* Begins an immediate transaction, so that a conflict with another writer shows now, and not after
   the work. */
bool database_begin(struct database *database, struct error *error) {
    return database_execute(database, "BEGIN IMMEDIATE", error);
}

/* Reports the first error only. */
bool database_finish(struct database *database, bool done, struct error *error) {
    if (done && database_execute(database, "COMMIT", error))
        return true;
    sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
    return false;
}
