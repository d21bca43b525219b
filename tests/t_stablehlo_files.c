/* Case files of the StableHLO project: chunks that its verifier accepts or rejects, by the
   constraint that the function's name tells.  Files: $KVMILL_STABLEHLO_CASES/tests/..., else those
   in tests/stablehlo.

   SPDX-License-Identifier: Apache-2.0 */
#include "../gen/stablehlo.h"
#include "common.h"
#include "table.h"

/* ---- Chunks ---- */

/* The first op of ours in a function and below. */
static const struct mlir_op *find_op(const struct mlir_block *block) {
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next)
        if (is_mlir_gather(op) || is_mlir_scatter(op))
            return op;
    return NULL;
}

static bool verify_op(const struct mlir_file *file, const struct mlir_function *function,
                      const struct mlir_op *op, struct error *error) {
    static struct gather_problem gather;
    static struct scatter_problem scatter;
    if (is_mlir_gather(op))
        return gather_of_mlir(file, function, op, &gather, error);
    return scatter_of_mlir(file, function, op, &scatter, error);
}

/* *ops: how many of ours there were. */
static bool verify(const char *name, const char *text, size_t length, int *ops,
                   struct error *error) {
    struct mlir_file file;
    bool done = mlir_read_text(name, text, length, &file, error);
    *ops = 0;
    for (const struct mlir_chunk *c = file.chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next) {
            const struct mlir_op *op = find_op(&f->body);
            *ops += op != NULL;
            done = op == NULL || verify_op(&file, f, op, error);
        }
    mlir_free(&file);
    return done;
}

/* Some constraint of "@scatter_c6_c23" is the one that the message names. */
static bool names_constraint(const char *function, const char *message) {
    const char *end = function + strcspn(function, "(");
    for (const char *at = strstr(function, "_c"); at != NULL && at < end;
         at = strstr(at + 1, "_c")) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, " C%d: ", atoi(at + 2));
        if (strstr(message, wanted) != NULL)
            return true;
    }
    return false;
}

static bool has(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

static bool is_ours(const char *chunk) {
    return has(chunk, "stablehlo.gather\"") || has(chunk, "stablehlo.dynamic_gather\"") ||
           has(chunk, "stablehlo.scatter\"");
}

static void check_chunk(const char *file, int number, const char *chunk) {
    struct error error = {0};
    int ops;
    const char *function = strstr(chunk, "func");
    function = function ? strchr(function, '@') : NULL;
    function = function ? function : "@none";
    int length = (int)strcspn(function, "(");
    bool accepted = verify(file, chunk, strlen(chunk), &ops, &error);
    if (has(chunk, "expected-error")) {
        ok(!accepted && names_constraint(function, error.text),
           "%s chunk %d, %.*s: rejected by name", file, number, length, function);
    } else if (has(chunk, "?x") || has(chunk, "x?")) {
        ok(!accepted && has(error.text, "known extents") && !has(error.text, ": C"),
           "%s chunk %d, %.*s: ? is refused, and nothing else", file, number, length, function);
    } else {
        ok(accepted && ops > 0, "%s chunk %d, %.*s: accepted", file, number, length, function);
    }
    if (!accepted)
        diag("%.300s", error.text);
}

static int check_chunks(const char *file, char *text) {
    static const char separator[] = "\n// -----";
    int number = 0, checked = 0;
    for (char *chunk = text; chunk != NULL; number++) {
        char *next = strstr(chunk, separator);
        if (next != NULL) {
            *next = '\0';
            next += sizeof separator - 1;
            next += strcspn(next, "\n");
        }
        if (is_ours(chunk)) {
            check_chunk(file, number, chunk);
            checked++;
        }
        chunk = next;
    }
    return checked;
}

static void test_op(char **cell) {
    struct error error = {0};
    int ops;
    ok_failed(verify("text", cell[0], strlen(cell[0]), &ops, &error), &error, EXIT_USER,
              "text:", cell[1], "refused: %s", cell[1]);
}

static int check_file(const char *path) {
    char *text = read_bytes(path, NULL);
    int checked = check_chunks(strrchr(path, '/') + 1, text);
    free(text);
    return checked;
}

TEST(files) {
    /* The last one is the project's own alone. */
    static const char *const files[] = {"verify_scatter.mlir", "verify_gather.mlir",
                                        "ops_stablehlo.mlir"};
    const char *cases = getenv("KVMILL_STABLEHLO_CASES");
    char name[1024];
    int checked = check_file(source_path("tests/programs/verify_more.mlir"));
    for (size_t i = 0; i < (cases ? COUNT(files) : 2); i++) {
        snprintf(name, sizeof name, "%s/tests/%s", cases ? cases : source_path("tests/stablehlo"),
                 files[i]);
        checked += check_file(name);
    }
    each_row("mlir_ops", 2, test_op);
    ok(checked >= 137, "%d chunks were checked", checked);
}
