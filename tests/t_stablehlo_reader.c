/* The reader of StableHLO text on text that is no program: truncations, deep nesting, huge types.
   It refuses with a place and what is accepted, or reads; it never crashes.  Mutations are those of
   tests/fuzz.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/stablehlo.h"
#include "fence.h"
#include "tap.h"

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

enum { MOST_FILES = 8 };
static struct {
    char *text;
    size_t length;
} files[MOST_FILES];
static int file_count;

static void add_file(const char *name) {
    char path[1024];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/%s", srcdir ? srcdir : ".", name);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        bail_out("cannot read %s", path);
    files[file_count].text = malloc(1 << 20);
    files[file_count].length = fread(files[file_count].text, 1, 1 << 20, stream);
    file_count++;
    fclose(stream);
}

/* ---- Extremes ---- */

static void check_truncations(void) {
    bool right = true;
    size_t step = is_slow_run() ? 211 : 7;
    for (size_t length = 0; length < files[0].length; length += step)
        right = reads_or_refuses(files[0].text, length) && right;
    ok(right, "truncated texts are read or refused");
}

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

static void check_refused(const char *text, const char *words) {
    struct mlir_file file;
    struct error error = {0};
    bool refused = !mlir_read_text("text", text, strlen(text), &file, &error);
    mlir_free(&file);
    if (!ok(refused && says_enough(error.text) && strstr(error.text, words) != NULL, "%s: %s", text,
            words))
        diag("%s", error.text);
}

#define CONSTANT(LITERAL)                                                                          \
    "func.func @f() {\n  %a = stablehlo.constant dense<" LITERAL "\n  return\n}"

int main(void) {
    add_file("programs/deciding_examples.mlir");
    add_file("programs/regions.mlir");
    add_file("stablehlo/tests/interpret/scatter.mlir");
    add_file("stablehlo/tests/interpret/dynamic_gather.mlir");
    add_file("stablehlo/testdata/gather_float32_10_10_10_int32_2_2_1.mlir");
    for (int i = 0; i < file_count; i++)
        ok(reads_or_refuses(files[i].text, files[i].length) && seen.read == i + 1,
           "file %d is read", i);
    check_truncations();
    check_nesting("", "module {", "}", 100000);
    check_nesting("func.func @f() { \"a.b\"() ", "({ \"a.b\"() ", "}) : () -> ()", 100000);
    check_nesting("func.func @f() attributes {a = ", "[", "]", 100000);
    check_nesting("func.func @f() attributes {a = ", "{b = ", "}", 100000);
    check_nesting("func.func @f() { %a = stablehlo.constant dense<", "[", "]", 100000);
    check_refused(CONSTANT("[1, 2]> : tensor<3xi32>"), "accepted: 3");
    check_refused(CONSTANT("[1, 2]> : tensor<1xi32>"), "accepted: 1");
    check_refused(CONSTANT("1> : tensor<?xi32>"), "accepted: known extents");
    check_refused(CONSTANT("1> : tensor<9999999999x9999999999xi32>"), "less than 2^63 bytes");
    check_refused(CONSTANT("1> : tensor<99999999999999999999xi32>"), "0 to 2^63 - 1");
    check_refused(CONSTANT("[1]> : tensor<1000000000xi32>"), "all of them, or one for all");
    check_refused(CONSTANT("-1> : tensor<2xui8>"), "accepted: integers that fit");
    check_refused(CONSTANT("256> : tensor<2xui8>"), "accepted: integers that fit");
    check_refused(CONSTANT("\"0x00\"> : tensor<2xi1>"), "not i1");
    check_refused(CONSTANT("\"0x0\"> : tensor<2xi8>"), "two digits a byte");
    check_refused(CONSTANT("0x1FFFF> : tensor<f16>"), "its bits as 0x");
    check_refused(CONSTANT("1> : tensor<2xi7>"), "not a known element type");
    check_refused(CONSTANT("1> : tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.5}>>"), "per tensor");
    check_refused("func.func @f() { %a = stablehlo.fft %b }", "stablehlo.fft is not understood");
    check_refused("func.func @f() { stablehlo.return %b : tensor<f32> }", "%b is not defined");
    check_refused("func.func @f(%a: tensor<f32>, %a: tensor<f32>) { return }", "defined twice");
    check_refused("hello", "accepted: module, func.func");
    ok(seen.read >= file_count && seen.refused > 40, "%lld texts were read, %lld refused",
       (long long)seen.read, (long long)seen.refused);
    for (int i = 0; i < file_count; i++)
        free(files[i].text);
    return done_testing();
}
