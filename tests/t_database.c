/* The tuning database and its text: what goes in comes out, whoever is killed or in the way.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tune/database.h"
#include "../tune/ranking.h"
#include "../tune/sweep_text.h"
#include "sweeps.h"
#include "tap.h"

static char folder[] = "/tmp/t_database.XXXXXX";
static char path[64];

static bool is_slow(void) {
    return getenv("KVMILL_TEST_SLOW") != NULL;
}

static struct database *open_as(enum database_use use) {
    struct error error;
    struct database *database = database_open(path, use, &error);
    if (database == NULL)
        bail_out("%s", error.text);
    return database;
}

static void remove_database(void) {
    char name[80];
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static char *print(const struct sweeps *sweeps) {
    struct text text = {0};
    struct error error;
    if (!sweeps_print(sweeps, &text, &error))
        bail_out("%s", error.text);
    return text.data;
}

static char *print_database(void) {
    struct sweeps sweeps;
    struct error error;
    struct database *database = open_as(DATABASE_READ);
    if (!database_read(database, &sweeps, &error))
        bail_out("%s", error.text);
    database_close(database);
    char *text = print(&sweeps);
    sweeps_free(&sweeps);
    return text;
}

static struct sweeps make_sweeps(int count) {
    struct sweeps sweeps = {0};
    for (int i = 0; i < count; i++)
        make_sweep(&sweeps, i, 0.01);
    return sweeps;
}

static void fill(int count) {
    struct sweeps sweeps = make_sweeps(count);
    struct additions additions;
    struct error error;
    struct database *database = open_as(DATABASE_CREATE);
    if (!database_add_all(database, &sweeps, &additions, &error))
        bail_out("%s", error.text);
    database_close(database);
    sweeps_free(&sweeps);
}

/* ---- There and back ---- */

static void test_round_trip(void) {
    struct sweeps sweeps = make_sweeps(4), back = {0};
    struct error error = {0};
    struct additions additions;
    char *text = print(&sweeps);
    ok(sweeps_parse("x", text, &back, &error) && back.count == 4, "a text is read back%s",
       error.text);
    char *again = print(&back);
    ok(strcmp(text, again) == 0, "and gives the same text");
    struct database *database = open_as(DATABASE_CREATE);
    bool done = database_add_all(database, &back, &additions, &error);
    ok(done && additions.added == 4 * 58 && additions.known == 0, "a database takes %d results",
       (int)additions.added);
    done = database_add_all(database, &sweeps, &additions, &error);
    ok(done && additions.added == 0 && additions.known == 4 * 58, "and knows them the second time");
    database_close(database);
    char *stored = print_database();
    ok(strcmp(text, stored) == 0, "what it gives has the same text");
    free(text);
    free(again);
    free(stored);
    sweeps_free(&sweeps);
    sweeps_free(&back);
}

static void test_conflict(void) {
    struct sweep_key key = made_key(0);
    struct sweep_result result = made_result(8, 4, 1, 0.02);
    struct error error = {0};
    char *before = print_database();
    struct database *database = open_as(DATABASE_WRITE);
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_USER &&
           strstr(error.text, "another result of \"tile=8 strip=4 path=half\""),
       "another result for the same candidate and time is refused");
    struct sweeps mixed = make_sweeps(5);
    struct additions additions;
    mixed.items[0].results[40].code_bytes++;
    struct sweep swap = mixed.items[0];
    mixed.items[0] = mixed.items[4];
    mixed.items[4] = swap;
    ok(!database_add_all(database, &mixed, &additions, &error),
       "also among many, some of them new");
    sweeps_free(&mixed);
    result.samples[0] = -1;
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_BUG,
       "and so is a sample below 0");
    database_close(database);
    char *after = print_database();
    ok(strcmp(before, after) == 0, "the database is as it was");
    free(before);
    free(after);
}

