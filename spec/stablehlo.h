/* Gathers and scatters as self-contained data, from specs or from StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_STABLEHLO_H
#define KVMILL_SPEC_STABLEHLO_H

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

/* The region of a problem as text that mlir_read_region reads, with captures as %capture0, ...;
 * false: out of memory. */
struct text;
bool region_write(const struct scatter_problem *problem, struct text *text);

/* "tensor<2x3xf32>" */
bool shape_write(const struct tensor_shape *shape, struct text *text);

#endif
