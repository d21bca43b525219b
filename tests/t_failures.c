/* Failures: each command line of tests/tables/failures.tsv runs in this process, and then again for
   each way to an allocation, or to a system call, whose first call fails; and for each way to a
   call that a signal interrupts.  The linker gives these calls of our code to this program
   (tests/failures.wrap); inject.test has those of the C library.

   SPDX-License-Identifier: Apache-2.0 */
#define main kvmill_main
int kvmill_main(int argc, char **argv);
#include "../tools/main.c"
#undef main

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <sys/stat.h>

#include "../tools/remove_tree.h"
#include "common.h"
#include "failing.h"
#include "onnx_text.h"

/* ---- A command ---- */

enum { MOST_WORDS = 64, MOST_WRONG = 5 };

struct outcome {
    int code, files; /* that are left open */
    enum kind kind;  /* of the call that failed */
    struct calls calls;
    char *out, *err, *made;
};

static int count_open_files(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    must(directory != NULL, "cannot count open files");
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Points a standard stream to a file; returns what it was. */
static int redirect(int stream, const char *path) {
    int before = dup(stream), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(before >= 0 && file >= 0 && dup2(file, stream) == stream, "cannot redirect");
    close(file);
    return before;
}

static void restore(int stream, int before) {
    dup2(before, stream);
    close(before);
}

/* Runs the command's main; getopt begins again, wherever the last command ended it. */
static int run_main(char **words) {
    int count = 0;
    while (words[count] != NULL)
        count++;
    optind = 0;
    getopt(1, words, "");
    return kvmill_main(count, words);
}

static char *contents(const char *path) {
    return path != NULL && access(path, R_OK) == 0 ? read_bytes(path, NULL) : NULL;
}

/* Removes the file, with its directory if it has one. */
static void remove_made(const char *made) {
    char directory[64];
    if (made == NULL)
        return;
    snprintf(directory, sizeof directory, "%.*s", (int)strcspn(made, "/"), made);
    remove_tree(directory);
    unlink(made);
}

/* Runs a command of which a call fails, as calls_start says. */
static struct outcome run_words(char **words, enum kind kind, long number, const char *made) {
    struct outcome outcome = {.kind = kind};
    remove_made(made);
    fflush(stdout);
    fflush(stderr);
    int files = count_open_files(), out = redirect(STDOUT_FILENO, "out.log"),
        err = redirect(STDERR_FILENO, "err.log");
    calls_start(kind, number);
    outcome.code = run_main(words);
    outcome.calls = calls_stop();
    fflush(stdout);
    fflush(stderr);
    restore(STDOUT_FILENO, out);
    restore(STDERR_FILENO, err);
    outcome.files = count_open_files() - files;
    outcome.out = contents("out.log");
    outcome.err = contents("err.log");
    outcome.made = contents(made);
    return outcome;
}

static void free_outcome(struct outcome *outcome) {
    free(outcome->out);
    free(outcome->err);
    free(outcome->made);
}

/* ---- Judging ---- */

static bool are_same(const char *one, const char *other) {
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static bool says_why(const struct outcome *got) {
    return strstr(got->err, strerror(kind_reasons[got->kind])) != NULL ||
           (got->kind == MEMORY && strstr(got->err, "out of memory") != NULL);
}

/* What is wrong with a run of which a call failed, or NULL. */
static const char *fault_of(const struct outcome *got, const struct outcome *whole) {
    if (got->calls.blocks > 0)
        return "memory is left";
    if (got->files != 0)
        return "a file is left open";
    if (got->code == EXIT_ENVIRONMENT && got->kind != INTERRUPT)
        return !says_why(got) ? "the message does not say why"
               : got->made != NULL && !are_same(got->made, whole->made)
                   ? "the file is neither whole nor absent"
                   : NULL;
    bool same = got->code == whole->code && are_same(got->out, whole->out) &&
                are_same(got->err, whole->err) && are_same(got->made, whole->made);
    return same ? NULL : "the result differs, without a message";
}

static bool explain(const char *fault, long number, const struct outcome *got) {
    diag("call %ld: %s (exit code %d, %ld blocks): %.300s", number, fault, got->code,
         got->calls.blocks, got->err);
    calls_explain();
    return false;
}

static bool survives(char **words, enum kind kind, long number, const char *made,
                     const struct outcome *whole) {
    OWN(free_outcome) struct outcome got = run_words(words, kind, number, made);
    const char *fault = fault_of(&got, whole);
    return fault == NULL || explain(fault, number, &got);
}

/* Splits a command line into words.  "@" begins a path in the source tree. */
static void split(char *text, char *words[MOST_WORDS + 2]) {
    static char name[] = "kvmill";
    int count = 0;
    words[count++] = name;
    for (char *word = strtok(text, " "); word != NULL && count <= MOST_WORDS;
         word = strtok(NULL, " "))
        words[count++] = word[0] == '@' ? (char *)(uintptr_t)source_path("%s", word + 1) : word;
    words[count] = NULL;
}

/* One in `shares`, by the seed; fewer if `slow`; all with KVMILL_TURN=all. */
static int step_of(int shares, bool slow, int *first) {
    struct dice dice = dice_for("share");
    const char *turn = getenv("KVMILL_TURN");
    int step = slow ? 7 * shares : turn != NULL && strcmp(turn, "all") == 0 ? 1 : shares;
    *first = (int)dice_range(&dice, 0, step - 1);
    return step;
}

/* Runs a command line for each new way to a call of this kind, or for one in `shares`.  made: NULL,
   or the file that the command writes. */
static void try_kind(enum kind kind, const char *line, char **words, const char *made, int shares) {
    const long *numbers;
    OWN(free_outcome) struct outcome whole = run_words(words, kind, 0, made);
    int ways = calls_noted(&numbers), i, step = step_of(shares, is_slowest_run(), &i);
    int wrong = whole.code == EXIT_ENVIRONMENT || whole.calls.blocks > 0 || whole.files != 0;
    if (wrong)
        explain("without a failure", 0, &whole);
    for (; i < ways && wrong < MOST_WRONG; i += step)
        wrong += !survives(words, kind, numbers[i], made, &whole);
    ok(wrong == 0, "%s: %s: %d new ways, %ld calls", line, kind_names[kind], ways,
       whole.calls.count);
}

/* Whether the slowest runs leave this row to another seed: they run a quarter. */
static bool is_left(void) {
    static int rows;
    struct dice dice = dice_for("rows");
    return is_slowest_run() && (rows++ + dice_range(&dice, 0, 3)) % 4 != 0;
}

/* Whether this build of the command lacks what the command line needs. */
static bool is_lacking(const char *line, char **words) {
    struct outcome outcome = run_words(words, KINDS, -1, NULL); /* it keeps some things for later */
    bool lacks =
        outcome.code == EXIT_ENVIRONMENT && strstr(outcome.err, "was built without") != NULL;
    free_outcome(&outcome);
    if (lacks)
        skip_test("%s", line);
    return lacks;
}

/* run WORDS [FILE [SHARES]]: FILE is what the command writes. */
ROWS(run, 1) {
    char line[1024], *words[MOST_WORDS + 2];
    if (is_left())
        return;
    snprintf(line, sizeof line, "%s", cells[0]);
    split(line, words);
    const char *made = cells[1] != NULL && *cells[1] != '\0' ? cells[1] : NULL;
    int shares = cells[1] != NULL && cells[2] != NULL ? atoi(cells[2]) : 1;
    if (is_lacking(cells[0], words))
        return;
    for (int kind = 0; kind < KINDS; kind++)
        try_kind((enum kind)kind, cells[0], words, made, shares);
}

/* command WORDS: the others need what it makes. */
ROWS(command, 1) {
    char line[1024], *words[MOST_WORDS + 2];
    snprintf(line, sizeof line, "%s", cells[0]);
    split(line, words);
    OWN(free_outcome) struct outcome got = run_words(words, KINDS, -1, NULL);
    must(got.code == 0, got.err);
}

/* ---- Damaged files ---- */

/* What stands for a piece of a text: the piece itself twice is "2". */
static const char *const substitutes[] = {
    "", "2", "x", "-7", "0", "1e400", "99999999999999999999", "\"", "{", "]", "(", "\xff"};

enum { SUBSTITUTES = COUNT(substitutes), DAMAGE_SHARES = 8 };

static bool is_of_word(char c) {
    return isalnum((unsigned char)c) || strchr("_.-$%@", c) != NULL;
}

/* Returns the length of a word, a number or a mark. */
static size_t piece_length(const char *at) {
    size_t length = 1;
    while (is_of_word(*at) && at[length] != '\0' && is_of_word(at[length]))
        length++;
    return length;
}

struct damage {
    char **words;
    const char *name, *made;
    char *whole;
    size_t size;
    int64_t runs, refused, wrong;
};

/* Whether a damaged file is accepted, or refused by its name, with nothing written and nothing
   left. */
static bool is_refused_well(const struct damage *it, const struct outcome *got) {
    bool quiet = got->calls.blocks == 0 && got->files == 0;
    bool named = strstr(got->err, it->name) != NULL && got->made == NULL;
    return quiet && (got->code == 0 || (got->code == EXIT_USER && named));
}

static void try_bytes(struct damage *it, const char *bytes, size_t size) {
    write_bytes(it->name, bytes, size);
    OWN(free_outcome) struct outcome got = run_words(it->words, KINDS, -1, it->made);
    it->runs++;
    it->refused += got.code == EXIT_USER;
    if (is_refused_well(it, &got))
        return;
    it->wrong++;
    diag("exit code %d, %ld blocks, %d files: %.300s", got.code, got.calls.blocks, got.files,
         got.err);
    diag("of: %.400s", bytes);
}

/* Tries the text with `instead` from `at` on for `length` bytes, or, without it, only what is
   before. */
static void try_substitute(struct damage *it, size_t at, size_t length, const char *instead) {
    OWN(text_free) struct text text = {0};
    bool twice = instead != NULL && strcmp(instead, "2") == 0;
    bool done = text_append(&text, it->whole, at + (twice ? length : 0));
    if (done && instead != NULL)
        done =
            (twice ? text_append(&text, " ", 1) : text_append(&text, instead, strlen(instead))) &&
            text_append(&text, it->whole + at + (twice ? 0 : length),
                        it->size - at - (twice ? 0 : length));
    must(done, "no memory");
    try_bytes(it, text.data, text.length);
}

/* Damages each piece of a text. */
static void damage_text(struct damage *it) {
    int number, step = step_of(DAMAGE_SHARES, is_slow_run(), &number);
    for (size_t at = 0, length; at < it->size && it->wrong < MOST_WRONG; at += length) {
        length = piece_length(it->whole + at);
        if (isspace((unsigned char)it->whole[at]))
            continue;
        for (size_t i = 0; i <= SUBSTITUTES; i++)
            if (number++ % step == 0)
                try_substitute(it, at, length, i < SUBSTITUTES ? substitutes[i] : NULL);
    }
}

/* Cuts the file off at each byte, and gives each byte another value. */
static void damage_bytes(struct damage *it) {
    FREED char *bytes = malloc(it->size + 1);
    must(bytes != NULL, "no memory");
    static const unsigned char others[] = {0, 1, 0x7f, 0x80, 0xff};
    int first, step = step_of(DAMAGE_SHARES, is_slow_run(), &first);
    for (size_t at = (size_t)first; at < it->size && it->wrong < MOST_WRONG; at += (size_t)step) {
        try_bytes(it, it->whole, at);
        for (size_t i = 0; i < sizeof others; i++) {
            memcpy(bytes, it->whole, it->size);
            bytes[at] = (char)others[i];
            try_bytes(it, bytes, it->size);
        }
    }
}

/* damage NAME WORDS [FILE]: the command reads the file NAME. */
static void damage(char *const *cells, void (*damage_all)(struct damage *it)) {
    char line[1024], *words[MOST_WORDS + 2];
    struct damage it = {.words = words, .name = cells[0], .made = cells[2]};
    if (is_left())
        return;
    FREED char *whole = it.whole = read_bytes(cells[0], &it.size);
    snprintf(line, sizeof line, "%s", cells[1]);
    split(line, words);
    if (is_lacking(cells[1], words))
        return;
    unlink(cells[0]); /* which may be a link */
    try_bytes(&it, whole, it.size);
    damage_all(&it);
    write_bytes(cells[0], whole, it.size);
    ok(it.wrong == 0 && it.refused > 0, "%s: %" PRId64 " damaged files, %" PRId64 " refused",
       cells[1], it.runs, it.refused);
}

ROWS(damage, 2) {
    damage(cells, damage_text);
}

ROWS(bytes, 2) {
    damage(cells, damage_bytes);
}

/* ---- Files ---- */

/* set NAME VALUE: a variable. */
ROWS(set, 1) {
    if (cells[1] != NULL)
        setenv(cells[0], cells[1], 1);
    else
        unsetenv(cells[0]);
}

/* file NAME TEXT: it may be a program. */
ROWS(file, 2) {
    write_text(cells[0], cells[1]);
    must(chmod(cells[0], 0700) == 0, cells[0]);
}

/* link NAME PATH: a file of the source tree. */
ROWS(link, 2) {
    must(symlink(source_path("%s", cells[1]), cells[0]) == 0, cells[0]);
}

/* links TARGET ENDING: the seeds of a fuzzer's target, each by the name TARGET..ENDING. */
ROWS(links, 2) {
    DIR *directory = opendir(source_path("tests/fuzz/seeds/%s", cells[0]));
    must(directory != NULL, cells[0]);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *end = strstr(entry->d_name, ".seed");
        char name[600];
        snprintf(name, sizeof name, "%s%.*s.%s", cells[0], (int)(end ? end - entry->d_name : 0),
                 entry->d_name, cells[1]);
        if (end != NULL)
            must(symlink(source_path("tests/fuzz/seeds/%s/%s", cells[0], entry->d_name), name) == 0,
                 name);
    }
    closedir(directory);
}

/* npy NAME TYPE SHAPE NUMBERS: integers, or the bits of floats; "0*24" is 24 zeros. */
ROWS(npy, 4) {
    char bytes[2048], numbers[512];
    size_t width = strtoul(cells[1] + 2, NULL, 10), at = 128;
    int length = snprintf(bytes, sizeof bytes,
                          "\x93NUMPY%c%cv%c{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                          1, 0, 0, cells[1], cells[2]);
    memset(bytes + length, ' ', 127 - (size_t)length);
    bytes[127] = '\n';
    snprintf(numbers, sizeof numbers, "%s", cells[3]);
    for (char *word = strtok(numbers, " "); word != NULL; word = strtok(NULL, " ")) {
        uint64_t number = strtoull(word, &word, 0);
        long times = *word == '*' ? strtol(word + 1, NULL, 10) : 1;
        for (; times > 0 && at + width <= sizeof bytes; times--, at += width)
            memcpy(bytes + at, &number, width);
    }
    write_bytes(cells[0], bytes, at);
}

/* onnx NAME DESCRIPTION, as onnx_text.h has it; gguf, too. */
ROWS(onnx, 2) {
    OWN(text_free) struct text file = {0};
    onnx_write(cells[1], &file);
    write_bytes(cells[0], file.data, file.length);
}

ROWS(gguf, 2) {
    OWN(text_free) struct text file = {0};
    gguf_write(cells[1], &file);
    write_bytes(cells[0], file.data, file.length);
}

void before_tests(void) {
    must(mkdir(scratch_path("files"), 0700) == 0 && chdir(scratch_path("files")) == 0,
         "no directory");
    setenv("XDG_CACHE_HOME", scratch_folder(), 1);
}

TABLE(failures);