static void test_removal(void) {
    struct sweeps sweeps = make_sweeps(4);
    struct error error;
    struct sweeps some = {sweeps.items, 3};
    struct database *database = open_as(DATABASE_WRITE);
    ok(database_remove_all(database, &some, &error), "results are removed");
    database_close(database);
    struct sweeps rest = {sweeps.items + 3, 1};
    char *expected = print(&rest), *stored = print_database();
    ok(strcmp(expected, stored) == 0, "those and no others");
    free(expected);
    free(stored);
    sweeps_free(&sweeps);
}

/* ---- Texts that are cut or changed ---- */

static void expect_refusal(const char *text, const char *words, const char *name) {
    struct sweeps sweeps = {0};
    struct error error = {0};
    bool refused = !sweeps_parse("some.tune", text, &sweeps, &error);
    if (!ok(refused && error.exit_code == EXIT_USER && strncmp(error.text, "some.tune:", 10) == 0 &&
                strstr(error.text, words) != NULL,
            "%s is refused", name))
        diag("%s", refused ? error.text : "accepted");
    sweeps_free(&sweeps);
}

/* The first line that begins with `line` becomes `instead`. */
static char *replace(const char *text, const char *line, const char *instead) {
    char *changed = malloc(strlen(text) + strlen(instead) + 2);
    const char *at = strstr(text, line);
    if (changed == NULL || at == NULL)
        bail_out("no \"%s\"", line);
    size_t before = (size_t)(at - text) + 1;
    memcpy(changed, text, before);
    strcpy(changed + before, instead);
    strcat(changed, at + 1 + strcspn(at + 1, "\n") + (*instead == '\0'));
    return changed;
}

static void test_bad_texts(void) {
    static const struct {
        const char *line, *instead, *words;
    } changes[] = {
        {"\nthreads ", "threads 0", "threads \"0\": is not a value"},
        {"\nthreads ", "", "no threads before this line"},
        {"\nisa ", "isa avx2\nisa avx2", "is given twice"},
        {"\nbytes ", "bytes -1", "bytes \"-1\""},
        {"\nbytes ", "bytes 1e300", "bytes or flops that are not 0 or 1 to 1e18"},
        {"\nsweep", "sweeep", "accepted: sweep"},
        {"\nresult measured", "result fine tile=1", "accepted: result, then measured"},
        {"\nresult measured", "result compile tile=1", "failed, but with samples"},
        {"\ntime ", "time 2023-11-14", "is not a value of it"},
        {"\ntime ", "time 2023-02-31T00:00:00.000000Z", "is not a value of it"},
        {"\ntime ", "time 1969-12-31T23:59:59.000000Z", "of the years 1970 to 9999"},
        {"\ncode ", "code many", "is not a value of it"},
        {"\nlimit ", "limit bytes 0", "a limit that is not 1 to 1e18"},
        {"\nlimit ", "limit bits 1", "is not a value of it"},
        {"\nsamples ", "samples 1 2 x", "is not a value of it"},
        {"\nsamples ", "samples 1 2 nan", "is not a value of it"},
        {"\nsamples ", "samples 1 -2", "a sample that is not 1e-12 to 1e6"},
        {"\nsamples ", "samples 1 2 3", "as many samples and baselines"},
        {"\nsamples ", "", "measured, but without samples"},
        {"\ncode ", "kode 1", "\"kode\" is not known here"},
        {"\nend ", "end 57", "it is cut or changed"},
        {"\nend ", "", "has no end"},
        {"\nend ", "end 58\nsweep", "a line behind the end"},
    };
    struct sweeps sweeps = make_sweeps(1);
    char *text = print(&sweeps);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = replace(text, changes[i].line, changes[i].instead);
        expect_refusal(changed, changes[i].words, changes[i].words);
        free(changed);
    }
    expect_refusal("", "has no end", "an empty text");
    expect_refusal("kvmill-tune 2\n", "accepted: \"kvmill-tune 1\"", "another version");
    free(text);
    sweeps_free(&sweeps);
}

