/* Runs StableHLO text within limits of steps and memory, and rewrites it.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../import/stablehlo/rewrite.h"
#include "../../tools/mlir_eval.h"
#include "../tap.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_test;

/* Requires a message to say where the text is no program, and what is accepted. */
static void require_place(const char *message) {
    int line, column;
    fuzz_require(sscanf(message, "program.mlir:%d:%d: ", &line, &column) == 2 && line > 0 &&
                     column > 0 && strstr(message, "accepted: ") != NULL,
                 "refused without a place: \"%s\"", message);
}

/* Requires rewritten text to be readable, with nothing left to rewrite. */
static void check_rewriting(const struct mlir_file *file) {
    OWN(text_free) struct text text = {0}, again = {0};
    OWN(mlir_free) struct mlir_file rewritten = {0};
    struct error error = {0};
    int ops = 0, left = 0;
    if (fuzz_accepts(mlir_without_batching_dims(file, &text, &ops, &error), &error)) {
        bool done = mlir_read_text("rewritten.mlir", text.data, text.length, &rewritten, &error) &&
                    mlir_without_batching_dims(&rewritten, &again, &left, &error);
        fuzz_require(done && left == 0 && again.length == text.length &&
                         memcmp(again.data, text.data, text.length) == 0,
                     "%d of %d ops are left to rewrite: %s", left, ops, error.text);
        fuzz_require(ops > 0 || text.length == file->length, "text without edits is another");
    }
}

void fuzz_evaluation(const unsigned char *data, size_t size) {
    OWN(mlir_free) struct mlir_file file = {0};
    struct error error = {0};
    struct evaluation evaluation = {
        .file = &file,
        .error = &error,
        .threads = 1,
        .portable = (int)(fuzz_number(data, size) % 2),
        .pack = &kvmill_pack_kvmill_test,
        .most_steps = 1000000,
        .most_bytes = 4 << 20,
    };
    bool read = mlir_read_text("program.mlir", (const char *)data, size, &file, &error);
    if (read)
        check_rewriting(&file);
    else
        require_place(error.text);
    fuzz_accepts(read && mlir_run(&evaluation), &error);
    fuzz_require(evaluation.bytes == 0, "%lld bytes of arrays are left",
                 (long long)evaluation.bytes);
}
