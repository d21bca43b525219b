/* SPDX-License-Identifier: Apache-2.0 */
#include "database.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/hash.h"
#include "sweep_text.h"

enum {
    APPLICATION_ID = 0x6b766d6c, /* "kvml" */
    SCHEMA_VERSION = 1,
    PATIENCE = 10000, /* milliseconds that a lock is waited for */
    STEPS = 10000     /* of SQLite's machine, in a round */
};

struct database {
    sqlite3 *handle;
    char *path;
    bool is_ours;                /* its schema is */
    int64_t rounds, most_rounds; /* of STEPS, in the work at hand */
    int64_t rows, most_rows;     /* that it has read */
};

/* ---- Errors ---- */

static const struct {
    int code, exit_code;
    const char *words;
} meanings[] = {
    {SQLITE_NOTADB, EXIT_USER,
     "is no tuning database; accepted: a file that kvmill tune or db wrote"},
    {SQLITE_CORRUPT, EXIT_USER, "is damaged; restore it, or import an export of it into a new one"},
    {SQLITE_READONLY, EXIT_ENVIRONMENT, "cannot write: it is read-only"},
    {SQLITE_BUSY, EXIT_ENVIRONMENT, "is locked by another process for more than 10 seconds"},
    {SQLITE_FULL, EXIT_ENVIRONMENT, "cannot write: the disk is full; what it held before is whole"},
    {SQLITE_IOERR, EXIT_ENVIRONMENT, "cannot be read or written; what it held before is whole"},
    {SQLITE_CANTOPEN, EXIT_ENVIRONMENT, "cannot open"},
    {SQLITE_NOMEM, EXIT_ENVIRONMENT, "out of memory"},
    {SQLITE_PERM, EXIT_ENVIRONMENT, "cannot open"},
    {SQLITE_INTERRUPT, EXIT_USER,
     "asks for more work than one of its size can need; restore it, or import an export of it into "
     "a "
     "new one"},
    {SQLITE_TOOBIG, EXIT_USER, "holds more in one place than any result needs"},
    {SQLITE_CONSTRAINT, EXIT_USER,
     "is damaged; restore it, or import an export of it into a new one"},
    {SQLITE_MISMATCH, EXIT_USER,
     "is damaged; restore it, or import an export of it into a new one"},
};

/* What SQLite said last. */
static bool fail_database(const struct database *database, struct error *error) {
    int code = sqlite3_extended_errcode(database->handle) & 0xff;
    const char *said = sqlite3_errmsg(database->handle);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code)
            return fail(error, meanings[i].exit_code, "%.600s: %s (SQLite: %.200s)", database->path,
                        meanings[i].words, said);
    return fail(error, database->is_ours ? EXIT_BUG : EXIT_USER, "%.600s: SQLite: %.200s",
                database->path, said);
}

/* ---- Limits: what a file says must not keep us busy ---- */

static int count_round(void *context) {
    struct database *database = context;
    return ++database->rounds > database->most_rounds;
}

static int64_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* For the work that begins: thousands of steps for each result there could be, and no more rows
 * than fit. */
static void allow_work(struct database *database) {
    enum { LEAST_ROUNDS = 200, BYTES_OF_ROUND = 500, BYTES_OF_ROW = 32 };
    char *log = sqlite3_mprintf("%s-wal", database->path);
    int64_t size = size_of(database->path) + (log != NULL ? size_of(log) : 0);
    sqlite3_free(log);
    database->rounds = database->rows = 0;
    database->most_rounds = LEAST_ROUNDS + size / BYTES_OF_ROUND;
    database->most_rows = size / BYTES_OF_ROW;
}

static bool count_row(struct database *database, struct error *error) {
    return ++database->rows <= database->most_rows ||
           fail(error, EXIT_USER,
                "%.600s: has more rows than a file of its size can hold; restore it, or import an "
                "export of it into a new one",
                database->path);
}

/* Nothing in it is run, and nothing in it is taken for a part of SQLite. */
static void restrict_handle(struct database *database) {
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
    allow_work(database);
}

/* ---- Statements ---- */

static bool execute(struct database *database, const char *text, struct error *error) {
    return sqlite3_exec(database->handle, text, NULL, NULL, NULL) == SQLITE_OK ||
           fail_database(database, error);
}

