/* stablehlo.gather and stablehlo.scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

/* ---- Gather ---- */

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_gather, NAME), .ops = 1
#define AXES(NAME)                                                                                 \
    { MEMBER(NAME, OP_DIMS), .source = OP_STABLEHLO, .always = true }
#define HIDDEN(NAME, KIND)                                                                         \
    { .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_gather, NAME) }

static const char *const mode_words[] = {"clip", "fill", NULL};

static const struct op_member gather_members[] = {
    HIDDEN(struct_size, OP_SIZE),
    AXES(offset_dims),
    AXES(collapsed_slice_dims),
    AXES(operand_batching_dims),
    AXES(start_indices_batching_dims),
    AXES(start_index_map),
    {MEMBER(index_vector_dim, OP_INTEGER), .source = OP_STABLEHLO, .always = true},
    AXES(slice_sizes),
    {MEMBER(indices_are_sorted, OP_FLAG), .source = OP_STABLEHLO,
     .help = "A hint, which never changes a result."},
    {MEMBER(mode, OP_WORD), .words = mode_words,
     .help = "For a window whose start is outside: clip, the default, moves it inside, as "
             "StableHLO does; fill fills it with fill_value, as JAX does."},
    {MEMBER(fill_value, OP_POINTER), .help = "A number; default NaN, the least int, the largest "
                                             "unsigned int, or true, depending on the type."},
    HIDDEN(operand, OP_TENSOR),
    HIDDEN(start_indices, OP_TENSOR),
    HIDDEN(result, OP_TENSOR),
    HIDDEN(operand_element, OP_POINTER),
    HIDDEN(result_element, OP_POINTER),
};
#undef MEMBER
#undef HIDDEN

static const struct op_struct gather_struct = {
    .name = "kvmill_gather",
    .size = sizeof(kvmill_gather),
    OP_MEMBERS(gather_members),
};

static const struct op_tensor gather_tensors[] = {
    {.name = "operand",
     .index = KVMILL_GATHER_OPERAND,
     .in = 1,
     .needed = 1,
     .help = "The tensor that windows are taken from."},
    {.name = "start_indices",
     .index = KVMILL_GATHER_START_INDICES,
     .in = 1,
     .needed = 1,
     .help = "Integers: where the windows start."},
    {.name = "result",
     .index = KVMILL_GATHER_RESULT,
     .out = 1,
     .help = "The windows; a spec need not give it."},
};

const struct op kvmill_gather_op = {
    .name = "stablehlo.gather",
    .family = OP_GATHER,
    .source = OP_STABLEHLO,
    .named = true,
    .parts = {&gather_struct},
    OP_TENSORS(gather_tensors),
    .help = "Windows of operand.",
};

/* ---- Scatter ---- */

#define MEMBER(NAME, KIND)                                                                         \
    .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_scatter, NAME), .ops = 1
#define HIDDEN(NAME, KIND)                                                                         \
    { .name = #NAME, .kind = (KIND), .offset = offsetof(kvmill_scatter, NAME) }

static const char *const bounds_words[] = {"skip_element", "skip_window", NULL};

static const struct op_member scatter_members[] = {
    HIDDEN(struct_size, OP_SIZE),
    AXES(update_window_dims),
    AXES(inserted_window_dims),
    AXES(input_batching_dims),
    AXES(scatter_indices_batching_dims),
    AXES(scatter_dims_to_operand_dims),
    {MEMBER(index_vector_dim, OP_INTEGER), .source = OP_STABLEHLO, .always = true},
    {MEMBER(indices_are_sorted, OP_FLAG), .source = OP_STABLEHLO,
     .help = "A hint, which never changes a result."},
    {MEMBER(unique_indices, OP_FLAG), .source = OP_STABLEHLO,
     .help = "A promise that no element of results gets two updates."},
    {MEMBER(window_out_of_bounds, OP_WORD), .words = bounds_words,
     .help =
         "For a window that is partly outside: skip_element, the default, leaves out the elements "
         "that are outside; skip_window leaves out the whole window, as XLA and JAX do."},
    {MEMBER(update_computation, OP_POINTER), .needed = 1, .source = OP_STABLEHLO,
     .help = "replace, add, subtract, multiply, minimum, maximum, and, or, xor, or a region in "
             "StableHLO text that begins with ^: \"^bb0(%a: tensor<f32>, %b: tensor<f32>): %0 = "
             "stablehlo.add %a, %b : tensor<f32> stablehlo.return %0 : tensor<f32>\".  A region "
             "has at most 64 ops: constants, elementwise ops, compare, select and convert.  Its "
             "types are those of the results, to which inputs and updates are promoted."},
    {.name = "captures",
     .kind = OP_OWN,
     .ops = 1,
     .help = "Types of scalars from outside, which the region names %capture0, %capture1, ..."},
    HIDDEN(region, OP_POINTER),
    HIDDEN(count, OP_SIZE),
    HIDDEN(inputs, OP_POINTER),
    HIDDEN(updates, OP_POINTER),
    HIDDEN(scatter_indices, OP_TENSOR),
    HIDDEN(results, OP_POINTER),
    HIDDEN(elements, OP_POINTER),
    HIDDEN(update_elements, OP_POINTER),
    HIDDEN(result_elements, OP_POINTER),
};

static const struct op_struct scatter_struct = {
    .name = "kvmill_scatter",
    .size = sizeof(kvmill_scatter),
    OP_MEMBERS(scatter_members),
};

/* Lists of them, so that places in a plan's list follow from how many inputs there are. */
static const struct op_tensor scatter_tensors[] = {
    {.name = "inputs",
     .index = -1,
     .in = 1,
     .needed = 1,
     .help = "The tensors that are updated: one or several."},
    {.name = "scatter_indices",
     .index = -1,
     .in = 1,
     .needed = 1,
     .help = "Integers: where the windows start."},
    {.name = "updates", .index = -1, .in = 1, .needed = 1, .help = "One for each input."},
    {.name = "results",
     .index = -1,
     .out = 1,
     .help = "One for each input; a spec need not give them."},
};

const struct op kvmill_scatter_op = {
    .name = "stablehlo.scatter",
    .family = OP_SCATTER,
    .source = OP_STABLEHLO,
    .named = true,
    .parts = {&scatter_struct},
    OP_TENSORS(scatter_tensors),
    .help = "inputs, with updates folded in.",
};
