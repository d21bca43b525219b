/* The reader of ONNX models: specs of every op, nodes that it leaves alone, refusals and their
   words. Also files that are not models: mutations, truncations, nesting, and tiny files that claim
   to be huge.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../import/onnx/onnx.h"
#include "../import/spec_file.h"
#include "../spec/spec.h"
#include "case_table.h"
#include "onnx_text.h"
#include "settings.h"

/* A file in memory; each open of its name reads it from the beginning. */
static int descriptor;
static char file_name[64];

static void write_file(const void *data, size_t length) {
    must(ftruncate(descriptor, 0) == 0 && pwrite(descriptor, data, length, 0) == (ssize_t)length,
         "cannot write a file in memory");
}

static struct { int64_t read, refused, specs, constants; } seen;

/* Copies all constants whose elements are known to be complete. */
static void copy_constants(void) {
    OWN(onnx_free) struct onnx_model model;
    struct error error;
    bool done = onnx_read(file_name, &model, &error);
    for (int i = 0; done && i < model.value_count; i++) {
        const struct onnx_value *value = &model.values[i];
        int64_t bytes;
        if (onnx_constant_problem(value) != NULL || !onnx_bytes(value, &bytes))
            continue;
        FREED void *copy = malloc((size_t)bytes + !bytes);
        onnx_constant_copy(value, copy);
        seen.constants++;
    }
}

/* The result of reading. */
struct result {
    bool done;
    struct spec_list specs;
    struct error error;
};

static void read_bytes(const void *data, size_t length, struct result *result) {
    *result = (struct result){0};
    write_file(data, length);
    result->done = specs_of_onnx(file_name, &result->specs, &result->error);
    copy_constants();
}

static void read_model(const char *description, struct result *result) {
    OWN(text_free) struct text file = {0};
    onnx_write(description, &file);
    read_bytes(file.data, file.length, result);
}

/* Whether a message names a file and says what is accepted. */
static bool says_enough(const char *message) {
    return strncmp(message, file_name, strlen(file_name)) == 0 &&
           strstr(message, "accepted") != NULL;
}

/* ---- The table ---- */

static bool maps(const struct result *result, const char *wanted) {
    json_auto_t *made = specs_write(&result->specs), *kernels = json_loads(wanted, 0, NULL);
    bool good = result->done && json_equal(json_object_get(made, "kernels"), kernels);
    FREED char *text = good ? NULL : json_dumps(made, JSON_COMPACT);
    return good || diag("%s", text);
}

static bool notes(const struct result *result, const char *wanted) {
    const char *text = result->specs.notes.data;
    if (result->done && text != NULL && strstr(text, wanted) != NULL)
        return true;
    diag("%s", text != NULL ? text : "no note");
    return false;
}

static bool refuses(const struct result *result, const char *wanted) {
    return !result->done && result->error.exit_code == EXIT_USER &&
           says_enough(result->error.text) && strstr(result->error.text, wanted) != NULL;
}

static void check(bool check(const struct result *result, const char *wanted), const char *what,
                  char *const *cells) {
    struct result result;
    read_model(cells[1], &result);
    if (!ok(check(&result, cells[2]), "%s: %s", what, cells[0][0] ? cells[0] : cells[2]))
        diag("%s\n%s", cells[1], result.error.text);
    spec_list_free(&result.specs);
}

ROWS(maps, 3) {
    check(maps, "specs", cells);
}

ROWS(notes, 3) {
    check(notes, "left alone", cells);
}

ROWS(refused, 3) {
    check(refuses, "refused", cells);
}

/* Models of which ONNX Runtime hands nothing over to kvmill. */
ROWS(left, 3) {
    OWN(text_free) struct text file = {0};
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    onnx_write(cells[1], &file);
    write_file(file.data, file.length);
    bool done = specs_of_onnx_runtime(file_name, &specs, &error);
    if (!ok(!done && error.exit_code == EXIT_USER && strstr(error.text, cells[2]) != NULL,
            "left to ONNX Runtime: %s", cells[0]))
        diag("%s", done ? "it is handed over" : error.text);
}

TABLE(onnx_models);

/* ---- Files that are not models ---- */

static bool reads_or_refuses(const void *data, size_t length) {
    struct result result;
    read_bytes(data, length, &result);
    seen.read += result.done;
    seen.refused += !result.done;
    seen.specs += (int64_t)result.specs.count;
    bool told = result.done || refuses(&result, "");
    if (!told)
        diag("%s", result.error.text);
    spec_list_free(&result.specs);
    return told;
}

