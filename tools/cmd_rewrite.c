/* kvmill rewrite: rewrites StableHLO text to equivalent ops, and ONNX models to kvmill's ops.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../base/output.h"
#include "../base/text.h"
#include "../defs/format.h"
#include "../import/onnx/onnx.h"
#include "../import/onnx/onnx_rewrite.h"
#include "../import/stablehlo/rewrite.h"
#include "commands.h"

static const struct option_help options[] = {
    {"without-batching-dims", NULL,
     "replace batching dims of gathers and scatters by iotas in the index vectors", NULL},
    {"cache", "K[,V]", "formats for the model's caches, blocks of llama.cpp: q8_0, q4_0, ...",
     NULL},
    {"o", "FILE", "where to write the text (default: standard output) or the model", &file_values},
    {NULL, NULL, NULL, NULL},
};

/* Refuses to write a model to a terminal. */
static bool check_model(const struct options *given, struct error *error) {
    if (option_value(given, "without-batching-dims") != NULL)
        return fail(error, EXIT_USER, "--without-batching-dims: accepted with a .mlir file");
    return option_value(given, "o") != NULL ||
           fail(error, EXIT_USER, "no file for the new model; accepted: -o FILE");
}

static bool check_text(const struct options *given, struct error *error) {
    if (option_value(given, "cache") != NULL)
        return fail(error, EXIT_USER, "--cache: accepted with a .onnx file");
    return option_value(given, "without-batching-dims") != NULL ||
           fail(error, EXIT_USER,
                "%.200s: nothing to rewrite; accepted: a .mlir file with --without-batching-dims, "
                "or a .onnx file",
                given->rest[0]);
}

static bool check(const struct options *given, struct error *error) {
    const char *target = option_value(given, "o");
    if (given->rest_count != 1)
        return fail(error, EXIT_USER,
                    "kvmill rewrite: %d arguments; accepted: one .mlir or .onnx file",
                    given->rest_count);
    if (target != NULL && *target == '\0')
        return fail(error, EXIT_USER, "-o: \"\"; accepted: a file");
    return is_onnx_name(given->rest[0]) ? check_model(given, error) : check_text(given, error);
}

static bool write_file(const char *target, struct text *text, int count, const char *what,
                       struct error *error) {
    if (!output_write_file(target, text, error))
        return false;
    print_shown(stdout, "%s: %d %s%s rewritten\n", target, count, what, count == 1 ? "" : "s");
    return true;
}

/* ---- StableHLO ---- */

static bool write_text(const char *target, struct text *text, int ops, struct error *error) {
    if (target != NULL)
        return write_file(target, text, ops, "op", error);
    text_put(text, stdout);
    return true;
}

static bool rewrite_text(const struct options *given, struct error *error) {
    struct mlir_file file = {0};
    struct text text = {0};
    int ops = 0;
    bool done = mlir_read(given->rest[0], &file, error) &&
                mlir_without_batching_dims(&file, &text, &ops, error) &&
                write_text(option_value(given, "o"), &text, ops, error);
    text_free(&text);
    mlir_free(&file);
    return done;
}

/* ---- ONNX ---- */

static size_t length_of_folder(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash != NULL ? (size_t)(slash - file) + 1 : 0;
}

/* Requires -o in the model's folder if the model refers to other files: their paths are relative to
   it. */
static bool check_place(const struct options *given, const struct onnx_rewritten *rewritten,
                        struct error *error) {
    const char *from = given->rest[0], *to = option_value(given, "o");
    size_t length = length_of_folder(from);
    bool same = length == length_of_folder(to) && memcmp(from, to, length) == 0;
    return same || !rewritten->has_files ||
           fail(error, EXIT_USER,
                "-o: \"%.200s\"; %.200s has elements in files next to it; accepted: a file in the "
                "same folder",
                to, from);
}

/* Finds the word in kvmill_block_words, and points to the table's copy. */
static bool find_format(const char *text, size_t length, const char **word, struct error *error) {
    char words[KVMILL_WORDS_SIZE];
    for (int i = 0; kvmill_block_words[i] != NULL; i++)
        if (strlen(kvmill_block_words[i]) == length &&
            memcmp(kvmill_block_words[i], text, length) == 0) {
            *word = kvmill_block_words[i];
            return true;
        }
    return fail(error, EXIT_USER, "--cache: \"%.*s\"; accepted: one or two of %s, with a comma",
                (int)(length < 40 ? length : 40), text,
                kvmill_list_words(kvmill_block_words, "\"", words));
}

/* Reads one format, or two with a comma: for K and for V. */
static bool read_formats(const char *text, const char *formats[2], struct error *error) {
    size_t length = strcspn(text, ",");
    const char *second = text[length] == ',' ? text + length + 1 : text;
    return find_format(text, length, &formats[0], error) &&
           find_format(second, second == text ? length : strlen(second), &formats[1], error);
}

static bool rewrite_model(const struct options *given, struct error *error) {
    const char *cache = option_value(given, "cache"), *formats[2];
    struct onnx_rewritten rewritten;
    if (cache != NULL && !read_formats(cache, formats, error))
        return false;
    bool done =
        onnx_rewrite(given->rest[0], cache != NULL ? formats : NULL, &rewritten, error) &&
        check_place(given, &rewritten, error) &&
        write_file(option_value(given, "o"), &rewritten.model, rewritten.nodes, "node", error);
    if (done && rewritten.notes.data != NULL)
        put_shown(rewritten.notes.data, stderr);
    text_free(&rewritten.model);
    text_free(&rewritten.notes);
    return done;
}

static bool rewrite(const struct options *given, struct error *error) {
    return check(given, error) && (is_onnx_name(given->rest[0]) ? rewrite_model(given, error)
                                                                : rewrite_text(given, error));
}

const struct command rewrite_command = {
    .name = "rewrite",
    .synopsis = "FILE.mlir --without-batching-dims [-o FILE] | FILE.onnx [--cache K[,V]] -o FILE",
    .summary = "Rewrite a program: StableHLO for older readers, ONNX for kvmill's custom ops.",
    .options = options,
    .arguments = &file_values,
    .run = rewrite,
};
