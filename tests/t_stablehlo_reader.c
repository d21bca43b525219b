/* The reader of StableHLO text on text that is no program: truncations, deep nesting, huge types.
   It refuses with a place and what is accepted, or reads; it never crashes.  Mutations are those of
   tests/fuzz.

   SPDX-License-Identifier: Apache-2.0 */
#include "../gen/stablehlo.h"
#include "case_table.h"
#include "common.h"

static struct { int64_t read, refused; } seen;

/* ---- One text ---- */

/* A message has a place and says what is accepted. */
static bool says_enough(const char *message) {
    int line, column;
    return sscanf(message, "text:%d:%d: ", &line, &column) == 2 && line > 0 && column > 0 &&
           strstr(message, "accepted: ") != NULL;
}

static bool reads_or_refuses(const char *text, size_t length) {
    struct mlir_file file;
    struct error error = {0};
    bool done = mlir_read_text("text", text, length, &file, &error);
    mlir_free(&file);
    seen.read += done;
    seen.refused += !done;
    if (!done && !says_enough(error.text)) {
        diag("%s", error.text);
        return false;
    }
    return true;
}

/* ---- Good files ---- */

/* Read as it is, and cut anywhere. */
ROWS(file, 1) {
    size_t length, step = is_slow_run() ? 211 : 37;
    char *text = read_bytes(source_path("tests/%s", cells[0]), &length);
    int64_t read = seen.read;
    bool right = reads_or_refuses(text, length) && seen.read == read + 1;
    for (size_t cut = 0; right && cut < length; cut += step)
        right = reads_or_refuses(text, cut);
    ok(right, "%s is read, and read or refused where it is cut", cells[0]);
    free(text);
}

/* ---- Extremes ---- */

/* `before`, `open` many times, `close` as often. */
static void check_nesting(const char *before, const char *open, const char *close, int times) {
    size_t length = strlen(before),
           size = strlen(before) + (size_t)times * (strlen(open) + strlen(close));
    char *text = malloc(size + 1);
    strcpy(text, before);
    for (int i = 0; i < times; i++, length += strlen(open))
        strcpy(text + length, open);
    for (int i = 0; i < times; i++, length += strlen(close))
        strcpy(text + length, close);
    int64_t refused = seen.refused;
    ok(reads_or_refuses(text, size) && seen.refused == refused + 1, "%d of \"%s\" are refused",
       times, open);
    free(text);
}

ROWS(refused, 2) {
    struct mlir_file file;
    struct error error = {0};
    bool refused = !mlir_read_text("text", cells[0], strlen(cells[0]), &file, &error);
    mlir_free(&file);
    if (!ok(refused && says_enough(error.text) && strstr(error.text, cells[1]) != NULL, "%s: %s",
            cells[0], cells[1]))
        diag("%s", error.text);
}

ROWS(constant, 2) {
    char text[256];
    snprintf(text, sizeof text,
             "func.func @f() {\n  %%a = stablehlo.constant dense<%s\n  return\n}", cells[0]);
    rows_refused((char *[]){text, cells[1]});
}

ROWS(nested, 3) {
    check_nesting(cells[0], cells[1], cells[2], 100000);
}

TABLE(mlir);

TEST(counts) {
    ok(seen.read > 5 && seen.refused > 40, "%lld texts were read, %lld refused",
       (long long)seen.read, (long long)seen.refused);
}
