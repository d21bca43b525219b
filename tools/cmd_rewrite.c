/* kvmill rewrite: StableHLO text that says the same in other ops.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "../base/output.h"
#include "../base/text.h"
#include "../import/stablehlo/rewrite.h"
#include "commands.h"

static const struct option_help options[] = {
    {"without-batching-dims", NULL,
     "gathers and scatters as before batching dims: iotas in front of the index vectors"},
    {"o", "FILE", "where the text goes (standard output)"},
    {NULL, NULL, NULL},
};

static bool check(const struct options *given, struct error *error) {
    const char *target = option_value(given, "o");
    if (given->rest_count != 1)
        return fail(error, EXIT_USER, "kvmill rewrite: %d arguments; accepted: one .mlir file",
                    given->rest_count);
    if (option_value(given, "without-batching-dims") == NULL)
        return fail(error, EXIT_USER, "nothing to rewrite; accepted: --without-batching-dims");
    return target == NULL || *target != '\0' ||
           fail(error, EXIT_USER, "-o: \"\"; accepted: a file");
}

static bool write(const char *target, struct text *text, int ops, struct error *error) {
    if (target == NULL) {
        text_put(text, stdout);
        return true;
    }
    if (!output_write_file(target, text, error))
        return false;
    print_shown(stdout, "%s: %d op%s rewritten\n", target, ops, ops == 1 ? "" : "s");
    return true;
}

static bool rewrite(const struct options *given, struct error *error) {
    struct mlir_file file = {0};
    struct text text = {0};
    int ops = 0;
    bool done = check(given, error) && mlir_read(given->rest[0], &file, error) &&
                mlir_without_batching_dims(&file, &text, &ops, error) &&
                write(option_value(given, "o"), &text, ops, error);
    text_free(&text);
    mlir_free(&file);
    return done;
}

const struct command rewrite_command = {
    .name = "rewrite",
    .synopsis = "FILE.mlir --without-batching-dims [-o FILE]",
    .summary = "Say what a StableHLO program says in ops that older readers know.",
    .options = options,
    .run = rewrite,
};
