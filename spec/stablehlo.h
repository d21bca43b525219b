/* Gathers and scatters as self-contained data, from specs or from StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_STABLEHLO_H
#define KVMILL_SPEC_STABLEHLO_H

#include "../mlir/mlir.h"
#include "../ops/region.h"
#include "../ops/windows.h"

/* A list of axes. */
struct axes {
    int64_t items[KVMILL_MOST_RANK];
    int count;
};

/* A tensor type. */
struct tensor_shape {
    kvmill_element_type element;
    int rank;
    int64_t dims[KVMILL_MOST_RANK];
};

struct gather_problem {
    kvmill_gather op; /* numbers, flags and words; lists and tensors are here */
    union {           /* as kvmill_gather orders them */
        struct {
            struct axes offset_dims, collapsed_slice_dims, operand_batching_dims,
                start_indices_batching_dims, start_index_map, slice_sizes;
        };
        struct axes axes[6];
    };
    bool slices_open; /* dynamic_gather: known only in a run; slice_sizes.count is their number */
    bool has_fill;
    struct kvmill_scalar fill;
    struct tensor_shape operand, start_indices, result;
    bool has_result;
};

struct scatter_problem {
    kvmill_scatter op; /* as in a gather */
    union {
        struct {
            struct axes update_window_dims, inserted_window_dims, input_batching_dims,
                scatter_indices_batching_dims, scatter_dims_to_operand_dims;
        };
        struct axes axes[5];
    };
    char update_computation[16]; /* "": there is a region */
    kvmill_element_type arguments[2 * KVMILL_MOST_INPUTS];
    kvmill_region_op ops[KVMILL_MOST_REGION_OPS]; /* their words are constants */
    int32_t returned[KVMILL_MOST_INPUTS];
    int op_count, argument_count, return_count;
    int capture_count;
    int captured[KVMILL_MOST_CAPTURES]; /* numbers of values in the function it came from */
    int count;
    struct tensor_shape inputs[KVMILL_MOST_INPUTS], updates[KVMILL_MOST_INPUTS];
    struct tensor_shape results[KVMILL_MOST_INPUTS], scatter_indices;
    bool has_results;
};

/* The same in the library's form; it points into problem and view, which must stay in place. */
struct gather_view {
    DLTensor operand, start_indices, result;
    kvmill_gather op;
};
void gather_view_make(const struct gather_problem *problem, struct gather_view *view);

struct scatter_view {
    DLTensor inputs[KVMILL_MOST_INPUTS], updates[KVMILL_MOST_INPUTS], results[KVMILL_MOST_INPUTS];
    DLTensor scatter_indices;
    const DLTensor *input_list[KVMILL_MOST_INPUTS], *update_list[KVMILL_MOST_INPUTS];
    const DLTensor *result_list[KVMILL_MOST_INPUTS];
    kvmill_element_type elements[KVMILL_MOST_INPUTS], update_elements[KVMILL_MOST_INPUTS];
    kvmill_element_type result_elements[KVMILL_MOST_INPUTS];
    kvmill_region region;
    kvmill_scatter op;
};
void scatter_view_make(const struct scatter_problem *problem, struct scatter_view *view);

/* The region alone. */
kvmill_region region_view(const struct scatter_problem *problem);

DLTensor tensor_view(const struct tensor_shape *shape);

/* ---- From text ---- */

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

/* Read a slice as a gather, and an update as a scatter. */
bool gather_of_slice(const struct shape_reader *reader, const struct mlir_function *function,
                     const struct mlir_op *op, struct gather_problem *problem);
bool scatter_of_update(const struct shape_reader *reader, const struct mlir_function *function,
                       const struct mlir_op *op, struct scatter_problem *problem);

/* A region: arguments, ops, what it returns.  Values below `first_inner` are captured. */
bool region_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                    const struct mlir_block *block, int first_inner,
                    struct scatter_problem *problem, struct error *error);

/* The region of a scatter of problem->count inputs as separate text, "^bb0(%a: tensor<f32>, %b:
   tensor<f32>): ...", with values %capture0, ... of these types from outside, in order, whether
   they are used or not. */
bool region_of_text(const char *name, const char *text, size_t length, const char *const *captures,
                    size_t capture_count, struct scatter_problem *problem, struct error *error);

/* Whether an attribute is a literal of this type; for a quantized type, of its storage type. */
bool mlir_is_literal_of(const struct mlir_attr *value, const struct mlir_type *type);

/* EQ, NE, ..., SIGNED, ... as a constant; NULL for anything else. */
const char *mlir_comparison_word(const struct mlir_attr *attr);

/* The region of a problem as text that mlir_read_region reads, with captures as %capture0, ...;
 * false: out of memory. */
struct text;
bool region_write(const struct scatter_problem *problem, struct text *text);

/* "tensor<2x3xf32>" */
bool shape_write(const struct tensor_shape *shape, struct text *text);

#endif