/* Wherever a text is cut, it is refused. */
static void test_cuts(void) {
    struct sweeps sweeps = make_sweeps(1);
    struct error error;
    char *text = print(&sweeps);
    size_t length = strlen(text), accepted = 0, cuts = 0, step = is_slow() ? 997 : 97;
    for (size_t cut = 0; cut + 1 < length; cut += cut + 100 < length ? step : 1, cuts++) {
        struct sweeps parsed = {0};
        char *part = strndup(text, cut);
        bool read = sweeps_parse("x", part, &parsed, &error);
        accepted += read;
        sweeps_free(&parsed);
        free(part);
    }
    ok(accepted == 0 && cuts > 20, "a text is refused wherever it is cut, %d places", (int)cuts);
    free(text);
    sweeps_free(&sweeps);
}

/* ---- Files that are no database of ours ---- */

static void expect_unusable(enum database_use use, int exit_code, const char *words,
                            const char *name) {
    struct error error = {0};
    struct sweeps sweeps = {0};
    struct database *database = database_open(path, use, &error);
    bool usable = database != NULL && database_read(database, &sweeps, &error);
    sweeps_free(&sweeps);
    database_close(database);
    if (!ok(!usable && error.exit_code == exit_code && strstr(error.text, words) &&
                strstr(error.text, path),
            "%s", name))
        diag("%s", usable ? "usable" : error.text);
}

static void write_file(const char *text, size_t length) {
    FILE *stream = fopen(path, "wb");
    if (stream == NULL || fwrite(text, 1, length, stream) != length || fclose(stream) != 0)
        bail_out("cannot write %s", path);
}

static void change(const char *sql) {
    sqlite3 *handle;
    if (sqlite3_open(path, &handle) != SQLITE_OK ||
        sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
        bail_out("%s: %s", sql, sqlite3_errmsg(handle));
    sqlite3_close(handle);
}

static void test_foreign(void) {
    remove_database();
    expect_unusable(DATABASE_READ, EXIT_USER, "No such file", "a database that is not there");
    write_file("", 0);
    expect_unusable(DATABASE_READ, EXIT_USER, "of another program, or empty", "an empty file");
    write_file("{\"kernels\": []} and so on, for longer than the head of a database "
               "is.......................................................",
               110);
    expect_unusable(DATABASE_READ, EXIT_USER, "is no tuning database", "a text");
    expect_unusable(DATABASE_CREATE, EXIT_USER, "is no tuning database", "a text, for writing");
    remove_database();
    change("CREATE TABLE other (x)");
    expect_unusable(DATABASE_READ, EXIT_USER, "of another program", "another program's database");
    expect_unusable(DATABASE_CREATE, EXIT_USER, "of another program", "the same for writing");
    remove_database();
    fill(1);
    change("PRAGMA user_version = 2");
    expect_unusable(DATABASE_READ, EXIT_USER, "of version 2; accepted: 1", "another version");
    expect_unusable(DATABASE_CREATE, EXIT_USER, "of version 2; accepted: 1",
                    "another version for writing");
    change("PRAGMA user_version = 1; UPDATE result SET samples = '1 x' WHERE id = 3");
    expect_unusable(DATABASE_READ, EXIT_USER, "has a fault", "samples that are no numbers");
    change("UPDATE result SET samples = '' WHERE id = 3");
    expect_unusable(DATABASE_READ, EXIT_USER, "has a fault", "measured, without samples");
    remove_database();
    fill(1);
    change("UPDATE result SET measured = 253402300800000000 WHERE id = 3");
    expect_unusable(DATABASE_READ, EXIT_USER, "has a fault", "a time that no text can say");
}

static size_t read_whole(char **data) {
    struct stat status;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL || fstat(fileno(stream), &status) != 0 ||
        (*data = malloc((size_t)status.st_size)) == NULL)
        bail_out("cannot read %s", path);
    size_t length = fread(*data, 1, (size_t)status.st_size, stream);
    fclose(stream);
    return length;
}

