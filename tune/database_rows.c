/* Adds, reads and removes sweeps and results as rows.

   SPDX-License-Identifier: Apache-2.0 */
#include "database.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "database_handle.h"
#include "sweep_text.h"

/* ---- Binding values to statements; positions count from 1 ---- */

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    database_bind(statement, at, text, -1);
}

static bool bind_samples(sqlite3_stmt *statement, int at, const double *samples, int count,
                         struct error *error) {
    struct text text = {0};
    bool done = samples_print(samples, samples != NULL ? count : 0, &text);
    if (done)
        bind_text(statement, at, text.data);
    text_free(&text);
    return done || out_of_memory(error);
}

/* The columns of a key: its strings, in the order of sweep_key_names, then threads, bytes and
   flops. */
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

/* Binds the first line of a message, truncated if it is long. */
static void bind_message(sqlite3_stmt *statement, const char *message) {
    enum { LONGEST = 500 };
    size_t length = strcspn(message, "\n");
    database_bind(statement, MESSAGE_AT, message, (int)(length < LONGEST ? length : LONGEST));
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
    bool row, done = database_step(database, statement, &row, error);
    sqlite3_finalize(statement);
    return done;
}

static bool insert_sweep(struct database *database, const struct sweep_key *key,
                         struct error *error) {
    sqlite3_stmt *statement = database_prepare(database,
                                               "INSERT OR IGNORE INTO sweep (" KEY_COLUMNS
                                               ", spec_hash) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                                               error);
    if (statement == NULL)
        return false;
    bind_key(statement, key);
    return run_once(database, statement, error);
}

/* Finds the row of a sweep.  *id is 0 if there is none. */
static bool find_sweep(struct database *database, const struct sweep_key *key, int64_t *id,
                       struct error *error) {
    bool row = false;
    sqlite3_stmt *statement = database_prepare(
        database,
        "SELECT id FROM sweep WHERE cpu = ? AND compiler = ? AND flags = ? AND templates = ?"
        " AND isa = ? AND spec = ? AND problem = ? AND threads = ? AND bytes = ?"
        " AND flops = ? AND spec_hash = ?",
        error);
    if (statement == NULL)
        return false;
    bind_key(statement, key);
    bool done = database_step(database, statement, &row, error);
    *id = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return done;
}

static bool insert_result(struct database *database, int64_t sweep,
                          const struct sweep_result *result, struct error *error) {
    sqlite3_stmt *statement = database_prepare(
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
    const char *text = database_text(statement, at - 1);
    return text != NULL ? text : "";
}

static void read_key(sqlite3_stmt *statement, struct sweep_key *key) {
    for (int i = 0; i < KEY_STRINGS; i++)
        *sweep_key_string(key, i) = (char *)column(statement, i + 1);
    key->threads = sqlite3_column_int(statement, THREADS_AT - 1);
    key->bytes = sqlite3_column_double(statement, BYTES_AT - 1);
    key->flops = sqlite3_column_double(statement, FLOPS_AT - 1);
}

static void drop_baseline(struct sweep_result *result) {
    free(result->baseline);
    result->baseline = NULL;
}

static void free_samples(struct sweep_result *result) {
    free(result->samples);
    drop_baseline(result);
}

/* A stored result. */
struct row {
    struct sweep_result result; /* the statement owns the strings; samples are malloced */
    int samples, baselines;     /* how many; -1: not a list of numbers */
    bool has_words;             /* its words for limit and outcome are known */
};

/* Reads a row.  Free the samples also after a failure. */
static bool read_row(sqlite3_stmt *statement, struct row *row, struct error *error) {
    struct sweep_result *r = &row->result;
    *r = (struct sweep_result){
        .candidate = (char *)column(statement, CANDIDATE_AT),
        .measured = sqlite3_column_int64(statement, MEASURED_AT - 1),
        .is_default = sqlite3_column_int(statement, DEFAULT_AT - 1) != 0,
        .message = (char *)column(statement, MESSAGE_AT),
        .samples = samples_parse(column(statement, SAMPLES_AT), &row->samples),
        .baseline = samples_parse(column(statement, BASELINE_AT), &row->baselines),
        .limit_rate = sqlite3_column_double(statement, RATE_AT - 1),
        .code_bytes = sqlite3_column_int64(statement, CODE_AT - 1),
        .environment = (char *)column(statement, ENVIRONMENT_AT),
    };
    row->has_words = limit_by_word(column(statement, LIMIT_AT), &r->limit) &&
                     outcome_by_word(column(statement, OUTCOME_AT), &r->outcome);
    r->sample_count = row->samples;
    if ((r->samples == NULL && row->samples >= 0) || (r->baseline == NULL && row->baselines >= 0))
        return out_of_memory(error);
    if (row->baselines == 0)
        drop_baseline(r);
    return database_has_texts(error);
}

static const char *row_fault(const struct row *row) {
    if (row->samples < 0 || row->baselines < 0)
        return "samples that are not numbers";
    if (row->baselines != 0 && row->baselines != row->samples)
        return "not as many baselines as samples";
    if (!row->has_words)
        return "an unknown outcome or limit";
    return sweep_result_fault(&row->result);
}

static bool refuse_row(struct database *database, const char *candidate, const char *fault,
                       struct error *error) {
    return fail(
        error, EXIT_USER,
        "%.400s: the result of \"%.200s\" is damaged: %s; restore the database, or import an "
        "export of it into a new one",
        database->path, candidate, fault);
}

static bool add_row(struct database *database, sqlite3_stmt *statement, const struct sweep_key *key,
                    struct sweeps *sweeps, struct error *error) {
    struct row row;
    if (!database_count_row(database, error))
        return false;
    bool done = read_row(statement, &row, error);
    const char *fault = done ? row_fault(&row) : NULL;
    if (fault != NULL)
        done = refuse_row(database, row.result.candidate, fault, error);
    done = done && sweeps_add(sweeps, key, &row.result, error);
    free_samples(&row.result);
    return done;
}

/* Reads the results of a sweep.  Their first column is the sweep; another statement reads its
   key. */
static bool read_results(struct database *database, int64_t sweep, const struct sweep_key *key,
                         struct sweeps *sweeps, struct error *error) {
    bool row = true, done = true;
    sqlite3_stmt *statement = database_prepare(
        database, "SELECT sweep, " RESULT_COLUMNS " FROM result WHERE sweep = ?", error);
    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, sweep);
    while (done && (done = database_step(database, statement, &row, error)) && row)
        done = add_row(database, statement, key, sweeps, error);
    sqlite3_finalize(statement);
    return done;
}

static bool read_sweep(struct database *database, sqlite3_stmt *statement, struct sweeps *sweeps,
                       struct error *error) {
    struct sweep_key key = {0};
    if (!database_count_row(database, error))
        return false;
    read_key(statement, &key);
    if (!database_has_texts(error))
        return false;
    const char *fault = sweep_key_fault(&key);
    if (fault != NULL)
        return refuse_row(database, key.spec, fault, error);
    return read_results(database, sqlite3_column_int64(statement, FLOPS_AT), &key, sweeps, error);
}

static bool read_all(struct database *database, struct sweeps *sweeps, struct error *error) {
    bool row = true, done = true;
    sqlite3_stmt *statement =
        database_prepare(database, "SELECT " KEY_COLUMNS ", id FROM sweep", error);
    if (statement == NULL)
        return false;
    while (done && (done = database_step(database, statement, &row, error)) && row)
        done = read_sweep(database, statement, sweeps, error);
    sqlite3_finalize(statement);
    return done;
}

/* Reads in one transaction, so that a transaction of another process is seen completely or not at
   all. */
bool database_read(struct database *database, struct sweeps *sweeps, struct error *error) {
    *sweeps = (struct sweeps){0};
    database_allow_work(database);
    bool done = database_execute(database, "BEGIN", error);
    done = database_finish(database, done && read_all(database, sweeps, error), error);
    sweeps_sort(sweeps);
    return done;
}

/* ---- Adding results that may exist ---- */

/* Compares a row with a result.  *there tells that they are equal; if they differ, fails. */
static bool compare_row(struct database *database, sqlite3_stmt *statement,
                        const struct sweep_result *result, bool *there, struct error *error) {
    struct row old;
    bool done = read_row(statement, &old, error);
    *there = done && row_fault(&old) == NULL && sweep_results_equal(&old.result, result);
    free_samples(&old.result);
    if (!done || *there)
        return done;
    return fail(error, EXIT_USER,
                "%.400s: has another result of \"%.200s\" at the same time; nothing was added",
                database->path, result->candidate);
}

static bool find_result(struct database *database, int64_t sweep, const struct sweep_result *result,
                        bool *there, struct error *error) {
    bool row = false;
    sqlite3_stmt *statement =
        database_prepare(database,
                         "SELECT sweep, " RESULT_COLUMNS " FROM result"
                         " WHERE sweep = ? AND candidate = ? AND measured = ?",
                         error);
    *there = false;
    if (statement == NULL)
        return false;
    sqlite3_bind_int64(statement, 1, sweep);
    bind_text(statement, 2, result->candidate);
    sqlite3_bind_int64(statement, 3, result->measured);
    bool done = database_step(database, statement, &row, error) &&
                (!row || compare_row(database, statement, result, there, error));
    sqlite3_finalize(statement);
    return done;
}

static bool refuse_fault(const char *fault, struct error *error) {
    return fault == NULL || fail(error, EXIT_BUG, "a result that cannot be stored: %s", fault);
}

/* Adds a result.  Must be called in a transaction. */
static bool add_result(struct database *database, const struct sweep_key *key,
                       const struct sweep_result *result, struct additions *additions,
                       struct error *error) {
    int64_t sweep = 0;
    bool there;
    database_allow_work(database);
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
    return database_begin(database, error) &&
           database_finish(database, add_result(database, key, result, &additions, error), error);
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
    bool done = database_begin(database, error);
    *additions = (struct additions){0};
    if (!done)
        return false;
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = add_sweep(database, &sweeps->items[i], additions, error);
    return database_finish(database, done, error);
}

/* ---- Removing ---- */

static bool remove_result(struct database *database, int64_t sweep,
                          const struct sweep_result *result, struct error *error) {
    sqlite3_stmt *statement = database_prepare(
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
    database_allow_work(database);
    bool done = find_sweep(database, &sweep->key, &id, error);
    for (size_t i = 0; done && i < sweep->count; i++)
        done = remove_result(database, id, &sweep->results[i], error);
    return done;
}

bool database_remove_all(struct database *database, const struct sweeps *sweeps,
                         struct error *error) {
    bool done = database_begin(database, error);
    if (!done)
        return false;
    for (size_t i = 0; done && i < sweeps->count; i++)
        done = remove_sweep(database, &sweeps->items[i], error);
    done = done &&
           database_execute(database,
                            "DELETE FROM sweep WHERE id NOT IN (SELECT sweep FROM result)", error);
    return database_finish(database, done, error);
}
