/* Runs StableHLO text: gathers and scatters by the library, other ops by simple loops.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MLIR_EVAL_H
#define KVMILL_TOOLS_MLIR_EVAL_H

#include "../gen/stablehlo.h"

/* A value: shared by all that hold it. */
struct array {
    int holders;
    struct tensor_shape shape;
    int64_t count;
    unsigned char *data;
};

/* A program being run. */
enum { MOST_PORTABLE = 8 };

struct evaluation {
    const struct mlir_file *file;
    const struct mlir_chunk *chunk;
    struct error *error;
    int threads, portable, depth;
    const kvmill_pack *pack;          /* kernels for gathers and scatters; or NULL */
    const char *window_out_of_bounds; /* of all scatters; NULL: as StableHLO says */
    int passed, failed;
    int windows, portables; /* gathers and scatters that were run, and those by portable kernels */
    char by_portable[MOST_PORTABLE]
                    [160];     /* "stablehlo.gather (why)", each once, "" after the last */
    int64_t bytes, most_bytes; /* that all arrays hold */
    int64_t steps, most_steps; /* that were taken: see eval_op */
};

/* A call of a function: its values so far. */
struct frame {
    const struct mlir_function *function;
    struct array **values;
};

/* The message at an op's place; false. */
__attribute__((format(printf, 3, 4))) bool eval_fail(struct evaluation *evaluation,
                                                     const struct mlir_op *op, const char *format,
                                                     ...);

/* A new array, zeroed; NULL with the error set.  Released with array_release. */
struct array *array_make(struct evaluation *evaluation, const struct mlir_op *op,
                         const struct tensor_shape *shape);
struct array *array_hold(struct array *array);
void array_release(struct evaluation *evaluation, struct array *array);

struct kvmill_scalar array_get(const struct array *array, int64_t i);
void array_set(struct array *array, int64_t i, struct kvmill_scalar value);

struct array *operand_of(const struct frame *frame, const struct mlir_op *op, int i);

/* Make the array of the op's only result. */
struct array *result_of(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op);

/* How an op is run: operands and results are there as its type says. */
struct evaluator {
    const char *name; /* without "stablehlo." */
    int operands;     /* -1: any number */
    bool (*run)(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op);
};

/* Ops that move elements; gather and scatter; checks.  NULL when there is none of that name. */
const struct evaluator *shape_evaluator(const char *name);
const struct evaluator *window_evaluator(const char *name);
const struct evaluator *check_evaluator(const char *name);

/* check.expect_eq (.. _close, check.eq), by name without "check.", with what it compares. */
bool eval_check(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                const char *name);

/* All chunks: functions @main, or all without arguments. */
bool mlir_run(struct evaluation *evaluation);

#endif
