/* SPDX-License-Identifier: Apache-2.0 */
#include "database.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/input.h"
#include "database_handle.h"

enum {
    APPLICATION_ID = 0x6b766d6c, /* "kvml" */
    SCHEMA_VERSION = 1,
    PATIENCE = 10000 /* milliseconds to wait for a lock */
};

/* ---- The schema ---- */

static const char sweep_table[] =
    "CREATE TABLE sweep (id INTEGER PRIMARY KEY, cpu TEXT NOT NULL, compiler TEXT NOT NULL,"
    " flags TEXT NOT NULL, templates TEXT NOT NULL, isa TEXT NOT NULL, spec TEXT NOT NULL,"
    " problem TEXT NOT NULL, threads INTEGER NOT NULL CHECK (threads > 0), bytes REAL NOT NULL,"
    " flops REAL NOT NULL, spec_hash TEXT NOT NULL,"
    " UNIQUE (spec_hash, spec, problem, threads, isa, cpu, compiler, flags, templates, bytes, "
    "flops)) STRICT";
static const char result_table[] =
    "CREATE TABLE result (id INTEGER PRIMARY KEY, sweep INTEGER NOT NULL REFERENCES sweep (id),"
    " candidate TEXT NOT NULL, is_default INTEGER NOT NULL, outcome TEXT NOT NULL"
    " CHECK (outcome IN ('measured', 'compile', 'crash', 'hang', 'wrong', 'refused')),"
    " message TEXT NOT NULL, samples TEXT NOT NULL, baseline TEXT NOT NULL, limit_kind TEXT NOT "
    "NULL,"
    " limit_rate REAL NOT NULL, code_bytes INTEGER NOT NULL, measured INTEGER NOT NULL,"
    " environment TEXT NOT NULL, UNIQUE (sweep, candidate, measured)) STRICT";

static bool create_tables(struct database *database, struct error *error) {
    char marks[96];
    snprintf(marks, sizeof marks, "PRAGMA application_id = %d; PRAGMA user_version = %d",
             APPLICATION_ID, SCHEMA_VERSION);
    return database_execute(database, sweep_table, error) &&
           database_execute(database, result_table, error) &&
           database_execute(database, marks, error);
}

/* Creates the tables in an empty file.  If two processes do so at once, the second finds the
   tables. */
static bool create_if_empty(struct database *database, struct error *error) {
    int64_t tables;
    if (!database_begin(database, error))
        return false;
    bool done =
        database_read_integer(database, "SELECT count(*) FROM sqlite_schema", &tables, error);
    return database_finish(database, done && (tables > 0 || create_tables(database, error)), error);
}

static bool check_version(struct database *database, struct error *error) {
    int64_t application, version;
    if (!database_read_integer(database, "PRAGMA application_id", &application, error) ||
        !database_read_integer(database, "PRAGMA user_version", &version, error))
        return false;
    if (application != APPLICATION_ID)
        return fail(error, EXIT_USER,
                    "%.600s: is a database of another program, or empty; accepted: one that "
                    "kvmill tune or db wrote",
                    database->path);
    return version == SCHEMA_VERSION ||
           fail(error, EXIT_USER,
                "%.600s: is a tuning database of version %" PRId64 "; accepted: %d", database->path,
                version, SCHEMA_VERSION);
}

/* Whether an object of the schema is one of the two tables, or an index that SQLite makes for
   UNIQUE. */
static bool is_part_of_ours(const char *type, const char *name, const char *sql) {
    if (strcmp(type, "index") == 0)
        return sql == NULL && (strcmp(name, "sqlite_autoindex_sweep_1") == 0 ||
                               strcmp(name, "sqlite_autoindex_result_1") == 0);
    return strcmp(type, "table") == 0 && sql != NULL &&
           ((strcmp(name, "sweep") == 0 && strcmp(sql, sweep_table) == 0) ||
            (strcmp(name, "result") == 0 && strcmp(sql, result_table) == 0));
}

static bool check_part(struct database *database, sqlite3_stmt *statement, struct error *error) {
    const char *type = database_text(statement, 0), *name = database_text(statement, 1);
    const char *sql = database_text(statement, 2);
    if (!database_has_texts(error))
        return false;
    type = type != NULL ? type : "";
    name = name != NULL ? name : "";
    return is_part_of_ours(type, name, sql) ||
           fail(error, EXIT_USER,
                "%.600s: has a %.20s \"%.100s\" that is not kvmill's; accepted: the tables that "
                "kvmill tune or db made, and nothing else",
                database->path, type, name);
}

/* Checks that the schema has exactly two tables, each with an index. */
static bool check_schema(struct database *database, struct error *error) {
    enum { PARTS = 4 };
    bool row = true, done = true;
    int parts = -1;
    sqlite3_stmt *statement =
        database_prepare(database, "SELECT type, name, sql FROM sqlite_schema", error);
    if (statement == NULL)
        return false;
    for (; done && row; parts++)
        done = database_step(database, statement, &row, error) &&
               (!row || check_part(database, statement, error));
    sqlite3_finalize(statement);
    database->is_ours = done && parts == PARTS;
    return done && (database->is_ours ||
                    fail(error, EXIT_USER,
                         "%.600s: lacks a table; accepted: those that kvmill tune or db made",
                         database->path));
}

