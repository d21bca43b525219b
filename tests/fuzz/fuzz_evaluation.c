/* StableHLO text, run within limits of steps and memory.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../tools/mlir_eval.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_test;

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
    bool done = mlir_read_text("program.mlir", (const char *)data, size, &file, &error) &&
                mlir_run(&evaluation);
    if (!done)
        fuzz_require_refusal(&error);
    fuzz_require(evaluation.bytes == 0, "%lld bytes of arrays are left",
                 (long long)evaluation.bytes);
    mlir_free(&file);
}
