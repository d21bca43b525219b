/* The parts of gathers and scatters that specs and StableHLO programs have in common: shapes, lists
   of axes, regions.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_STABLEHLO_MLIR_H
#define KVMILL_SPEC_STABLEHLO_MLIR_H

#include "../mlir/mlir.h"
#include "stablehlo.h"

/* Reads types as shapes.  Unranked ones are refused, and where extents must be `known`, `?` and
   bounded ones. */
struct shape_reader {
    const struct mlir_file *file;
    const char *op; /* in messages */
    size_t at;      /* in messages, too */
    bool known;
    struct error *error;
};
bool shape_of_mlir(const struct shape_reader *reader, const char *tensor,
                   const struct mlir_type *type, struct tensor_shape *shape);

/* A list of integers: [1, 2], array<i64: 1, 2> or dense<[1, 2]> : tensor<2xi64>; empty if attr is
   NULL. */
bool axes_of_mlir(const struct mlir_file *file, const char *key, const struct mlir_attr *attr,
                  struct axes *axes, struct error *error);

/* Whether a type has one axis of integers, not too long; and the integers of a literal of such a
   type. */
bool mlir_is_axes_type(const struct mlir_type *type);
void axes_of_literal(const struct mlir_literal *literal, struct axes *axes);

/* A region: arguments, ops, what it returns.  Values below `first_inner` are captured. */
bool region_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                    const struct mlir_block *block, int first_inner,
                    struct scatter_problem *problem, struct error *error);

/* The region of a scatter of problem->count inputs as separate text, "^bb0(%a: tensor<f32>, %b:
   tensor<f32>): ...", with values %capture0, ... of these types from outside, in order, whether
   they are used or not. */
bool region_of_text(const char *name, const char *text, size_t length, const char *const *captures,
                    size_t capture_count, struct scatter_problem *problem, struct error *error);

/* EQ, NE, ..., SIGNED, ... as a constant; NULL for anything else. */
const char *mlir_comparison_word(const struct mlir_attr *attr);

#endif
