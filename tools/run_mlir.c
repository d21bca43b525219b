/* SPDX-License-Identifier: Apache-2.0 */
#include "run_mlir.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "built_pack.h"
#include "mlir_eval.h"

static bool check_options(const struct options *given, struct error *error) {
    static const char *const for_specs[] = {"in", "out", "isa", NULL};
    for (int i = 0; for_specs[i] != NULL; i++)
        if (option_value(given, for_specs[i]))
            return fail(error, EXIT_USER,
                        "--%s is for specs and ONNX models; a .mlir program contains its inputs",
                        for_specs[i]);
    return values_have(&bounds_values, "window-out-of-bounds",
                       option_value(given, "window-out-of-bounds"), error);
}

static void note_portable(const struct evaluation *evaluation) {
    if (evaluation->portables == 0)
        return;
    print_shown(stderr, "%s: note: portable kernels ran %d of %d gathers and scatters:",
                evaluation->file->name, evaluation->portables, evaluation->windows);
    for (int i = 0; i < MOST_PORTABLE && evaluation->by_portable[i][0] != '\0'; i++)
        print_shown(stderr, "%s %s", i ? "," : "", evaluation->by_portable[i]);
    print_shown(stderr, "\n");
}

static bool report(const struct evaluation *evaluation, struct error *error) {
    print_shown(stdout, "%d passed, %d failed\n", evaluation->passed, evaluation->failed);
    note_portable(evaluation);
    return evaluation->failed == 0 ||
           fail(error, EXIT_USER, "%s: %d of %d checks failed", evaluation->file->name,
                evaluation->failed, evaluation->passed + evaluation->failed);
}

bool run_mlir(const struct options *given, const char *name, struct error *error) {
    struct mlir_file file = {0};
    struct evaluation evaluation = {
        .file = &file,
        .error = error,
        .portable = option_value(given, "portable") != NULL,
        .window_out_of_bounds = option_value(given, "window-out-of-bounds"),
    };
    long threads = 1, steps = 10000000000, mebibytes = 1024;
    const char *library = option_value(given, "pack");
    struct built_pack built = {0};
    if (!option_integer(given, "threads", 1, 256, &threads, error) ||
        !option_integer(given, "max-steps", 1, LONG_MAX, &steps, error) ||
        !option_integer(given, "max-memory", 1, 1 << 20, &mebibytes, error) ||
        !check_options(given, error))
        return false;
    evaluation.threads = (int)threads;
    evaluation.most_steps = steps;
    evaluation.most_bytes = (int64_t)mebibytes << 20;
    bool done = library == NULL || built_pack_load(library, &built, error);
    evaluation.pack = built.pack;
    done = done && mlir_read(name, &file, error) && mlir_run(&evaluation) &&
           report(&evaluation, error);
    mlir_free(&file);
    built_pack_free(&built);
    return done;
}