static sqlite3_stmt *prepare(struct database *database, const char *text, struct error *error) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database->handle, text, -1, &statement, NULL) == SQLITE_OK)
        return statement;
    fail_database(database, error);
    return NULL;
}

/* A text that memory did not last for: it is NULL, and what goes with it is not to be done. */
static _Thread_local bool has_lost_text;

static void bind_bytes(sqlite3_stmt *statement, int at, const char *text, int length) {
    has_lost_text |= sqlite3_bind_text(statement, at, text, length, SQLITE_TRANSIENT) != SQLITE_OK;
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    bind_bytes(statement, at, text, -1);
}

/* SQLITE_ROW and SQLITE_DONE are both fine; *row tells. */
static bool step(struct database *database, sqlite3_stmt *statement, bool *row,
                 struct error *error) {
    *row = false;
    if (has_lost_text) {
        has_lost_text = false;
        return out_of_memory(error);
    }
    int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    return *row || code == SQLITE_DONE || fail_database(database, error);
}

static bool read_integer(struct database *database, const char *text, int64_t *value,
                         struct error *error) {
    bool row;
    sqlite3_stmt *statement = prepare(database, text, error);
    if (statement == NULL)
        return false;
    bool done = step(database, statement, &row, error);
    *value = done && row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return done;
}

/* ---- Transactions ---- */

/* Immediate: who only finds out at the end that another process writes has worked in vain. */
static bool begin(struct database *database, struct error *error) {
    return execute(database, "BEGIN IMMEDIATE", error);
}