/* Texts of tests/tables/onnx_random.tsv: `rich` has everything that can be in models;
   `alternatives` makes models that mostly make no sense. */
static char *rich, *alternatives;

static void keep_text(char *const *cells) {
    *(strcmp(cells[0], "rich") == 0 ? &rich : &alternatives) = strdup(cells[1]);
}

void before_tests(void) {
    each_row("onnx_random", 2, keep_text);
    descriptor = memfd_create("model", 0);
    snprintf(file_name, sizeof file_name, "/proc/self/fd/%d", descriptor);
}

/* Changes bits, puts bytes that are extremes of lengths and numbers, removes or repeats spans, or
   truncates. */
static size_t mutate(struct dice *dice, unsigned char *data, size_t length, size_t room) {
    static const unsigned char ends[] = {0, 1, 0x7F, 0x80, 0xFF, 0xFE, 2, 10, 0x12, 0x1A};
    size_t at = (size_t)dice_range(dice, 0, (int64_t)length - 1);
    size_t span = (size_t)dice_range(dice, 1, 30);
    span = span < length - at ? span : length - at;
    switch (dice_range(dice, 0, 4)) {
    case 0:
        data[at] ^= (unsigned char)(1 << dice_range(dice, 0, 7));
        return length;
    case 1:
        data[at] = ends[dice_range(dice, 0, sizeof ends - 1)];
        return length;
    case 2:
        memmove(data + at, data + at + span, length - at - span);
        return length > span ? length - span : 1;
    case 3:
        if (length + span > room)
            return length;
        memmove(data + at + span, data + at, length - at);
        return length + span;
    default:
        return dice_once_in(dice, 20) ? at + 1 : length;
    }
}

/* Whether to go on: for `rounds` rounds, or for KVMILL_ONNX_SECONDS. */
static bool goes_on(int64_t round, int64_t rounds, time_t begin) {
    const char *seconds = getenv("KVMILL_ONNX_SECONDS");
    return seconds ? time(NULL) - begin < strtol(seconds, NULL, 10) : round < rounds;
}

static void make_mutant(struct dice *dice, struct text *file) {
    enum { ROOM = 1 << 14 };
    static unsigned char data[ROOM];
    onnx_write(rich, file);
    size_t length = file->length;
    memcpy(data, file->data, length);
    for (int64_t k = dice_range(dice, 1, 4); k > 0; k--)
        length = mutate(dice, data, length, ROOM);
    text_free(file);
    text_append(file, (const char *)data, length);
}

static void make_model(struct dice *dice, struct text *file) {
    char model[2048];
    setting_choose(alternatives, setting_roll, dice, model, sizeof model);
    onnx_write(model, file);
}

static void fuzz(const char *what, void make(struct dice *dice, struct text *file)) {
    int64_t rounds = is_slow_run() ? 300 : 20000, round = 0, wrong = 0;
    time_t begin = time(NULL);
    for (; goes_on(round, rounds, begin) && wrong < 3; round++) {
        char words[32];
        OWN(text_free) struct text file = {0};
        snprintf(words, sizeof words, "%s %lld", what, (long long)round);
        struct dice dice = dice_for(words);
        make(&dice, &file);
        if (!reads_or_refuses(file.data, file.length)) {
            diag("%s", words);
            wrong++;
        }
    }
    ok(wrong == 0, "%lld times %s is read or refused", (long long)round, what);
}

/* ---- Extremes ---- */

TEST(truncations) {
    OWN(text_free) struct text file = {0};
    bool right = true;
    onnx_write(rich, &file);
    for (size_t length = 0; length < file.length; length += is_slow_run() ? 17 : 1)
        right = reads_or_refuses(file.data, length) && right;
    ok(right, "files that end too early are read or refused");
}

static void check_refused(const struct text *file, const char *words, const char *name) {
    struct result result;
    read_bytes(file->data, file->length, &result);
    if (!ok(refuses(&result, words), "%s", name))
        diag("%s", result.error.text);
    spec_list_free(&result.specs);
}

