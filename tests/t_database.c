/* The tuning database: what is stored is read again, even if a process is killed or several write.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tune/database.h"
#include "../tune/sweep_text.h"
#include "common.h"
#include "sweeps.h"

static const char *path; /* of the database */
static struct error error;
static struct additions additions;

static struct database *open_as(enum database_use use) {
    struct database *database = database_open(path, use, &error);
    must(database != NULL, error.text);
    return database;
}

static void remove_database(void) {
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < COUNT(ends); i++)
        unlink(scratch_path("db.sqlite%s", ends[i]));
}

static char *print_database(void) {
    OWN(sweeps_free) struct sweeps sweeps;
    struct database *database = open_as(DATABASE_READ);
    must(database_read(database, &sweeps, &error), error.text);
    database_close(database);
    return sweeps_text(&sweeps);
}

static void change(const char *sql) {
    sqlite3 *handle;
    if (sqlite3_open(path, &handle) != SQLITE_OK ||
        sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
        bail_out("%s: %s", sql, sqlite3_errmsg(handle));
    sqlite3_close(handle);
}

/* Makes a database with `count` sweeps, in one file. */
static void fill(int count) {
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(count);
    remove_database();
    struct database *database = open_as(DATABASE_CREATE);
    must(database_add_all(database, &sweeps, &additions, &error), error.text);
    database_close(database);
    change("PRAGMA journal_mode = DELETE");
}

/* Compares two texts and frees them. */
static void expect_same(char *got, char *wanted, const char *name) {
    ok_text(got, wanted, "%s", name);
    free(got);
    free(wanted);
}

/* ---- There and back ---- */

TEST(round_trip) {
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(4), back = {0};
    char *text = sweeps_text(&sweeps);
    ok(sweeps_parse("x", text, &back, &error) && back.count == 4, "a text is read back%s",
       error.text);
    expect_same(sweeps_text(&back), strdup(text), "and gives the same text");
    struct database *database = open_as(DATABASE_CREATE);
    bool done = database_add_all(database, &back, &additions, &error);
    ok(done && additions.added == 4 * 58 && additions.known == 0, "a database takes %d results",
       (int)additions.added);
    done = database_add_all(database, &sweeps, &additions, &error);
    ok(done && additions.added == 0 && additions.known == 4 * 58, "and knows them the second time");
    database_close(database);
    expect_same(print_database(), text, "what it gives has the same text");
}

TEST(conflict) {
    struct sweep_key key = made_key(0);
    struct sweep_result result = made_result(8, 4, 1, 0.02);
    char *before = print_database();
    struct database *database = open_as(DATABASE_WRITE);
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_USER &&
           strstr(error.text, "another result of \"tile=8 strip=4 path=half\""),
       "another result for the same candidate and time is refused");
    OWN(sweeps_free) struct sweeps mixed = make_sweeps(5);
    mixed.items[0].results[40].code_bytes++;
    struct sweep swap = mixed.items[0];
    mixed.items[0] = mixed.items[4];
    mixed.items[4] = swap;
    ok(!database_add_all(database, &mixed, &additions, &error),
       "also among many, some of them new");
    result.samples[0] = -1;
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_BUG,
       "and so is a sample below 0");
    database_close(database);
    expect_same(print_database(), before, "the database is as it was");
}

TEST(removal) {
    struct sweeps sweeps = make_sweeps(4), some = {sweeps.items, 3}, rest = {sweeps.items + 3, 1};
    struct database *database = open_as(DATABASE_WRITE);
    ok(database_remove_all(database, &some, &error), "results are removed");
    database_close(database);
    expect_same(print_database(), sweeps_text(&rest), "those and no others");
    sweeps_free(&sweeps);
}

/* ---- Files that are not databases of this program ---- */

static void expect_unusable(enum database_use use, const char *words, const char *name) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    error = (struct error){0};
    struct database *database = database_open(path, use, &error);
    bool usable = database != NULL && database_read(database, &sweeps, &error);
    database_close(database);
    ok_failed(usable, &error, EXIT_USER, NULL, words, "refused: %s%s", name,
              use == DATABASE_READ ? "" : ", for writing");
    ok(strstr(error.text, path) != NULL, "  by its path");
}

