/* SPDX-License-Identifier: Apache-2.0 */
#include "calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kvmill_core.h>

#include "cpu.h"

/* ---- The numbers ---- */

const struct calibration_number kvmill_calibration_numbers[CALIBRATION_NUMBERS] = {
    {"copy_streams", offsetof(struct calibration, copy_streams), {1, 4}},
    {"fetch_level", offsetof(struct calibration, fetch_level), {1, 2}},
    {"gather_streams", offsetof(struct calibration, gather_streams), {1, 4}},
    {"around",
     offsetof(struct calibration, around),
     {256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}},
    {"asleep",
     offsetof(struct calibration, asleep),
     {1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20}},
    {"ggml_split",
     offsetof(struct calibration, ggml_split),
     {75000, 150000, 300000, 600000, 1200000, 2400000}},
};

const struct calibration_number *kvmill_calibration_named(const char *name) {
    for (int i = 0; i < CALIBRATION_NUMBERS; i++)
        if (strcmp(kvmill_calibration_numbers[i].name, name) == 0)
            return &kvmill_calibration_numbers[i];
    return NULL;
}

int64_t *kvmill_calibration_at(struct calibration *calibration,
                               const struct calibration_number *number) {
    return (int64_t *)(void *)((char *)calibration + number->offset);
}

/* An engine's own threads wait actively after their work, so a thread of another pool that is woken
   must win a processor from them first: a tenth of a millisecond with GCC's OpenMP.

   Intel's prefetchers follow several streams better than one, and its first cache waits for too few
   lines.  AMD's prefetchers lose the streams of copies, but not those of windows, and are slow to
   fetch into the second cache (doc/design/tried.md). */
struct calibration kvmill_calibration_presets(void) {
    static const struct calibration amd = {1, 1, 4, 4 << 20, 16 << 20, 300000},
                                    others = {4, 2, 4, 4 << 20, 16 << 20, 300000};
    return kvmill_cpu_is_amd() ? amd : others;
}

/* ---- Texts ---- */

static const char first_line[] = "kvmill-calibration 2", last_line[] = "end";

size_t kvmill_calibration_print(const struct calibration *calibration,
                                char text[CALIBRATION_SIZE]) {
    struct calibration printed = *calibration;
    char processor[PROCESSOR_SIZE];
    kvmill_processor_words(processor);
    int length = snprintf(text, CALIBRATION_SIZE, "%s\nprocessor %s\n", first_line, processor);
    for (int i = 0; i < CALIBRATION_NUMBERS; i++)
        length += snprintf(text + length, (size_t)(CALIBRATION_SIZE - length), "%s %" PRId64 "\n",
                           kvmill_calibration_numbers[i].name,
                           *kvmill_calibration_at(&printed, &kvmill_calibration_numbers[i]));
    length += snprintf(text + length, (size_t)(CALIBRATION_SIZE - length), "%s\n", last_line);
    return (size_t)length;
}

/* The next line of a text; `number` is that of the last line taken. */
struct lines {
    const char *rest;
    int number;
    char line[128];
};

/* A last line without an end, or a line that is too long, is never what is expected. */
static const char *next_line(struct lines *lines) {
    const char *end = strchr(lines->rest, '\n');
    size_t length = end != NULL ? (size_t)(end - lines->rest) : 0;
    lines->number++;
    if (end == NULL || length >= sizeof lines->line)
        length = 0;
    memcpy(lines->line, lines->rest, length);
    lines->line[length] = '\0';
    lines->rest += end != NULL ? length + 1 : 0;
    return lines->line;
}

/* Messages repeat only the printable characters of a line. */
static bool refuse(const struct lines *lines, const char *accepted, char why[CALIBRATION_WHY]) {
    char shown[48];
    snprintf(shown, sizeof shown, "%.47s", lines->line);
    for (char *c = shown; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    snprintf(why, CALIBRATION_WHY, "line %d is \"%s\"; accepted: %s", lines->number, shown,
             accepted);
    return false;
}

static bool take_words(struct lines *lines, const char *expected, char why[CALIBRATION_WHY]) {
    return strcmp(next_line(lines), expected) == 0 || refuse(lines, expected, why);
}

static bool take_processor(struct lines *lines, bool any, char why[CALIBRATION_WHY]) {
    char expected[PROCESSOR_SIZE + 16] = "processor ";
    size_t key = strlen(expected);
    if (any)
        return strncmp(next_line(lines), expected, key) == 0 ||
               refuse(lines, "processor and its name", why);
    kvmill_processor_words(expected + key);
    return take_words(lines, expected, why);
}

/* Whether the next line begins with a number's name. */
static bool has_number(const struct lines *lines, const struct calibration_number *number) {
    return strncmp(lines->rest, number->name, strlen(number->name)) == 0;
}

/* A number is valid only as it would be printed. */
static bool take_number(struct lines *lines, const struct calibration_number *number,
                        struct calibration *calibration, char why[CALIBRATION_WHY]) {
    char accepted[128] = "";
    next_line(lines);
    for (int i = 0; i < MOST_ACCEPTED && number->accepted[i] != 0; i++) {
        char line[48];
        snprintf(line, sizeof line, "%s %" PRId64, number->name, number->accepted[i]);
        if (strcmp(lines->line, line) == 0) {
            *kvmill_calibration_at(calibration, number) = number->accepted[i];
            return true;
        }
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i > 0 ? ", " : "", i > 0 ? strchr(line, ' ') + 1 : line);
    }
    return refuse(lines, accepted, why);
}