/* Cut anywhere or with a page of zeros anywhere, it is refused or gives results that were in it:
   nothing crashes, nothing is made up. */
static void test_damage(void) {
    char *data, *whole;
    struct error error;
    int refused = 0, different = 0, cases = 0;
    remove_database();
    fill(2);
    change("PRAGMA journal_mode = DELETE");
    whole = print_database();
    size_t length = read_whole(&data);
    for (size_t at = 512; at < length; at += is_slow() ? 12000 : 4096 / 3, cases++) {
        char *copy = malloc(length);
        memcpy(copy, data, length);
        memset(copy + at, 0, length - at < 700 ? length - at : 700);
        remove_database();
        write_file(copy, cases % 2 ? length : at);
        free(copy);
        struct sweeps sweeps = {0};
        struct database *database = database_open(path, DATABASE_WRITE, &error);
        bool read = database != NULL && database_read(database, &sweeps, &error);
        char *text = read ? print(&sweeps) : NULL;
        different += read && strcmp(text, whole) != 0;
        refused += !read && error.exit_code == EXIT_USER;
        free(text);
        sweeps_free(&sweeps);
        database_close(database);
    }
    ok(different == 0, "damage is seen, or harmless");
    ok(refused > cases / 2, "%d of %d damaged files are refused", refused, cases);
    free(data);
    free(whole);
}

/* ---- Made to do harm ---- */

enum { PAGE = 4096, LEVELS = 15, CHILDREN = 400 };

static void put(char *at, int bytes, unsigned value) {
    for (int i = bytes; i-- > 0; value >>= 8)
        at[i] = (char)value;
}

/* An inner page of a table, all of whose children are one page. */
static void make_inner(char *page, unsigned child) {
    enum { HEAD = 12, CELL = 5, ROW = 1 };
    memset(page, 0, PAGE);
    page[0] = 5;
    put(page + 3, 2, CHILDREN);
    put(page + 5, 2, PAGE - CHILDREN * CELL);
    put(page + 8, 4, child);
    for (int i = 0; i < CHILDREN; i++) {
        char *cell = page + PAGE - (i + 1) * CELL;
        put(page + HEAD + 2 * i, 2, (unsigned)(cell - page));
        put(cell, 4, child);
        cell[4] = ROW;
    }
}

static unsigned root_of_sweeps(void) {
    sqlite3 *handle;
    sqlite3_stmt *statement;
    sqlite3_open(path, &handle);
    sqlite3_prepare_v2(handle, "SELECT rootpage FROM sqlite_schema WHERE name = 'sweep'", -1,
                       &statement, NULL);
    sqlite3_step(statement);
    unsigned root = (unsigned)sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(handle);
    return root;
}