ROWS(schema, 3) {
    fill(1);
    change(cells[1]);
    expect_unusable(DATABASE_READ, cells[2], cells[0]);
    expect_unusable(DATABASE_CREATE, cells[2], cells[0]);
}

ROWS(file, 3) {
    remove_database();
    write_text(path, cells[1]);
    expect_unusable(DATABASE_READ, cells[2], cells[0]);
}

ROWS(value, 3) {
    fill(1);
    change(cells[1]);
    expect_unusable(DATABASE_READ, cells[2], cells[0]);
}

ROWS(name, 1) {
    ok_failed(database_open(cells[0], DATABASE_CREATE, &error) != NULL, &error, EXIT_USER, NULL,
              "accepted: the name of a file", "refused: a database called \"%s\"", cells[0]);
}

TABLE(database);

TEST(foreign) {
    remove_database();
    expect_unusable(DATABASE_READ, "No such file", "a database that is not there");
    write_text(path,
               "a text that is longer than the head of a database: it has a hundred bytes ......");
    expect_unusable(DATABASE_CREATE, "is not a tuning database", "a text");
    remove_database();
    change("CREATE TABLE other (x)");
    expect_unusable(DATABASE_READ, "of another program", "another program's database");
    expect_unusable(DATABASE_CREATE, "of another program", "another program's database");
}

/* A database that is cut anywhere, or has a page of zeros anywhere, is refused or gives results
   that were in it: no crash, and no invented results. */
TEST(damage) {
    int refused = 0, different = 0, cases = 0;
    size_t length;
    fill(2);
    FREED char *whole = print_database(), *data = read_bytes(path, &length);
    for (size_t at = 512; at < length; at += is_slow_run() ? 12000 : 4096 / 3, cases++) {
        FREED char *copy = malloc(length);
        memcpy(copy, data, length);
        memset(copy + at, 0, length - at < 700 ? length - at : 700);
        remove_database();
        write_bytes(path, copy, cases % 2 ? length : at);
        OWN(sweeps_free) struct sweeps sweeps = {0};
        struct database *database = database_open(path, DATABASE_WRITE, &error);
        bool read = database != NULL && database_read(database, &sweeps, &error);
        FREED char *text = read ? sweeps_text(&sweeps) : NULL;
        different += read && strcmp(text, whole) != 0;
        refused += !read && error.exit_code == EXIT_USER;
        database_close(database);
    }
    ok(different == 0, "damage is seen, or harmless");
    ok(refused > cases / 2, "%d of %d damaged files are refused", refused, cases);
}

/* ---- Malicious databases ---- */

enum { PAGE = 4096, LEVELS = 15, CHILDREN = 400 };

static void put(char *at, int bytes, unsigned value) {
    for (int i = bytes; i-- > 0; value >>= 8)
        at[i] = (char)value;
}

/* Makes an inner page of a table; all its children are one page. */
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

TEST(unknown_format) {
    size_t length;
    fill(1);
    FREED char *data = read_bytes(path, &length);
    put(data + 44, 4, 77);
    write_bytes(path, data, length);
    expect_unusable(DATABASE_READ, "SQLite", "a format that SQLite does not know");
}

/* Control characters of terminals are shown in hexadecimal. */
TEST(control_characters) {
    char shown[64];
    text_show("\x1b[2J\xc2\x9b"
              "1\xff \xc3\xa4\n\x7f",
              shown, sizeof shown);
    ok_text(shown, "\\x1b[2J\\xc2\\x9b1\\xff \xc3\xa4\n\\x7f", "control characters are shown");
    text_show("abc\x01", shown, 7);
    ok_text(shown, "abc", "and cut where they do not fit");
}

