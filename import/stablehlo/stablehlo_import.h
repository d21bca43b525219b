/* Gathers and scatters of StableHLO programs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_STABLEHLO_IMPORT_H
#define KVMILL_IMPORT_STABLEHLO_STABLEHLO_IMPORT_H

#include "../../spec/stablehlo_mlir.h"

/* "stablehlo.gather", "stablehlo.dynamic_gather" or "stablehlo.scatter". */
bool is_mlir_gather(const struct mlir_op *op);
bool is_mlir_scatter(const struct mlir_op *op);

/* "stablehlo.dynamic_slice" and "stablehlo.dynamic_update_slice": a gather and a scatter of one
   window, which begins along the axes of start_index_map or scatter_dims_to_operand_dims where the
   operands say.  Both clamp their starts; a scatter does not. */
bool is_mlir_slice(const struct mlir_op *op);
bool is_mlir_update(const struct mlir_op *op);
enum { MLIR_SLICE_STARTS = 1, MLIR_UPDATE_STARTS = 2 }; /* the first of these operands */

/* Read an op of one of these kinds, and check its constraints; extents may be unknown. */
bool gather_verify_mlir(const struct mlir_file *file, const struct mlir_function *function,
                        const struct mlir_op *op, struct gather_problem *problem,
                        struct error *error);
bool scatter_verify_mlir(const struct mlir_file *file, const struct mlir_function *function,
                         const struct mlir_op *op, struct scatter_problem *problem,
                         struct error *error);

/* Read an op and check it: first its constraints, then that all extents are known.  Messages name
   its place in the file. Slice sizes of a dynamic_gather that are not constant are left open: the
   caller refuses them (gather_require_slices) or fills them in. */
bool gather_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                    const struct mlir_op *op, struct gather_problem *problem, struct error *error);
bool gather_require_slices(const struct mlir_file *file, const struct mlir_op *op,
                           const struct gather_problem *problem, struct error *error);
bool scatter_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                     const struct mlir_op *op, struct scatter_problem *problem,
                     struct error *error);

/* Read a slice as a gather, and an update as a scatter. */
bool gather_of_slice(const struct shape_reader *reader, const struct mlir_function *function,
                     const struct mlir_op *op, struct gather_problem *problem);
bool scatter_of_update(const struct shape_reader *reader, const struct mlir_function *function,
                       const struct mlir_op *op, struct scatter_problem *problem);

#endif