static void test_other_schemas(void) {
    static const struct {
        const char *sql, *words, *name;
    } cases[] = {
        {"CREATE TRIGGER lose AFTER INSERT ON result BEGIN DELETE FROM result; END",
         "has a trigger \"lose\" that is not kvmill's", "a trigger"},
        {"ALTER TABLE result RENAME TO old; CREATE VIEW result AS WITH RECURSIVE n(i) AS (SELECT 1 "
         "UNION ALL SELECT i + 1 FROM n) SELECT old.* FROM old, n",
         "not kvmill's", "an endless view in the place of a table"},
        {"CREATE TABLE more (a)", "has a table \"more\" that", "a table more"},
        {"DROP TABLE result", "lacks a table", "a table less"},
        {"CREATE INDEX by_time ON result (measured)", "has a index \"by_time\" that", "an index"},
        {"DROP TABLE result; CREATE TABLE result (id INTEGER PRIMARY KEY, sweep, candidate, "
         "is_default, outcome, message, samples, baseline, limit_kind, limit_rate, code_bytes, "
         "measured, environment, UNIQUE (sweep, candidate, measured))",
         "has a table \"result\" that", "another definition of a table"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remove_database();
        fill(1);
        change("PRAGMA journal_mode = DELETE");
        change(cases[i].sql);
        expect_unusable(DATABASE_READ, EXIT_USER, cases[i].words, cases[i].name);
        expect_unusable(DATABASE_CREATE, EXIT_USER, cases[i].words, "  to write, too");
    }
}

static void test_unknown_format(void) {
    char *data;
    remove_database();
    fill(1);
    change("PRAGMA journal_mode = DELETE");
    size_t length = read_whole(&data);
    put(data + 44, 4, 77);
    write_file(data, length);
    expect_unusable(DATABASE_READ, EXIT_USER, "SQLite", "a format that SQLite does not know");
    free(data);
}

static void test_names(void) {
    static const char *const names[] = {":memory:", "", "file:x.sqlite", "file::memory:"};
    struct error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ok(database_open(names[i], DATABASE_CREATE, &error) == NULL &&
               error.exit_code == EXIT_USER && strstr(error.text, "accepted: the name of a file"),
           "refused: a database called \"%s\"", names[i]);
}

/* What a terminal would obey is in no result, whoever stored it. */
static void test_control_characters(void) {
    static const char *const columns[] = {"UPDATE sweep SET cpu = 'a' || char(27) || '[2J'",
                                          "UPDATE result SET candidate = 'a' || char(7)",
                                          "UPDATE result SET environment = 'a' || char(155)",
                                          "UPDATE result SET message = 'a' || char(27) || '[2J'"};
    struct error error;
    char shown[64];
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct sweeps sweeps;
        remove_database();
        fill(1);
        change("PRAGMA journal_mode = DELETE");
        change("DELETE FROM result WHERE id > 1");
        change(columns[i]);
        struct database *database = open_as(DATABASE_READ);
        ok(!database_read(database, &sweeps, &error) && error.exit_code == EXIT_USER &&
               strstr(error.text, "control character"),
           "refused: %s", columns[i]);
        database_close(database);
        sweeps_free(&sweeps);
    }
    text_show("\x1b[2J\xc2\x9b"
              "1\xff \xc3\xa4\n\x7f",
              shown, sizeof shown);
    ok(strcmp(shown, "\\x1b[2J\\xc2\\x9b1\\xff \xc3\xa4\n\\x7f") == 0,
       "control characters are shown in hexadecimal");
    text_show("abc\x01", shown, 7);
    ok(strcmp(shown, "abc") == 0, "and cut where it does not fit");
}

/* A table that is 400 times itself, fifteen times over. */
static void test_endless(void) {
    char *data;
    struct error error;
    struct sweeps sweeps = {0};
    remove_database();
    fill(2);
    change("PRAGMA journal_mode = DELETE");
    unsigned root = root_of_sweeps();
    size_t length = read_whole(&data), pages = length / PAGE;
    char *larger = calloc(pages + LEVELS, PAGE);
    memcpy(larger, data, length);
    memcpy(larger + pages * PAGE, larger + (root - 1) * PAGE, PAGE);
    for (unsigned i = 1; i < LEVELS; i++)
        make_inner(larger + (pages + i) * PAGE, (unsigned)pages + i);
    make_inner(larger + (root - 1) * PAGE, (unsigned)pages + LEVELS);
    put(larger + 28, 4, (unsigned)pages + LEVELS);
    remove_database();
    write_file(larger, (pages + LEVELS) * PAGE);
    struct database *database = database_open(path, DATABASE_READ, &error);
    ok(database != NULL, "a table of its own size to the fifteenth is opened");
    ok(database != NULL && !database_read(database, &sweeps, &error) &&
           error.exit_code == EXIT_USER,
       "and refused when it takes too long");
    diag("%s", error.text);
    database_close(database);
    sweeps_free(&sweeps);
    remove_database();
    free(larger);
    free(data);
}

/* ---- Others, and the system ---- */

