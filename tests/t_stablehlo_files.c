/* Case files of the StableHLO project: functions that its verifier accepts, or rejects by the
   constraint in the function's name.  Files are in $KVMILL_STABLEHLO_CASES/tests/..., otherwise in
   tests/stablehlo.  Also text that is not a program: truncations, deep nesting, huge types; it is
   read, or refused with a place and what is accepted.  tests/fuzz has mutations.

   SPDX-License-Identifier: Apache-2.0 */
#include "../import/stablehlo/stablehlo_import.h"
#include "common.h"

/* ---- Chunks ---- */

/* Returns the first gather or scatter in a block, or below it. */
static const struct mlir_op *find_op(const struct mlir_block *block) {
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next)
        if (is_mlir_gather(op) || is_mlir_slice(op) || is_mlir_scatter(op) || is_mlir_update(op))
            return op;
    return NULL;
}

static bool verify_op(const struct mlir_file *file, const struct mlir_function *function,
                      const struct mlir_op *op, struct error *error) {
    static struct gather_problem gather;
    static struct scatter_problem scatter;
    if (is_mlir_gather(op) || is_mlir_slice(op))
        return gather_of_mlir(file, function, op, &gather, error);
    return scatter_of_mlir(file, function, op, &scatter, error);
}

/* Reads and checks a text; *ops becomes the number of its gathers and scatters. */
static bool verify(const char *name, const char *text, size_t length, int *ops,
                   struct error *error) {
    OWN(mlir_free) struct mlir_file file;
    bool done = mlir_read_text(name, text, length, &file, error);
    *ops = 0;
    for (const struct mlir_chunk *c = file.chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next) {
            const struct mlir_op *op = find_op(&f->body);
            *ops += op != NULL;
            done = op == NULL || verify_op(&file, f, op, error);
        }
    return done;
}

/* Whether the message names a constraint of "@scatter_c6_c23". */
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

static int check_file(const char *path) {
    FREED char *text = read_bytes(path, NULL);
    return check_chunks(strrchr(path, '/') + 1, text);
}

TEST(files) {
    /* The last one is only in the project. */
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
    ok(checked >= 137, "%d chunks were checked", checked);
}

/* ---- Text that is not a program ---- */

static struct { int64_t read, refused; } seen;

/* Whether a message has a place and says what is accepted. */
static bool says_enough(const char *message) {
    int line, column;
    return sscanf(message, "text:%d:%d: ", &line, &column) == 2 && line > 0 && column > 0 &&
           strstr(message, "accepted: ") != NULL;
}

static bool reads_or_refuses(const char *text, size_t length) {
    OWN(mlir_free) struct mlir_file file;
    struct error error = {0};
    bool done = mlir_read_text("text", text, length, &file, &error);
    seen.read += done;
    seen.refused += !done;
    if (!done && !says_enough(error.text))
        return diag("%s", error.text);
    return true;
}

/* Reads a file whole, and cut anywhere. */
ROWS(file, 1) {
    size_t length, step = is_slow_run() ? 211 : 37;
    FREED char *text = read_bytes(source_path("tests/%s", cells[0]), &length);
    int64_t read = seen.read;
    bool right = reads_or_refuses(text, length) && seen.read == read + 1;
    for (size_t cut = 0; right && cut < length; cut += step)
        right = reads_or_refuses(text, cut);
    ok(right, "%s is read, and read or refused where it is cut", cells[0]);
}

/* Checks `before`, then `open` many times and `close` as often. */
static void check_nesting(const char *before, const char *open, const char *close, int times) {
    size_t length = strlen(before),
           size = strlen(before) + (size_t)times * (strlen(open) + strlen(close));
    FREED char *text = malloc(size + 1);
    strcpy(text, before);
    for (int i = 0; i < times; i++, length += strlen(open))
        strcpy(text + length, open);
    for (int i = 0; i < times; i++, length += strlen(close))
        strcpy(text + length, close);
    int64_t refused = seen.refused;
    ok(reads_or_refuses(text, size) && seen.refused == refused + 1, "%d of \"%s\" are refused",
       times, open);
}

ROWS(refused, 2) {
    OWN(mlir_free) struct mlir_file file;
    struct error error = {0};
    bool refused = !mlir_read_text("text", cells[0], strlen(cells[0]), &file, &error);
    if (!ok(refused && says_enough(error.text) && strstr(error.text, cells[1]) != NULL, "%s: %s",
            cells[0], cells[1]))
        diag("%s", error.text);
}

static int slices_in(const struct mlir_block *block) {
    int count = 0;
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next) {
        count += is_mlir_slice(op);
        for (int i = 0; i < op->region_count; i++)
            count += slices_in(&op->regions[i]);
    }
    return count;
}

/* Text with ops of unknown forms. */
ROWS(found, 2) {
    OWN(mlir_free) struct mlir_file file;
    struct error error = {0};
    int count = 0;
    bool read = mlir_read_text("text", cells[0], strlen(cells[0]), &file, &error);
    for (const struct mlir_chunk *c = file.chunks; read && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; f != NULL; f = f->next)
            count += slices_in(&f->body);
    if (!ok(read && count == atoi(cells[1]), "%s slices in %s", cells[1], cells[0]))
        diag("%d; %s", count, error.text);
    bool right = true;
    for (size_t cut = 0; right && cut < strlen(cells[0]); cut++)
        right = reads_or_refuses(cells[0], cut);
    ok(right, "  which is read or refused where it is cut");
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

/* A gather or scatter that is refused for another reason than a constraint. */
ROWS(op, 2) {
    struct error error = {0};
    int ops;
    ok_failed(verify("text", cells[0], strlen(cells[0]), &ops, &error), &error, EXIT_USER,
              "text:", cells[1], "refused: %s", cells[1]);
}

TABLE(mlir);

TEST(counts) {
    ok(seen.read > 5 && seen.refused > 40, "%lld texts were read, %lld refused",
       (long long)seen.read, (long long)seen.refused);
}
