/* Runs StableHLO text: gathers and scatters by the library, other ops by simple loops.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MLIR_EVAL_H
#define KVMILL_TOOLS_MLIR_EVAL_H

#include "../spec/stablehlo_mlir.h"

/* A value, with a count of its holders. */
struct array {
    int holders;
    struct tensor_shape shape;
    int64_t count;
    unsigned char *data;
};

/* The state of a running program. */
enum { MOST_PORTABLE = 8 };

struct evaluation {
    const struct mlir_file *file;
    const struct mlir_chunk *chunk;
    struct error *error;
    int threads, portable, depth;
    const kvmill_pack *pack;          /* kernels for gathers and scatters; or NULL */
    const char *window_out_of_bounds; /* for all scatters; NULL: StableHLO's rule */
    int passed, failed;
    int windows, portables; /* gathers and scatters run; of these, by portable kernels */
    char by_portable[MOST_PORTABLE]
                    [160];     /* "stablehlo.gather (why)", each once, "" after the last */
    int64_t bytes, most_bytes; /* of all arrays */
    int64_t steps, most_steps; /* taken so far: see eval_op */
};

/* A call of a function, with the values computed so far. */
struct frame {
    const struct mlir_function *function;
    struct array **values;
};

/* Sets a message at the op's place in the file.  Returns false. */
__attribute__((format(printf, 3, 4))) bool eval_fail(struct evaluation *evaluation,
                                                     const struct mlir_op *op, const char *format,
                                                     ...);

/* Returns a new zeroed array, or NULL with the error set.  Release it with array_release. */
struct array *array_make(struct evaluation *evaluation, const struct mlir_op *op,
                         const struct tensor_shape *shape);
struct array *array_hold(struct array *array);
void array_release(struct evaluation *evaluation, struct array *array);

struct kvmill_scalar array_get(const struct array *array, int64_t i);
void array_set(struct array *array, int64_t i, struct kvmill_scalar value);

struct array *operand_of(const struct frame *frame, const struct mlir_op *op, int i);

/* Makes the array of the op's only result. */
struct array *result_of(struct evaluation *evaluation, struct frame *frame,
                        const struct mlir_op *op);

/* How to run an op.  The number of operands has been checked. */
struct evaluator {
    const char *name; /* without "stablehlo." */
    int operands;     /* -1: any number */
    bool (*run)(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op);
};

/* Evaluators of ops that move elements, and of gather and scatter; NULL if the name is unknown. */
const struct evaluator *shape_evaluator(const char *name);
const struct evaluator *window_evaluator(const char *name);

/* Runs a check, such as check.expect_eq.  `name` is without "check.". */
bool eval_check(struct evaluation *evaluation, struct frame *frame, const struct mlir_op *op,
                const char *name);

/* Runs all chunks: @main of each, or all functions without arguments if it has no @main. */
bool mlir_run(struct evaluation *evaluation);

#endif
