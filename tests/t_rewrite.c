/* StableHLO text rewritten without batching dims: random gathers and scatters in programs that
   check the oracle's result, run before and after; and texts that are rewritten or refused.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "../import/stablehlo/rewrite.h"
#include "../tools/mlir_eval.h"
#include "common.h"
#include "windows_case.h"

enum { PROGRAMS = 120, SLOTS = 2 };

/* ---- Text of programs ---- */

static void print_types(FILE *stream, const DLTensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        fprintf(stream, "%s", i ? ", " : "");
        print_tensor_type(stream, tensors[i]);
    }
}

/* Prints dense<"0x.."> : type. */
static void print_literal(FILE *stream, const struct pair *pair) {
    int64_t bytes = pair->count * pair->bytes;
    fprintf(stream, "dense<%s", bytes ? "\"0x" : "");
    for (int64_t i = 0; i < bytes; i++)
        fprintf(stream, "%02x", pair->dense[i]);
    fprintf(stream, "%s> : ", bytes ? "\"" : "");
    print_tensor_type(stream, &pair->fenced.dl);
}

static void print_constant(FILE *stream, int number, const struct pair *pair) {
    fprintf(stream, "  %%t%d = stablehlo.constant ", number);
    print_literal(stream, pair);
    fprintf(stream, "\n");
}

static void print_check(FILE *stream, const char *value, const struct pair *pair) {
    fprintf(stream, "  check.expect_eq_const %s, ", value);
    print_literal(stream, pair);
    fprintf(stream, "\n");
}

/* ---- Random programs ---- */

static void make_batched(struct dice *dice, bool gathers, struct geometry *g) {
    do
        make_geometry(dice, false, gathers, g);
    while (g->pairs == 0);
}

static DLDataType index_type(struct dice *dice) {
    bool narrow = dice_once_in(dice, 4); /* -2 to 1: fewer numbers than most batches have */
    return narrow ? (DLDataType){kDLInt, 2, 1} : random_index_type(dice);
}

/* Returns a promise in one of the ways of writing it; it is false, and nothing relies on it. */
static const char *random_promise(struct dice *dice) {
    static const char *const words[] = {"", ", indices_are_sorted", ", indices_are_sorted = true",
                                        ", indices_are_sorted = false"};
    return words[dice_range(dice, 0, COUNT(words) - 1)];
}

static void print_gather(FILE *stream, struct dice *dice) {
    static const DLDataType types[] = {{kDLUInt, 8, 1}, {kDLInt, 16, 1}, {kDLInt, 64, 1}};
    OWN(close_gathering)
    struct gathering it = {.type = types[dice_range(dice, 0, COUNT(types) - 1)],
                           .index_type = index_type(dice),
                           .is_dense = true};
    make_batched(dice, true, &it.g);
    open_gathering(dice, &it);
    expect_gathering(&it, ORACLE_DEFINITION);
    print_constant(stream, 0, &it.operand);
    print_constant(stream, 1, &it.indices);
    fprintf(stream, "  %%r = \"stablehlo.gather\"(%%t0, %%t1) <{dimension_numbers = "
                    "#stablehlo.gather<");
    print_lists(stream, &kvmill_gather_op, &it.op, false);
    fprintf(stream, "index_vector_dim = %d>, slice_sizes = array<i64", it.g.ivd);
    for (int d = 0; d < it.g.rank; d++)
        fprintf(stream, "%s%" PRId64, d ? ", " : ": ", it.g.slice[d]);
    fprintf(stream, ">%s}> : (", random_promise(dice));
    print_types(stream, it.tensors, 2);
    fprintf(stream, ") -> ");
    print_tensor_type(stream, it.op.result);
    fprintf(stream, "\n");
    print_check(stream, "%r", &it.result);
}

/* The first result is three times the input plus its update, so that the order of updates matters;
   the second is its update plus the previous first input. */
static const char region[] = "({\n"
                             "    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %x: tensor<i32>, "
                             "%y: tensor<i32>):\n"
                             "      %three = stablehlo.constant dense<3> : tensor<i32>\n"
                             "      %m = stablehlo.multiply %a, %three : tensor<i32>\n"
                             "      %s = stablehlo.add %m, %x : tensor<i32>\n"
                             "      %u = stablehlo.add %a, %y : tensor<i32>\n"
                             "      stablehlo.return %s, %u : tensor<i32>, tensor<i32>\n"
                             "  })";

static void combine(void *context, unsigned char *const *accumulators,
                    const unsigned char *const *updates) {
    uint32_t before[SLOTS], update[SLOTS], after[SLOTS];
    (void)context;
    for (int i = 0; i < SLOTS; i++) {
        memcpy(&before[i], accumulators[i], sizeof before[i]);
        memcpy(&update[i], updates[i], sizeof update[i]);
    }
    after[0] = before[0] * 3 + update[0];
    after[1] = before[0] + update[1];
    for (int i = 0; i < SLOTS; i++)
        memcpy(accumulators[i], &after[i], sizeof after[i]);
}