/* A graph in an attribute of a node in a graph, and so on: each level adds a few bytes. */
static void check_nesting(int levels) {
    static const int fields[] = {1, 5, 6}; /* node, attribute, graph */
    size_t room = (size_t)levels * 32, at = room, length = 0;
    FREED unsigned char *bytes = malloc(room);
    OWN(text_free) struct text file = {0};
    for (int i = 0; i < 3 * levels; i++) {
        OWN(text_free) struct text key = {0};
        onnx_put_varint(&key, (uint64_t)fields[2 - i % 3] << 3 | 2);
        onnx_put_varint(&key, length);
        at -= key.length;
        memcpy(bytes + at, key.data, key.length);
        length += key.length;
    }
    onnx_put_bytes(&file, 7, bytes + at, length);
    check_refused(&file, "has no op", "branches in branches are not followed");
}

/* Nodes of two bytes, the key of a graph's field and a length of 0: many are refused. */
static void check_tiny_nodes(size_t count) {
    OWN(text_free) struct text file = {0};
    FREED unsigned char *nodes = calloc(count, 2);
    for (size_t i = 0; i < count; i++)
        nodes[2 * i] = 1 << 3 | 2;
    onnx_put_bytes(&file, 7, nodes, 2 * count);
    check_refused(&file, "would take more than 16 times its size",
                  "many empty nodes are refused for what they take");
}

/* Functions that call the one before them twice stand for very many nodes. */
static void check_doubling(int levels) {
    OWN(text_free) struct text words = {0}, file = {0};
    text_print(&words, "opset 24; input d float32 4 5; function local F0 A; node Neg A b; end; ");
    for (int i = 1; i < levels; i++)
        text_print(&words,
                   "function local F%d A; node F%d A b domain=local; node F%d b c domain=local; "
                   "end; ",
                   i, i - 1, i - 1);
    text_print(&words, "node F%d d o domain=local; output o -", levels - 1);
    onnx_write(words.data, &file);
    check_refused(&file, "is one node too many; accepted: 1048576",
                  "functions that double are not followed for ever");
}

/* An attribute of many numbers, each in one byte, is accepted. */
static void check_long_list(size_t count) {
    struct text attribute = {0}, node = {0}, graph = {0}, file = {0};
    FREED unsigned char *numbers = calloc(count, 1);
    onnx_put_bytes(&attribute, 1, "value_ints", 10);
    onnx_put_bytes(&attribute, 8, numbers, count);
    onnx_put_number(&attribute, 20, 7);
    onnx_put_bytes(&node, 4, "Constant", 8);
    onnx_put_bytes(&node, 2, "k", 1);
    onnx_put_bytes(&node, 5, attribute.data, attribute.length);
    onnx_put_bytes(&graph, 1, node.data, node.length);
    onnx_put_bytes(&file, 7, graph.data, graph.length);
    check_refused(&file, "no op of kvmill in it, but no node",
                  "a constant of many packed numbers is read");
    struct text *all[] = {&attribute, &node, &graph, &file};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        text_free(all[i]);
}

TEST(files) {
    struct spec_list specs = {0};
    struct error error = {0};
    struct text words = {0};
    text_print(&words, "{\"kernels\": []}");
    check_refused(&words, "damaged or cut off, or no ONNX model", "JSON is no model");
    text_free(&words);
    text_print(&words, "%s", "");
    check_refused(&words, "has no graph; accepted: an ONNX model", "nor is an empty file");
    text_free(&words);
    ok(!specs_of_onnx("/dev/null/absent/m.onnx", &specs, &error) && error.exit_code == EXIT_USER,
       "a file that is not there: %s", error.text);
    ok(!specs_of_onnx("/", &specs, &error) && strstr(error.text, "is a directory") != NULL,
       "a directory: %s", error.text);
    ok(ftruncate(descriptor, ((off_t)2 << 30) + 1) == 0 &&
           !specs_of_onnx(file_name, &specs, &error) &&
           strstr(error.text, "2147483649 bytes; accepted: an ONNX model of at most 2 GiB") != NULL,
       "a file of more than 2 GiB is refused before it is read");
}

TEST(extremes) {
    check_nesting(is_slow_run() ? 1 << 12 : 1 << 16);
    check_tiny_nodes(1 << 18);
    if (!is_slow_run())
        check_doubling(30);
    check_long_list(1 << 20);
    fuzz("a mutant", make_mutant);
    fuzz("a random model", make_model);
    ok(seen.read > 20 && seen.refused > 100 && seen.specs > 100 && seen.constants > 100,
       "%lld models were read, %lld refused; %lld specs, %lld constants", (long long)seen.read,
       (long long)seen.refused, (long long)seen.specs, (long long)seen.constants);
}