static pid_t start(void (*work)(int), int argument) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        bail_out("cannot fork: %s", strerror(errno));
    if (child == 0) {
        work(argument);
        _exit(0);
    }
    return child;
}

static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* One result after the other, until killed or done, a byte for each into standard output. */
static void write_results(int which) {
    struct sweeps sweeps = {0};
    struct error error;
    make_sweep(&sweeps, which, 0.01);
    struct database *database = database_open(path, DATABASE_CREATE, &error);
    for (size_t i = 0; database != NULL && i < sweeps.items[0].count; i++)
        if (!database_add(database, &sweeps.items[0].key, &sweeps.items[0].results[i], &error) ||
            write(STDOUT_FILENO, ".", 1) != 1)
            _exit(1);
    database_close(database);
    sweeps_free(&sweeps);
    if (database == NULL)
        _exit(2);
}

/* Closed when all writers are there, so that they begin together. */
static int gate[2];

static void write_quietly(int which) {
    char byte;
    close(gate[1]);
    while (read(gate[0], &byte, 1) > 0)
        ;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    close(null);
    write_results(which);
}

static size_t count_results(void) {
    struct sweeps sweeps;
    struct error error;
    size_t count = 0;
    struct database *database = open_as(DATABASE_WRITE);
    if (!database_check(database, &error) || !database_read(database, &sweeps, &error))
        bail_out("%s", error.text);
    for (size_t i = 0; i < sweeps.count; i++)
        count += sweeps.items[i].count;
    sweeps_free(&sweeps);
    database_close(database);
    return count;
}

static void test_two_writers(void) {
    remove_database();
    pid_t children[4];
    int bad = 0;
    if (pipe(gate) != 0)
        bail_out("no pipe");
    for (int i = 0; i < 4; i++)
        children[i] = start(write_quietly, i);
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < 4; i++)
        bad += wait_for(children[i]) != 0;
    struct sweeps sweeps = make_sweeps(4);
    char *expected = print(&sweeps), *stored = print_database();
    ok(bad == 0, "four processes write to one new database at once");
    ok(strcmp(expected, stored) == 0, "and all that they wrote is in it");
    free(expected);
    free(stored);
    sweeps_free(&sweeps);
}

/* What the writer has said to be stored is there; at most the one under way is, too. */
static void test_kill(void) {
    int wrong = 0, inner = 0;
    for (int round = 0; round < 12; round++) {
        int pipes[2];
        char byte;
        size_t said = 0;
        remove_database();
        if (pipe(pipes) != 0)
            bail_out("no pipe");
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(pipes[1], STDOUT_FILENO);
            write_results(0);
            _exit(0);
        }
        close(pipes[1]);
        while (said < (size_t)(1 + 4 * round) && read(pipes[0], &byte, 1) == 1)
            said++;
        usleep((useconds_t)round * 137);
        kill(child, SIGKILL);
        int status = wait_for(child);
        while (read(pipes[0], &byte, 1) == 1)
            said++;
        close(pipes[0]);
        size_t stored = count_results();
        wrong += stored != said && stored != said + 1;
        inner += WIFSIGNALED(status);
    }
    ok(wrong == 0, "a writer that is killed loses at most the result under way");
    ok(inner > 4, "%d of 12 were killed in the middle", inner);
}

static void set_limit(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void test_full_disk(void) {
    struct sweeps sweeps = make_sweeps(3);
    struct additions additions;
    struct error error = {0};
    struct stat status;
    remove_database();
    fill(1);
    char *before = print_database();
    stat(path, &status);
    signal(SIGXFSZ, SIG_IGN);
    struct database *database = open_as(DATABASE_WRITE);
    set_limit((rlim_t)status.st_size / 2);
    bool done = database_add_all(database, &sweeps, &additions, &error);
    if (!ok(!done && error.exit_code == EXIT_ENVIRONMENT && strstr(error.text, "before is whole"),
            "a full disk is said"))
        diag("%s", error.text);
    database_close(database);
    set_limit(RLIM_INFINITY);
    char *after = print_database();
    ok(strcmp(before, after) == 0, "and the database has what it had");
    ok(count_results() == 58, "and can be written again");
    free(before);
    free(after);
    sweeps_free(&sweeps);
}

static void test_read_only(void) {
    struct sweep_key key = made_key(2);
    struct sweep_result result = made_result(8, 4, 1, 0.02);
    struct error error = {0};
    struct database *database = open_as(DATABASE_READ);
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_ENVIRONMENT &&
           strstr(error.text, "read-only"),
       "what is open for reading is not written");
    database_close(database);
}

