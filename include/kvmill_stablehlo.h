/* StableHLO's gather and scatter.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_STABLEHLO_H
#define KVMILL_STABLEHLO_H

#include <kvmill_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* stablehlo.gather and stablehlo.scatter as of StableHLO 1.x with batching dims.  Attributes have
   their source's names.  All dims are known to the plan, rank is at most 32.

   Elements have any type of StableHLO.  Those of fewer than 8 bits take a byte each (as in
   StableHLO's own constants); i1 is KVMILL_DL_BOOL with 8 bits. */

/* A list of axes or sizes, borrowed for the call to which it is passed. */
typedef struct kvmill_dims {
    const int64_t *items; /* may be NULL when count is 0 */
    size_t count;
} kvmill_dims;

/* An element type.  For a type that is quantized per tensor, dtype is the storage type:
   value = (stored - zero_point) * scale. */
typedef struct kvmill_element_type {
    DLDataType dtype;
    DLDataType
        expressed; /* type of the value; bits 0: not quantized, and the other members are ignored */
    double scale;
    int64_t zero_point, storage_min, storage_max;
} kvmill_element_type;

/* result[r] = operand[clamp (start, 0, dim - slice) + batch + offset]; a slice size of 0 counts as
   1 on axes that the result does not have.  The tensors are prototypes, as in
   kvmill_tensor_scatter. */
typedef struct kvmill_gather {
    size_t struct_size; /* sizeof (kvmill_gather) */
    kvmill_dims offset_dims, collapsed_slice_dims, operand_batching_dims;
    kvmill_dims start_indices_batching_dims, start_index_map, slice_sizes;
    int64_t index_vector_dim;
    int32_t indices_are_sorted; /* a hint; never changes a result */
    /* Ours: what happens to a window whose start is outside.  "clip" (NULL): the start is clamped,
       as in StableHLO; "fill": the window consists of fill_value, as in JAX. */
    const char *mode;
    const void
        *fill_value; /* one element; NULL = NaN, the least int, the largest unsigned int, true */
    const DLTensor *operand, *start_indices;
    const DLTensor *result; /* NULL = the inferred shape, row-major */
    /* For quantized elements; NULL = the tensor's dtype. */
    const kvmill_element_type *operand_element, *result_element;
} kvmill_gather;

void kvmill_gather_init(kvmill_gather *op, size_t struct_size);

/* Order of the tensors a gather plan runs on. */
enum {
    KVMILL_GATHER_OPERAND = 0,
    KVMILL_GATHER_START_INDICES = 1,
    KVMILL_GATHER_RESULT = 2,
    KVMILL_GATHER_TENSORS = 3
};

/* An op of a scatter's region: a pure function of scalars, by its name without "stablehlo.":
   abs add and atan2 cbrt ceil clamp compare convert cosine count_leading_zeros divide exponential
   exponential_minus_one floor is_finite log log_plus_one logistic maximum minimum multiply negate
   not or popcnt power remainder round_nearest_afz round_nearest_even rsqrt select shift_left
   shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor; "constant";
   and "capture", a scalar from outside.  One rounding per op. */
typedef struct kvmill_region_op {
    const char *name;
    kvmill_element_type element;      /* of its value */
    int32_t operands[3];              /* numbers of values: arguments first, then ops */
    const char *comparison_direction; /* compare: "EQ", "NE", "GE", "GT", "LE", "LT" */
    const char *compare_type;         /* NULL, or "TOTALORDER" */
    uint64_t value[2];                /* constant: its bits; capture: its number */
} kvmill_region_op;

/* (acc0, acc1, ..., update0, update1, ...) -> (acc0, acc1, ...) */
typedef struct kvmill_region {
    const kvmill_element_type *arguments; /* two for each input */
    const kvmill_region_op *ops;
    size_t op_count;        /* at most 64 */
    const int32_t *results; /* numbers of values, one for each input */
    size_t capture_count;   /* at most 16 */
} kvmill_region;

/* results = inputs; then, for every element u of updates in row-major order, at p = start + batch +
   window: results[p] = region (results[p], updates[u]) if p is inside.  Inputs and updates are
   converted to the region's types first. */
typedef struct kvmill_scatter {
    size_t struct_size; /* sizeof (kvmill_scatter) */
    kvmill_dims update_window_dims, inserted_window_dims, input_batching_dims;
    kvmill_dims scatter_indices_batching_dims, scatter_dims_to_operand_dims;
    int64_t index_vector_dim;
    int32_t indices_are_sorted; /* a hint, which never changes a result */
    /* A promise that no element of results has two updates, so that parts may apply them in any
       order.  If it is broken, only these elements are wrong, and only with several threads. */
    int32_t unique_indices;
    /* Ours: for windows that are partly outside.  "skip_element" (NULL) skips the elements that are
       outside; "skip_window" skips the whole window, as XLA and JAX do. */
    const char *window_out_of_bounds;
    /* "replace", "add", "subtract", "multiply", "minimum", "maximum", "and", "or", "xor" of the
       inputs' types; NULL: region. */
    const char *update_computation;
    const kvmill_region *region;
    size_t count; /* of inputs, of updates and of results; at most 16 */
    const DLTensor *const *inputs, *const *updates;
    const DLTensor *scatter_indices;
    const DLTensor *const *results;      /* NULL = shaped like inputs, with the region's types */
    const kvmill_element_type *elements; /* of inputs, if some are quantized; NULL = the dtypes */
    const kvmill_element_type *update_elements; /* NULL = the dtypes, or those of inputs */
    const kvmill_element_type *result_elements; /* NULL = the dtypes, or those of the region */
} kvmill_scatter;

void kvmill_scatter_init(kvmill_scatter *op, size_t struct_size);

/* A scatter plan runs on inputs, scatter_indices, updates, results and captures (rank 0), in this
   order.  In place: results[i] is inputs[i], for all i or none, and no type changes. */

/* Plans of these two need no workspace.  Otherwise as kvmill_plan_tensor_scatter. */
kvmill_status kvmill_plan_gather(const kvmill_gather *op, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *error);
kvmill_status kvmill_plan_scatter(const kvmill_scatter *op, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error);

#ifdef __cplusplus
}
#endif
#endif