/* A table that is 400 times itself, fifteen levels deep. */
TEST(endless) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    size_t length;
    fill(2);
    unsigned root = root_of_sweeps();
    FREED char *data = read_bytes(path, &length);
    size_t pages = length / PAGE;
    FREED char *larger = calloc(pages + LEVELS, PAGE);
    memcpy(larger, data, length);
    memcpy(larger + pages * PAGE, larger + (root - 1) * PAGE, PAGE);
    for (unsigned i = 1; i < LEVELS; i++)
        make_inner(larger + (pages + i) * PAGE, (unsigned)pages + i);
    make_inner(larger + (root - 1) * PAGE, (unsigned)pages + LEVELS);
    put(larger + 28, 4, (unsigned)pages + LEVELS);
    remove_database();
    write_bytes(path, larger, (pages + LEVELS) * PAGE);
    struct database *database = database_open(path, DATABASE_READ, &error);
    ok(database != NULL, "a table of its own size to the fifteenth is opened");
    ok(database != NULL && !database_read(database, &sweeps, &error) &&
           error.exit_code == EXIT_USER,
       "and refused when it takes too long");
    diag("%s", error.text);
    database_close(database);
    remove_database();
}

/* ---- Other processes and the system ---- */

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

/* Writes results one by one, until killed or done, and a byte for each to standard output. */
static void write_results(int which) {
    OWN(sweeps_free) struct sweeps sweeps = {0};
    make_sweep(&sweeps, which, 0.01);
    struct database *database = database_open(path, DATABASE_CREATE, &error);
    for (size_t i = 0; database != NULL && i < sweeps.items[0].count; i++)
        if (!database_add(database, &sweeps.items[0].key, &sweeps.items[0].results[i], &error) ||
            write(STDOUT_FILENO, ".", 1) != 1)
            _exit(1);
    database_close(database);
    if (database == NULL)
        _exit(2);
}

/* Closed when all writers have started, so that they begin together. */
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
    OWN(sweeps_free) struct sweeps sweeps;
    size_t count = 0;
    struct database *database = open_as(DATABASE_WRITE);
    must(database_check(database, &error) && database_read(database, &sweeps, &error), error.text);
    for (size_t i = 0; i < sweeps.count; i++)
        count += sweeps.items[i].count;
    database_close(database);
    return count;
}

TEST(two_writers) {
    remove_database();
    pid_t children[4];
    int bad = 0;
    must(pipe(gate) == 0, "no pipe");
    for (int i = 0; i < 4; i++)
        children[i] = start(write_quietly, i);
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < 4; i++)
        bad += wait_for(children[i]) != 0;
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(4);
    ok(bad == 0, "four processes write to one new database at once");
    expect_same(print_database(), sweeps_text(&sweeps), "and all that they wrote is in it");
}

static void write_to(int file) {
    dup2(file, STDOUT_FILENO);
    write_results(0);
}

/* The database has the results that the writer has reported, and at most one more. */
TEST(kill) {
    const int rounds = is_slow_run() ? 4 : 12;
    int wrong = 0, inner = 0;
    for (int round = 0; round < rounds; round++) {
        int pipes[2];
        char byte;
        size_t said = 0;
        remove_database();
        must(pipe(pipes) == 0, "no pipe");
        pid_t child = start(write_to, pipes[1]);
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
    ok(inner > rounds / 3, "%d of %d were killed in the middle", inner, rounds);
}

static void set_limit(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(full_disk) {
    OWN(sweeps_free) struct sweeps sweeps = make_sweeps(3);
    struct stat status;
    fill(1);
    char *before = print_database();
    stat(path, &status);
    signal(SIGXFSZ, SIG_IGN);
    struct database *database = open_as(DATABASE_WRITE);
    set_limit((rlim_t)status.st_size / 2);
    ok_failed(database_add_all(database, &sweeps, &additions, &error), &error, EXIT_ENVIRONMENT,
              NULL, "contents are intact", "a full disk is said");
    database_close(database);
    set_limit(RLIM_INFINITY);
    expect_same(print_database(), before, "and the database has what it had");
    ok(count_results() == 58, "and can be written again");
}

TEST(read_only) {
    struct sweep_key key = made_key(2);
    struct sweep_result result = made_result(8, 4, 1, 0.02);
    struct database *database = open_as(DATABASE_READ);
    ok(!database_add(database, &key, &result, &error) && error.exit_code == EXIT_ENVIRONMENT &&
           strstr(error.text, "read-only"),
       "what is open for reading is not written");
    database_close(database);
}

void before_tests(void) {
    path = strdup(scratch_path("db.sqlite"));
}