/* ---- Opening ---- */

static const int flags_of[] = {
    [DATABASE_READ] = SQLITE_OPEN_READONLY,
    [DATABASE_WRITE] = SQLITE_OPEN_READWRITE,
    [DATABASE_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
};

/* Turns on the log, so that readers do not wait for writers, if the file system supports that. */
static bool use_log(struct database *database, enum database_use use, struct error *error) {
    if (use == DATABASE_READ)
        return true;
    sqlite3_exec(database->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return database_execute(database, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", error);
}

static bool is_usable(struct database *database, enum database_use use, struct error *error) {
    sqlite3_busy_timeout(database->handle, PATIENCE);
    database_restrict(database);
    if (use == DATABASE_CREATE && !create_if_empty(database, error))
        return false;
    return check_version(database, error) && check_schema(database, error) &&
           use_log(database, use, error) &&
           (use == DATABASE_READ || database_check(database, error));
}

static bool has_log(const char *path) {
    char *log = sqlite3_mprintf("%s-wal", path);
    bool there = log != NULL && access(log, F_OK) == 0;
    sqlite3_free(log);
    return there;
}

/* Opens a database as immutable: SQLite assumes that nobody changes it, and does not read its
   log. */
static int open_immutable(const char *path, sqlite3 **handle) {
    char *name = sqlite3_mprintf("file:%s?immutable=1", path);
    sqlite3_close(*handle);
    int code = sqlite3_open_v2(name, handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    sqlite3_free(name);
    return code;
}

/* Opens a database.  Even to read it, SQLite creates a log if the database has been used with one.
   If the directory is read-only, that fails, and the database is opened as immutable. */
static int open_handle(const char *path, enum database_use use, sqlite3 **handle) {
    int code = sqlite3_open_v2(path, handle, flags_of[use], NULL);
    if (use != DATABASE_READ || code != SQLITE_OK || has_log(path) || strpbrk(path, "?#%") != NULL)
        return code;
    sqlite3_exec(*handle, "PRAGMA schema_version", NULL, NULL, NULL);
    int reason = sqlite3_errcode(*handle);
    return reason == SQLITE_CANTOPEN || reason == SQLITE_READONLY ? open_immutable(path, handle)
                                                                  : code;
}

/* All results are read into memory. */
static const struct input_kind database_input = {.words = "a tuning database", .most = 1 << 30};

/* Refuses paths that SQLite does not treat as file names. */
static bool check_name(const char *path, struct error *error) {
    return (*path != '\0' && *path != ':' && strncmp(path, "file:", strlen("file:")) != 0) ||
           fail(error, EXIT_USER,
                "\"%.600s\": would not be stored under that name; accepted: the name of a "
                "file, \"./%.100s\" if that is one",
                path, path);
}

/* Removes a new file that stayed empty because the disk was full. */
static void remove_if_empty(const char *path) {
    struct stat status;
    if (stat(path, &status) == 0 && status.st_size == 0)
        unlink(path);
}

struct database *database_open(const char *path, enum database_use use, struct error *error) {
    if (!check_name(path, error))
        return NULL;
    bool is_new = use == DATABASE_CREATE && access(path, F_OK) != 0;
    if (!is_new && !input_check(path, &database_input, error))
        return NULL;
    struct database *database = calloc(1, sizeof *database);
    if (database == NULL || (database->path = strdup(path)) == NULL) {
        free(database);
        out_of_memory(error);
        return NULL;
    }
    if (open_handle(path, use, &database->handle) == SQLITE_OK ? is_usable(database, use, error)
                                                               : database_fail(database, error))
        return database;
    database_close(database);
    if (is_new)
        remove_if_empty(path);
    return NULL;
}

void database_close(struct database *database) {
    if (database == NULL)
        return;
    sqlite3_close(database->handle);
    free(database->path);
    free(database);
}

bool is_database(const char *path, bool *is, struct error *error) {
    static const char magic[16] = "SQLite format 3";
    static const struct input_kind either = {.words = "a tuning database or its text",
                                             .most = 1 << 30};
    char start[sizeof magic];
    int file = input_open(path, &either, error);
    if (file < 0)
        return false;
    ssize_t length = TEMP_FAILURE_RETRY(read(file, start, sizeof start));
    *is = length == 0 || (length == sizeof magic && memcmp(start, magic, sizeof magic) == 0);
    bool done = length >= 0 || fail_to_use(error, "read", path);
    close(file);
    return done;
}

static bool check_with(struct database *database, const char *pragma, struct error *error) {
    bool row;
    sqlite3_stmt *statement = database_prepare(database, pragma, error);
    if (statement == NULL)
        return false;
    bool done = database_step(database, statement, &row, error);
    const char *said = done && row ? database_text(statement, 0) : "ok";
    done = done && database_has_texts(error);
    if (done && strcmp(said, "ok") != 0)
        done = fail(error, EXIT_USER, "%.600s: %s: %.200s", database->path,
                    "is damaged; restore it, or import an export of it into a new one", said);
    sqlite3_finalize(statement);
    return done;
}

bool database_check(struct database *database, struct error *error) {
    database_allow_work(database);
    return check_with(database, "PRAGMA integrity_check(1)", error);
}