bool kvmill_calibration_parse(const char *text, bool any_processor, struct calibration *calibration,
                              char why[CALIBRATION_WHY]) {
    struct lines lines = {.rest = text};
    bool done = take_words(&lines, first_line, why) && take_processor(&lines, any_processor, why);
    for (int i = 0; done && i < CALIBRATION_NUMBERS; i++)
        if (i < KERNEL_NUMBERS || has_number(&lines, &kvmill_calibration_numbers[i]))
            done = take_number(&lines, &kvmill_calibration_numbers[i], calibration, why);
    return done && take_words(&lines, last_line, why);
}

/* ---- Files ---- */

static bool refuse_file(const char *doing, char why[CALIBRATION_WHY]) {
    snprintf(why, CALIBRATION_WHY, "cannot %s it: %s", doing, strerror(errno));
    return false;
}

/* Reads a text.  The file was opened without waiting: it might be a FIFO that nobody writes to. */
static bool read_text(int file, char text[CALIBRATION_SIZE], char why[CALIBRATION_WHY]) {
    struct stat status;
    ssize_t length = fstat(file, &status) == 0 ? read(file, text, CALIBRATION_SIZE - 1) : -1;
    if (length < 0)
        return refuse_file("read", why);
    text[length] = '\0';
    if (S_ISREG(status.st_mode) && status.st_size < CALIBRATION_SIZE)
        return true;
    if (S_ISREG(status.st_mode))
        snprintf(why, CALIBRATION_WHY, "it has %" PRId64 " bytes; accepted: at most %d",
                 (int64_t)status.st_size, CALIBRATION_SIZE - 1);
    else
        snprintf(why, CALIBRATION_WHY,
                 "it is not a regular file; accepted: what kvmill "
                 "calibrate wrote");
    return false;
}

bool kvmill_calibration_read(const char *path, bool any_processor, struct calibration *calibration,
                             char why[CALIBRATION_WHY]) {
    char text[CALIBRATION_SIZE];
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return refuse_file("open", why);
    bool done = read_text(file, text, why);
    close(file);
    return done && kvmill_calibration_parse(text, any_processor, calibration, why);
}

static const char *named_file(void) {
    return getenv("KVMILL_CALIBRATION");
}

bool kvmill_calibration_path(char path[CALIBRATION_PATH]) {
    const char *named = named_file(), *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME");
    int length = 0;
    if (named != NULL)
        length = snprintf(path, CALIBRATION_PATH, "%s", named);
    else if (config != NULL && *config == '/')
        length = snprintf(path, CALIBRATION_PATH, "%s/kvmill/calibration", config);
    else if (home != NULL && *home == '/')
        length = snprintf(path, CALIBRATION_PATH, "%s/.config/kvmill/calibration", home);
    return length > 0 && length < CALIBRATION_PATH;
}

/* ---- The numbers that plans use ---- */

static struct {
    pthread_once_t once;
    struct calibration numbers;
    bool from_file;
    char path[CALIBRATION_PATH];
} taken = {.once = PTHREAD_ONCE_INIT};

static void take(void) {
    char why[CALIBRATION_WHY];
    struct calibration read = taken.numbers = kvmill_calibration_presets();
    if (!kvmill_calibration_path(taken.path) ||
        (named_file() == NULL && access(taken.path, F_OK) != 0))
        return;
    taken.from_file = kvmill_calibration_read(taken.path, false, &read, why);
    if (taken.from_file)
        taken.numbers = read;
    else
        fprintf(stderr, "kvmill: the calibration %s is not used: %s\n", taken.path, why);
}

const struct calibration *kvmill_calibration(void) {
    pthread_once(&taken.once, take);
    return &taken.numbers;
}

int64_t kvmill_calibrated(const char *name) {
    const struct calibration_number *number = name != NULL ? kvmill_calibration_named(name) : NULL;
    struct calibration numbers = *kvmill_calibration();
    return number != NULL ? *kvmill_calibration_at(&numbers, number) : 0;
}

void kvmill_calibration_set(const struct calibration *calibration) {
    pthread_once(&taken.once, take);
    taken.numbers = *calibration;
}

const char *kvmill_calibration_file(void) {
    return kvmill_calibration() != NULL && taken.from_file ? taken.path : NULL;
}