/* The first error is the one that is told. */
static bool finish(struct database *database, bool done, struct error *error) {
    if (done && execute(database, "COMMIT", error))
        return true;
    sqlite3_exec(database->handle, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

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
    return execute(database, sweep_table, error) && execute(database, result_table, error) &&
           execute(database, marks, error);
}

/* Of two processes that begin an empty file at once the second finds the tables there. */
static bool create_if_empty(struct database *database, struct error *error) {
    int64_t tables;
    if (!begin(database, error))
        return false;
    bool done = read_integer(database, "SELECT count(*) FROM sqlite_schema", &tables, error);
    return finish(database, done && (tables > 0 || create_tables(database, error)), error);
}

static bool check_version(struct database *database, struct error *error) {
    int64_t application, version;
    if (!read_integer(database, "PRAGMA application_id", &application, error) ||
        !read_integer(database, "PRAGMA user_version", &version, error))
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

/* One of the two tables, or the index that SQLite makes of what is UNIQUE in it. */
static bool is_part_of_ours(const char *type, const char *name, const char *sql) {
    if (strcmp(type, "index") == 0)
        return sql == NULL && (strcmp(name, "sqlite_autoindex_sweep_1") == 0 ||
                               strcmp(name, "sqlite_autoindex_result_1") == 0);
    return strcmp(type, "table") == 0 && sql != NULL &&
           ((strcmp(name, "sweep") == 0 && strcmp(sql, sweep_table) == 0) ||
            (strcmp(name, "result") == 0 && strcmp(sql, result_table) == 0));
}

static bool check_part(struct database *database, sqlite3_stmt *statement, struct error *error) {
    const char *type = (const char *)sqlite3_column_text(statement, 0);
    const char *name = (const char *)sqlite3_column_text(statement, 1);
    type = type != NULL ? type : "";
    name = name != NULL ? name : "";
    return is_part_of_ours(type, name, (const char *)sqlite3_column_text(statement, 2)) ||
           fail(error, EXIT_USER,
                "%.600s: has a %.20s \"%.100s\" that is not kvmill's; accepted: the tables that "
                "kvmill tune or db made, and nothing else",
                database->path, type, name);
}

/* Two tables with an index each. */
static bool check_schema(struct database *database, struct error *error) {
    enum { PARTS = 4 };
    bool row = true, done = true;
    int parts = -1;
    sqlite3_stmt *statement = prepare(database, "SELECT type, name, sql FROM sqlite_schema", error);
    if (statement == NULL)
        return false;
    for (; done && row; parts++)
        done = step(database, statement, &row, error) &&
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

/* Readers do not wait for writers where the file system can do that. */
static bool use_log(struct database *database, enum database_use use, struct error *error) {
    if (use == DATABASE_READ)
        return true;
    sqlite3_exec(database->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return execute(database, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", error);
}

static bool is_usable(struct database *database, enum database_use use, struct error *error) {
    sqlite3_busy_timeout(database->handle, PATIENCE);
    restrict_handle(database);
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

/* Opened so, it is taken for one that nobody changes; its log would not be read. */
static int open_immutable(const char *path, sqlite3 **handle) {
    char *name = sqlite3_mprintf("file:%s?immutable=1", path);
    sqlite3_close(*handle);
    int code = sqlite3_open_v2(name, handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    sqlite3_free(name);
    return code;
}

/* A database that has been used with a log wants to make one even for reading; a directory that
   cannot be written is in the way. */
static int open_handle(const char *path, enum database_use use, sqlite3 **handle) {
    int code = sqlite3_open_v2(path, handle, flags_of[use], NULL);
    if (use != DATABASE_READ || code != SQLITE_OK || has_log(path) || strpbrk(path, "?#%") != NULL)
        return code;
    sqlite3_exec(*handle, "PRAGMA schema_version", NULL, NULL, NULL);
    int reason = sqlite3_errcode(*handle);
    return reason == SQLITE_CANTOPEN || reason == SQLITE_READONLY ? open_immutable(path, handle)
                                                                  : code;
}

static bool is_there(const char *path, struct error *error) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_to_use(error, "open", path);
    fclose(stream);
    return true;
}

/* What SQLite would not take for the name of a file. */
static bool check_name(const char *path, struct error *error) {
    return (*path != '\0' && *path != ':' && strncmp(path, "file:", strlen("file:")) != 0) ||
           fail(
               error, EXIT_USER,
               "\"%.600s\": would be kept nowhere, or not under that name; accepted: the name of a "
               "file, \"./%.100s\" if that is one",
               path, path);
}

struct database *database_open(const char *path, enum database_use use, struct error *error) {
    if (!check_name(path, error))
        return NULL;
    if (use != DATABASE_CREATE && !is_there(path, error))
        return NULL;
    struct database *database = calloc(1, sizeof *database);
    if (database == NULL || (database->path = strdup(path)) == NULL) {
        free(database);
        out_of_memory(error);
        return NULL;
    }
    if (open_handle(path, use, &database->handle) == SQLITE_OK ? is_usable(database, use, error)
                                                               : fail_database(database, error))
        return database;
    database_close(database);
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
    char start[sizeof magic];
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_to_use(error, "open", path);
    size_t length = fread(start, 1, sizeof start, stream);
    *is = !ferror(stream) &&
          (length == 0 || (length == sizeof magic && memcmp(start, magic, sizeof magic) == 0));
    fclose(stream);
    return true;
}

static bool check_with(struct database *database, const char *pragma, struct error *error) {
    bool row;
    sqlite3_stmt *statement = prepare(database, pragma, error);
    if (statement == NULL)
        return false;
    bool done = step(database, statement, &row, error);
    const char *said = done && row ? (const char *)sqlite3_column_text(statement, 0) : "ok";
    if (done && strcmp(said, "ok") != 0)
        done = fail(error, EXIT_USER, "%.600s: %s: %.200s", database->path,
                    "is damaged; restore it, or import an export of it into a new one", said);
    sqlite3_finalize(statement);
    return done;
}

bool database_check(struct database *database, struct error *error) {
    allow_work(database);
    return check_with(database, "PRAGMA integrity_check(1)", error);
}

/* ---- Values into statements; positions count from 1 ---- */

static bool bind_samples(sqlite3_stmt *statement, int at, const double *samples, int count,
                         struct error *error) {
    struct text text = {0};
    bool done = samples_print(samples, samples != NULL ? count : 0, &text);
    if (done)
        bind_text(statement, at, text.data);
    text_free(&text);
    return done || out_of_memory(error);
}

/* Strings, threads, bytes, flops: in the order of `key_columns`. */
#define KEY_COLUMNS "cpu, compiler, flags, templates, isa, spec, problem, threads, bytes, flops"
enum { THREADS_AT = KEY_STRINGS + 1, BYTES_AT, FLOPS_AT, HASH_AT };

static void bind_key(sqlite3_stmt *statement, const struct sweep_key *key) {
    char hash[17];
    for (int i = 0; i < KEY_STRINGS; i++)
        bind_text(statement, i + 1, sweep_key_text(key, i));
    sqlite3_bind_int(statement, THREADS_AT, key->threads);
    sqlite3_bind_double(statement, BYTES_AT, key->bytes);
    sqlite3_bind_double(statement, FLOPS_AT, key->flops);
    snprintf(hash, sizeof hash, "%016" PRIx64,
             hash_bytes(HASH_START, key->spec, strlen(key->spec)));
    bind_text(statement, HASH_AT, hash);
}

#define RESULT_COLUMNS                                                                             \
    "candidate, measured, is_default, outcome, message, samples, baseline, limit_kind, "           \
    "limit_rate,"                                                                                  \
    " code_bytes, environment"
enum {
    SWEEP_AT = 1,
    CANDIDATE_AT,
    MEASURED_AT,
    DEFAULT_AT,
    OUTCOME_AT,
    MESSAGE_AT,
    SAMPLES_AT,
    BASELINE_AT,
    LIMIT_AT,
    RATE_AT,
    CODE_AT,
    ENVIRONMENT_AT
};

/* A message may have lines; databases have its first, cut where it goes on and on. */
static void bind_message(sqlite3_stmt *statement, const char *message) {
    enum { LONGEST = 500 };
    size_t length = strcspn(message, "\n");
    bind_bytes(statement, MESSAGE_AT, message, (int)(length < LONGEST ? length : LONGEST));
}

static bool bind_result(sqlite3_stmt *statement, int64_t sweep, const struct sweep_result *r,
                        struct error *error) {
    sqlite3_bind_int64(statement, SWEEP_AT, sweep);
    bind_text(statement, CANDIDATE_AT, r->candidate);
    sqlite3_bind_int64(statement, MEASURED_AT, r->measured);
    sqlite3_bind_int(statement, DEFAULT_AT, r->is_default);
    bind_text(statement, OUTCOME_AT, outcome_word(r->outcome));
    bind_message(statement, r->message);
    bind_text(statement, LIMIT_AT, limit_word(r->limit));
    sqlite3_bind_double(statement, RATE_AT, r->limit_rate);
    sqlite3_bind_int64(statement, CODE_AT, r->code_bytes);
    bind_text(statement, ENVIRONMENT_AT, r->environment);
    return bind_samples(statement, SAMPLES_AT, r->samples, r->sample_count, error) &&
           bind_samples(statement, BASELINE_AT, r->baseline, r->sample_count, error);
}

/* ---- Adding ---- */

static bool run_once(struct database *database, sqlite3_stmt *statement, struct error *error) {
    bool row, done = step(database, statement, &row, error);
    sqlite3_finalize(statement);
    return done;
}

static bool insert_sweep(struct database *database, const struct sweep_key *key,
                         struct error *error) {
    sqlite3_stmt *statement = prepare(database,
                                      "INSERT OR IGNORE INTO sweep (" KEY_COLUMNS
                                      ", spec_hash) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                                      error);
    if (statement == NULL)
        return false;
    bind_key(statement, key);
    return run_once(database, statement, error);
}

/* 0: there is none. */
static bool find_sweep(struct database *database, const struct sweep_key *key, int64_t *id,
                       struct error *error) {
    bool row = false;
    sqlite3_stmt *statement = prepare(
        database,
        "SELECT id FROM sweep WHERE cpu = ? AND compiler = ? AND flags = ? AND templates = ?"
        " AND isa = ? AND spec = ? AND problem = ? AND threads = ? AND bytes = ?"
        " AND flops = ? AND spec_hash = ?",
        error);
    if (statement == NULL)
        return false;
    bind_key(statement, key);
    bool done = step(database, statement, &row, error);
    *id = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return done;
}

static bool insert_result(struct database *database, int64_t sweep,
                          const struct sweep_result *result, struct error *error) {
    sqlite3_stmt *statement = prepare(
        database, "INSERT INTO result (sweep, " RESULT_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
        error);
    if (statement == NULL)
        return false;
    if (bind_result(statement, sweep, result, error))
        return run_once(database, statement, error);
    sqlite3_finalize(statement);
    return false;
}

/* ---- Reading ---- */

static const char *column(sqlite3_stmt *statement, int at) {
    const char *text = (const char *)sqlite3_column_text(statement, at - 1);
    return text != NULL ? text : "";
}

static void read_key(sqlite3_stmt *statement, struct sweep_key *key) {
    for (int i = 0; i < KEY_STRINGS; i++)
        *sweep_key_string(key, i) = (char *)column(statement, i + 1);
    key->threads = sqlite3_column_int(statement, THREADS_AT - 1);
    key->bytes = sqlite3_column_double(statement, BYTES_AT - 1);
    key->flops = sqlite3_column_double(statement, FLOPS_AT - 1);
}

/* Strings are the statement's, samples malloced; what is wrong, or NULL. */
static const char *read_result(sqlite3_stmt *statement, struct sweep_result *r) {
    int count, baselines;
    *r = (struct sweep_result){
        .candidate = (char *)column(statement, CANDIDATE_AT),
        .measured = sqlite3_column_int64(statement, MEASURED_AT - 1),
        .is_default = sqlite3_column_int(statement, DEFAULT_AT - 1) != 0,
        .message = (char *)column(statement, MESSAGE_AT),
        .samples = samples_parse(column(statement, SAMPLES_AT), &count),
        .baseline = samples_parse(column(statement, BASELINE_AT), &baselines),
        .limit_rate = sqlite3_column_double(statement, RATE_AT - 1),
        .code_bytes = sqlite3_column_int64(statement, CODE_AT - 1),
        .environment = (char *)column(statement, ENVIRONMENT_AT),
    };
    r->sample_count = count;
    if (r->samples == NULL || r->baseline == NULL)
        return "samples that are no numbers";
    if (baselines == 0) {
        free(r->baseline);
        r->baseline = NULL;
    } else if (baselines != count)
        return "not as many baselines as samples";
    if (!limit_by_word(column(statement, LIMIT_AT), &r->limit) ||
        !outcome_by_word(column(statement, OUTCOME_AT), &r->outcome))
        return "an outcome or a limit that is not known";
    return sweep_result_fault(r);
}

static void free_samples(struct sweep_result *result) {
    free(result->samples);
    free(result->baseline);
}

static bool refuse_row(struct database *database, const char *candidate, const char *fault,
                       struct error *error) {
    return fail(
        error, EXIT_USER,
        "%.400s: the result of \"%.200s\" has a fault: %s; restore the database, or import an "
        "export of it into a new one",
        database->path, candidate, fault);
}

static bool add_row(struct database *database, sqlite3_stmt *statement, const struct sweep_key *key,
                    struct sweeps *sweeps, struct error *error) {
    struct sweep_result result;
    if (!count_row(database, error))
        return false;
    const char *fault = read_result(statement, &result);
    bool done = fault == NULL ? sweeps_add(sweeps, key, &result, error)
                              : refuse_row(database, result.candidate, fault, error);
    free_samples(&result);
    return done;
}

/* The columns of a result begin with its sweep: those of the key come from a statement of their
 * own. */
static bool read_results(struct database *database, int64_t sweep, const struct sweep_key *key,
                         struct sweeps *sweeps, struct error *error) {
    bool row = true, done = true;
    sqlite3_stmt *statement =
        prepare(database, "SELECT sweep, " RESULT_COLUMNS " FROM result WHERE sweep = ?", error);
    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, sweep);
    while (done && (done = step(database, statement, &row, error)) && row)
        done = add_row(database, statement, key, sweeps, error);
    sqlite3_finalize(statement);
    return done;
}

static bool read_sweep(struct database *database, sqlite3_stmt *statement, struct sweeps *sweeps,
                       struct error *error) {
    struct sweep_key key = {0};
    if (!count_row(database, error))
        return false;
    read_key(statement, &key);
    const char *fault = sweep_key_fault(&key);
    if (fault != NULL)
        return refuse_row(database, key.spec, fault, error);
    return read_results(database, sqlite3_column_int64(statement, FLOPS_AT), &key, sweeps, error);
}

static bool read_all(struct database *database, struct sweeps *sweeps, struct error *error) {
    bool row = true, done = true;
    sqlite3_stmt *statement = prepare(database, "SELECT " KEY_COLUMNS ", id FROM sweep", error);
    if (statement == NULL)
        return false;
    while (done && (done = step(database, statement, &row, error)) && row)
        done = read_sweep(database, statement, sweeps, error);
    sqlite3_finalize(statement);
    return done;
}

/* One transaction, so that what others add meanwhile is in it wholly or not at all. */
bool database_read(struct database *database, struct sweeps *sweeps, struct error *error) {
    *sweeps = (struct sweeps){0};
    allow_work(database);
    bool done = execute(database, "BEGIN", error);
    done = finish(database, done && read_all(database, sweeps, error), error);
    sweeps_sort(sweeps);
    return done;
}

/* ---- Adding what may be there ---- */

/* *there: the same result is; one of other contents is an error. */
static bool compare_row(struct database *database, sqlite3_stmt *statement,
                        const struct sweep_result *result, bool *there, struct error *error) {
    struct sweep_result old;
    const char *fault = read_result(statement, &old);
    *there = fault == NULL && sweep_results_equal(&old, result);
    free_samples(&old);
    return *there ||
           fail(error, EXIT_USER,
                "%.400s: has another result of \"%.200s\" at the same time; nothing was added",
                database->path, result->candidate);
}

static bool find_result(struct database *database, int64_t sweep, const struct sweep_result *result,
                        bool *there, struct error *error) {
    bool row = false;
    sqlite3_stmt *statement = prepare(database,
                                      "SELECT sweep, " RESULT_COLUMNS " FROM result"
                                      " WHERE sweep = ? AND candidate = ? AND measured = ?",
                                      error);
    *there = false;
    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, sweep);
    bind_text(statement, 2, result->candidate);
    sqlite3_bind_int64(statement, 3, result->measured);
    bool done = step(database, statement, &row, error) &&
                (!row || compare_row(database, statement, result, there, error));
    sqlite3_finalize(statement);
    return done;
}

static bool refuse_fault(const char *fault, struct error *error) {
    return fault == NULL || fail(error, EXIT_BUG, "a result that cannot be stored: %s", fault);
}

/* In a transaction. */
static bool add_result(struct database *database, const struct sweep_key *key,
                       const struct sweep_result *result, struct additions *additions,
                       struct error *error) {
    int64_t sweep = 0;
    bool there;
    allow_work(database);
    if (!refuse_fault(sweep_key_fault(key), error) ||
        !refuse_fault(sweep_result_fault(result), error) || !insert_sweep(database, key, error) ||
        !find_sweep(database, key, &sweep, error) ||
        !find_result(database, sweep, result, &there, error))
        return false;
    if (!there && !insert_result(database, sweep, result, error))
        return false;
    additions->known += there;
    additions->added += !there;
    return true;
}

bool database_add(struct database *database, const struct sweep_key *key,
                  const struct sweep_result *result, struct error *error) {
    struct additions additions = {0};
    return begin(database, error) &&
           finish(database, add_result(database, key, result, &additions, error), error);
}

static bool add_sweep(struct database *database, const struct sweep *sweep,
                      struct additions *additions, struct error *error) {
    for (size_t i = 0; i < sweep->count; i++)
        if (!add_result(database, &sweep->key, &sweep->results[i], additions, error))
            return false;
    return true;
}

bool database_add_all(struct database *database, const struct sweeps *sweeps,
                      struct additions *additions, struct error *error) {
    bool done = begin(database, error);
    *additions = (struct additions){0};
    if (!done)
        return false;
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = add_sweep(database, &sweeps->items[i], additions, error);
    return finish(database, done, error);
}

/* ---- Removing ---- */

static bool remove_result(struct database *database, int64_t sweep,
                          const struct sweep_result *result, struct error *error) {
    sqlite3_stmt *statement = prepare(
        database, "DELETE FROM result WHERE sweep = ? AND candidate = ? AND measured = ?", error);
    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, sweep);
    bind_text(statement, 2, result->candidate);
    sqlite3_bind_int64(statement, 3, result->measured);
    return run_once(database, statement, error);
}

static bool remove_sweep(struct database *database, const struct sweep *sweep,
                         struct error *error) {
    int64_t id;
    allow_work(database);
    bool done = find_sweep(database, &sweep->key, &id, error);
    for (size_t i = 0; done && i < sweep->count; i++)
        done = remove_result(database, id, &sweep->results[i], error);
    return done;
}

bool database_remove_all(struct database *database, const struct sweeps *sweeps,
                         struct error *error) {
    bool done = begin(database, error);
    if (!done)
        return false;
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = remove_sweep(database, &sweeps->items[i], error);
    done = done &&
           execute(database, "DELETE FROM sweep WHERE id NOT IN (SELECT sweep FROM result)", error);
    return finish(database, done, error);
}
