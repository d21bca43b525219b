/* StableHLO text, run within limits of steps and memory.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../tools/mlir_eval.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_test;

/* Where a text is no program, and what is accepted. */
static void require_place(const char *message) {
    int line, column;
    fuzz_require(sscanf(message, "program.mlir:%d:%d: ", &line, &column) == 2 && line > 0 &&
                     column > 0 && strstr(message, "accepted: ") != NULL,
                 "refused without a place: \"%s\"", message);
}

void fuzz_evaluation(const unsigned char *data, size_t size) {
    struct mlir_file file = {0};
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
    if (!read)
        require_place(error.text);
    if (!read || !mlir_run(&evaluation))
        fuzz_require_refusal(&error);
    fuzz_require(evaluation.bytes == 0, "%lld bytes of arrays are left",
                 (long long)evaluation.bytes);
    mlir_free(&file);
}