static void print_scatter(FILE *stream, struct dice *dice) {
    static const kvmill_element_type types[SLOTS] = {{.dtype = {kDLInt, 32, 1}},
                                                     {.dtype = {kDLInt, 32, 1}}};
    static const kvmill_region of_two = {.arguments = types};
    static const struct joint joint = {SLOTS, &of_two, combine};
    OWN(close_scattering)
    struct scattering it = {.joint = &joint, .index_type = index_type(dice), .is_dense = true};
    make_batched(dice, false, &it.g);
    open_scattering(dice, &it);
    expect_scattering(&it, ORACLE_DEFINITION,
                      (unsigned char *[]){it.input[0].dense, it.input[1].dense});
    for (int i = 0; i < SLOTS; i++) {
        print_constant(stream, i, &it.input[i]);
        print_constant(stream, SLOTS + 1 + i, &it.update[i]);
    }
    print_constant(stream, SLOTS, &it.indices);
    fprintf(stream,
            "  %%r:2 = \"stablehlo.scatter\"(%%t0, %%t1, %%t2, %%t3, %%t4) %s "
            "{scatter_dimension_numbers = #stablehlo.scatter<",
            region);
    print_lists(stream, &kvmill_scatter_op, &it.op, false);
    fprintf(stream, "index_vector_dim = %d>%s} : (", it.g.ivd, random_promise(dice));
    print_types(stream, it.tensors, 2 * SLOTS + 1);
    fprintf(stream, ") -> (");
    print_types(stream, it.inputs, SLOTS);
    fprintf(stream, ")\n");
    print_check(stream, "%r#0", &it.result[0]);
    print_check(stream, "%r#1", &it.result[1]);
}

static void print_programs(FILE *stream) {
    for (int i = 0; i < PROGRAMS; i++) {
        char words[32];
        snprintf(words, sizeof words, "rewrite %d", i);
        struct dice dice = dice_for(words);
        fprintf(stream, "func.func @f%d() {\n", i);
        (i % 3 ? print_gather : print_scatter)(stream, &dice);
        fprintf(stream, "  func.return\n}\n");
    }
}

/* ---- Running ---- */

/* Returns the number of checks that passed, or -1. */
static int run_text(const char *name, const struct text *text) {
    OWN(mlir_free) struct mlir_file file = {0};
    struct error error = {0};
    struct evaluation evaluation = {.file = &file,
                                    .error = &error,
                                    .threads = 1,
                                    .portable = 1,
                                    .most_steps = 1000000000,
                                    .most_bytes = 64 << 20};
    bool done =
        mlir_read_text(name, text->data, text->length, &file, &error) && mlir_run(&evaluation);
    if (!done)
        diag("%s", error.text);
    return done && evaluation.failed == 0 ? evaluation.passed : -1;
}

static bool rewrite_text(const struct text *text, struct text *rewritten, int *ops,
                         struct error *error) {
    OWN(mlir_free) struct mlir_file file;
    return mlir_read_text("text", text->data, text->length, &file, error) &&
           mlir_without_batching_dims(&file, rewritten, ops, error);
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

TEST(programs) {
    OWN(text_free) struct text text = {0}, rewritten = {0}, twice = {0};
    struct error error = {0};
    int ops = 0, none = -1, checks = PROGRAMS + PROGRAMS / 3;
    FILE *stream = open_memstream(&text.data, &text.length);
    print_programs(stream);
    fclose(stream);
    ok(run_text("# before", &text) == checks, "%d programs pass their %d checks", PROGRAMS, checks);
    bool done = rewrite_text(&text, &rewritten, &ops, &error);
    ok(done && ops == PROGRAMS && strstr(rewritten.data, "batching") == NULL,
       "all %d are rewritten, %d ops", PROGRAMS, ops);
    ok(done && run_text("# after", &rewritten) == checks, "and pass the same checks");
    int wide = count_of(rewritten.data, "_wide = "), pairs = count_of(rewritten.data, "_iota1 = ");
    int vectors = count_of(rewritten.data, "_vector = ");
    ok(wide > 8 && vectors > 5 && pairs > 8,
       "%d times indices were widened, %d index vectors implicit, %d times pairs several", wide,
       vectors, pairs);
    ok(done && strstr(rewritten.data, "sorted = true") == NULL &&
           strstr(rewritten.data, "sorted}") == NULL,
       "nothing is promised to be sorted");
    done = done && rewrite_text(&rewritten, &twice, &none, &error);
    ok(done && none == 0 && strcmp(twice.data, rewritten.data) == 0,
       "text without batching dims stays as it is");
}

/* ---- Texts ---- */

static struct text rewritten; /* of the last cell */
static struct error error;

static bool rewrite_cell(const char *cell) {
    OWN(text_free) struct text text = {0};
    int ops;
    text_free(&rewritten);
    bool done =
        text_append(&text, cell, strlen(cell)) && rewrite_text(&text, &rewritten, &ops, &error);
    return done;
}

ROWS(becomes, 2) {
    bool done = rewrite_cell(cells[0]);
    if (!ok(done && strstr(rewritten.data, cells[1]) != NULL, "becomes %.*s",
            (int)strcspn(cells[1], "\n"), cells[1]))
        diag("%s", done ? rewritten.data : error.text);
}

ROWS(refused, 2) {
    ok_failed(rewrite_cell(cells[0]), &error, EXIT_USER, "text", cells[1], "refused: %s", cells[1]);
}

TABLE(mlir_rewrites);