/* ---- What a sweep shows ---- */

static void test_ranking(void) {
    struct sweeps sweeps = {0};
    struct ranking ranking;
    struct error error;
    char reason[REASON_SIZE];
    make_sweep(&sweeps, 0, 0.01);
    bool done = sweep_rank(&sweeps.items[0], &ranking, &error);
    ok(done && ranking.count == 58 && ranking_has_default(&ranking) &&
           strcmp(ranking.items[0].result->candidate, "tile=2 strip=2 path=float") == 0,
       "a ranking begins with the default");
    const struct standing *best = &ranking.items[1], *last = &ranking.items[57];
    ok(strcmp(best->result->candidate, "tile=8 strip=4 path=half") == 0 &&
           best->gain.median > 1.45 && best->gain.median < 1.55 && ranking.winner == 1,
       "the fastest wins: %s, %.2f", best->result->candidate, best->gain.median);
    ok(best->share > 0.7 && best->share < 0.9, "at %.2f of the limit", best->share);
    ok(last->result->outcome == OUTCOME_COMPILE && last->time.count == 0, "failures are last");
    ranking_reason(&ranking, reason);
    ok(strstr(reason, "the fastest"), "because it is %s", reason);
    ranking_free(&ranking);
    struct sweep without = sweeps.items[0];
    for (size_t i = 0; i < without.count; i++)
        without.results[i].is_default = false;
    ok(sweep_rank(&without, &ranking, &error) && ranking.winner == -1 &&
           !ranking_has_default(&ranking),
       "without a default there is no winner");
    ranking_free(&ranking);
    sweeps_free(&sweeps);
}

/* Of several results for a candidate the one with the most samples counts, of those the latest. */
static void test_standing(void) {
    static const struct {
        int samples, hour;
    } results[] = {{5, 9}, {15, 3}, {15, 4}, {15, 2}, {7, 8}};
    struct sweeps sweeps = {0};
    struct sweep_key key = made_key(0);
    struct ranking ranking;
    struct error error;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        struct sweep_result result = made_result(2, 2, 0, 0);
        result.sample_count = results[i].samples;
        result.measured += 3600000000ll * results[i].hour;
        if (!sweeps_add(&sweeps, &key, &result, &error))
            bail_out("%s", error.text);
    }
    sweeps_sort(&sweeps);
    bool done = sweep_rank(&sweeps.items[0], &ranking, &error);
    int64_t hour = (ranking.items[0].result->measured - 1700000000000000) / 3600000000ll;
    ok(done && ranking.count == 1 && ranking.items[0].time.count == 15 && hour == 4,
       "a candidate stands by its longest measurement, of those by the latest: hour %d", (int)hour);
    ranking_free(&ranking);
    sweeps_free(&sweeps);
}

int main(void) {
    if (mkdtemp(folder) == NULL)
        bail_out("cannot make %s: %s", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/db.sqlite", folder);
    test_round_trip();
    test_conflict();
    test_removal();
    test_bad_texts();
    test_cuts();
    test_foreign();
    test_damage();
    test_other_schemas();
    test_unknown_format();
    test_names();
    test_control_characters();
    test_endless();
    test_two_writers();
    test_kill();
    test_full_disk();
    test_read_only();
    test_ranking();
    test_standing();
    remove_database();
    rmdir(folder);
    return done_testing();
}
