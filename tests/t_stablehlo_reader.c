/* The reader of StableHLO text on text that is no program: mutations of good files, truncations,
   deep nesting, huge types.  It refuses with a place and what is accepted, or reads; it never
   crashes.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/stablehlo.h"
#include "fence.h"
#include "tap.h"

static struct { int64_t read, refused, verified; } seen;

/* ---- One text ---- */

static void verify_block(const struct mlir_file *file, const struct mlir_function *function,
                         const struct mlir_block *block) {
    static struct gather_problem gather;
    static struct scatter_problem scatter;
    struct error error;
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next) {
        if (is_mlir_gather(op))
            seen.verified += gather_of_mlir(file, function, op, &gather, &error);
        if (is_mlir_scatter(op))
            seen.verified += scatter_of_mlir(file, function, op, &scatter, &error);
        for (int i = 0; i < op->region_count; i++)
            verify_block(file, function, &op->regions[i]);
    }
}

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
    for (const struct mlir_chunk *c = file.chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; f != NULL; f = f->next)
            verify_block(&file, f, &f->body);
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

/* ---- Mutations ---- */

/* With ~ between them. */
static const char pieces[] =
    "<~>~(~)~{~}~[~]~\"~%0~%r#9~tensor~->~:~,~=~dense~x~?~-~99999999999999999999~0x~i1~ui8~complex<"
    "f32>~!quant.uniform<i8:f32, 0.5>~#stablehlo.gather<~array<i64~^bb0~// "
    "-----\n~loc(~tensor<*xf32>~module~stablehlo.return~-9223372036854775808~\\~@f";

/* A piece of any, of so many bytes. */
static const char *random_piece(struct dice *dice, size_t *length) {
    const char *at = pieces;
    for (int64_t n = dice_range(dice, 0, 36); n > 0; n--)
        at = strchr(at, '~') + 1;
    *length = strcspn(at, "~");
    return at;
}

/* Overwrite, insert, delete, double or cut. */
static size_t mutate(struct dice *dice, char *text, size_t length, size_t room) {
    size_t at = (size_t)dice_range(dice, 0, (int64_t)length - 1), n, span;
    const char *piece = random_piece(dice, &n);
    switch (dice_range(dice, 0, 5)) {
    case 0:
        text[at] = (char)dice_bits(dice);
        return length;
    case 1:
        if (length + n > room)
            return length;
        memmove(text + at + n, text + at, length - at);
        memcpy(text + at, piece, n);
        return length + n;
    case 2:
        span = (size_t)dice_range(dice, 1, 40);
        span = span < length - at ? span : length - at;
        memmove(text + at, text + at + span, length - at - span);
        return length - span > 0 ? length - span : 1;
    case 3:
        span = (size_t)dice_range(dice, 1, 200);
        span = span < length - at ? span : length - at;
        if (length + span > room)
            return length;
        memmove(text + at + span, text + at, length - at);
        return length + span;
    case 4:
        if (text[at] >= '0' && text[at] <= '9')
            text[at] = (char)('0' + dice_range(dice, 0, 9));
        return length;
    default:
        return dice_once_in(dice, 20) ? at + 1 : length;
    }
}

static void fuzz(int rounds) {
    uint64_t seed = dice_seed();
    char *text = malloc(2 << 20);
    int wrong = 0;
    for (int i = 0; i < rounds && wrong < 3; i++) {
        char words[32];
        snprintf(words, sizeof words, "round %d", i);
        struct dice dice = dice_for(seed, words);
        int from = (int)dice_range(&dice, 0, file_count - 1);
        size_t length = files[from].length;
        memcpy(text, files[from].text, length);
        for (int64_t k = dice_range(&dice, 1, 4); k > 0; k--)
            length = mutate(&dice, text, length, 2 << 20);
        char *exact = malloc(length); /* so that a byte too far is noticed */
        memcpy(exact, text, length);
        if (!reads_or_refuses(exact, length)) {
            diag("%s", words);
            wrong++;
        }
        free(exact);
    }
    ok(wrong == 0, "%d mutated texts are read or refused", rounds);
    free(text);
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
    fuzz(is_slow_run() ? 500 : 20000);
    ok(seen.read > 50 && seen.refused > 100 && seen.verified > 100,
       "%lld texts were read, %lld refused, %lld ops accepted", (long long)seen.read,
       (long long)seen.refused, (long long)seen.verified);
    for (int i = 0; i < file_count; i++)
        free(files[i].text);
    return done_testing();
}
