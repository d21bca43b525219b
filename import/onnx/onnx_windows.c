/* ONNX's gathers and scatters as StableHLO's.

   Indices must not be negative here; the caller, who has the array, adds the extent to negative
   ones.  If indices have fewer elements along an axis than the data, the op works on the leading
   part of the data: a tensor of these extents with the data's strides.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/gather.h"
#include "../../ops/served/windows_served.h"
#include "../../spec/stablehlo.h"
#include "onnx_ops.h"

static void push(struct axes *axes, int64_t item) {
    axes->items[axes->count++] = item;
}

static void push_range(struct axes *axes, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++)
        push(axes, i);
}

/* ---- Tensors ---- */

static bool set_shape(const struct onnx_call *call, const struct onnx_value *value,
                      struct tensor_shape *shape, struct error *error) {
    if (value->rank > KVMILL_MOST_RANK)
        return onnx_fail(error, call->model, call->node,
                         "\"%.80s\" has %d axes; accepted: at most %d", value->name, value->rank,
                         (int)KVMILL_MOST_RANK);
    if (value->dtype.bits % 8 != 0)
        return onnx_fail(error, call->model, call->node,
                         "\"%.80s\" is %s; accepted: elements of whole bytes", value->name,
                         kvmill_dtype_name(value->dtype));
    shape->element = kvmill_plain_element(value->dtype);
    shape->rank = value->rank;
    if (value->rank > 0)
        memcpy(shape->dims, value->dims, (size_t)value->rank * sizeof *shape->dims);
    return true;
}

/* narrow: int32 is accepted, too. */
static bool set_indices(const struct onnx_call *call, bool narrow, struct tensor_shape *shape,
                        struct error *error) {
    const struct onnx_value *value = onnx_input(call, 1);
    DLDataType type = value->dtype;
    bool good = type.code == kDLInt && (type.bits == 64 || (narrow && type.bits == 32));
    if (!good)
        return onnx_fail(error, call->model, call->node, "indices is %s; accepted: %sint64",
                         kvmill_dtype_name(type), narrow ? "int32, " : "");
    return set_shape(call, value, shape, error);
}

static bool read_axis(const struct onnx_call *call, int rank, int64_t *axis, struct error *error) {
    if (!onnx_integer_of(call->model, call->node, "axis", 0, axis, error))
        return false;
    if (rank == 0)
        return onnx_fail(error, call->model, call->node,
                         "data has no axes; accepted: at least one");
    if (*axis < -rank || *axis >= rank)
        return onnx_fail(error, call->model, call->node,
                         "axis is %" PRId64 "; accepted for data of %d axes: %d to %d", *axis, rank,
                         -rank, rank - 1);
    *axis += *axis < 0 ? rank : 0;
    return true;
}

/* Reduces the data to the leading part that the indices have; the axis stays whole. */
static bool lead(const struct onnx_call *call, const struct tensor_shape *indices, int64_t axis,
                 struct tensor_shape *data, struct error *error) {
    if (indices->rank != data->rank)
        return onnx_fail(error, call->model, call->node,
                         "indices has %d axes; accepted: as many as the data, %d", indices->rank,
                         data->rank);
    for (int d = 0; d < data->rank; d++) {
        if (d != axis && indices->dims[d] > data->dims[d])
            return onnx_fail(error, call->model, call->node,
                             "indices has extent %" PRId64
                             " along axis %d; accepted: at most the data's, %" PRId64,
                             indices->dims[d], d, data->dims[d]);
        data->dims[d] = d == axis ? data->dims[d] : indices->dims[d];
    }
    return true;
}

/* Reads the number of components of an index vector: the last dim of the indices. */
static bool read_components(const struct onnx_call *call, const struct tensor_shape *indices,
                            int64_t most, int64_t *components, struct error *error) {
    *components = indices->rank > 0 ? indices->dims[indices->rank - 1] : 0;
    return (*components >= 1 && *components <= most) ||
           onnx_fail(error, call->model, call->node,
                     "indices ends with an axis of %" PRId64 "; accepted: 1 to %" PRId64
                     " components",
                     *components, most);
}

/* ---- Gathers ---- */

static struct gather_problem *begin_gather(const struct onnx_call *call, struct spec_list *list,
                                           struct error *error) {
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_GATHER, 0), error))
        return NULL;
    return spec->gather;
}

/* A window has one element along the axes that starts select, and all elements of the rest. */
static void set_slices(struct gather_problem *problem) {
    const struct tensor_shape *operand = &problem->operand;
    bool single[KVMILL_MOST_RANK] = {false};
    for (int i = 0; i < problem->start_index_map.count; i++)
        single[problem->start_index_map.items[i]] = true;
    for (int i = 0; i < problem->operand_batching_dims.count; i++)
        single[problem->operand_batching_dims.items[i]] = true;
    for (int d = 0; d < operand->rank; d++)
        push(&problem->slice_sizes, single[d] && operand->dims[d] > 1 ? 1 : operand->dims[d]);
}

static bool end_gather(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    const struct spec *spec = &list->items[list->count - 1];
    struct gather_view view;
    struct kvmill_windows windows;
    kvmill_error reason;
    int64_t dims[KVMILL_MOST_RANK];
    set_slices(spec->gather);
    gather_view_make(spec->gather, &view);
    if (kvmill_gather_check(&view.op, &windows, &reason) != KVMILL_OK)
        return onnx_fail(error, call->model, call->node, "%s", reason.message);
    kvmill_gather_result(&windows, dims);
    return onnx_learn(call->model, onnx_output(call, 0), onnx_input(call, 0)->dtype,
                      windows.windowed_rank, dims, error);
}

bool onnx_add_gather(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    int64_t axis;
    struct gather_problem *problem = begin_gather(call, list, error);
    if (problem == NULL || !set_shape(call, onnx_input(call, 0), &problem->operand, error) ||
        !set_indices(call, true, &problem->start_indices, error) ||
        !read_axis(call, problem->operand.rank, &axis, error))
        return false;
    int q = problem->start_indices.rank;
    push(&problem->collapsed_slice_dims, axis);
    push(&problem->start_index_map, axis);
    push_range(&problem->offset_dims, 0, axis);
    push_range(&problem->offset_dims, axis + q, problem->operand.rank - 1 + q);
    problem->op.index_vector_dim = q;
    return end_gather(call, list, error);
}

bool onnx_add_gather_elements(const struct onnx_call *call, struct spec_list *list,
                              struct error *error) {
    int64_t axis;
    struct gather_problem *problem = begin_gather(call, list, error);
    if (problem == NULL || !set_shape(call, onnx_input(call, 0), &problem->operand, error) ||
        !set_indices(call, true, &problem->start_indices, error) ||
        !read_axis(call, problem->operand.rank, &axis, error) ||
        !lead(call, &problem->start_indices, axis, &problem->operand, error))
        return false;
    int rank = problem->operand.rank;
    push(&problem->collapsed_slice_dims, axis);
    push(&problem->start_index_map, axis);
    push_range(&problem->operand_batching_dims, 0, axis);
    push_range(&problem->operand_batching_dims, axis + 1, rank);
    problem->start_indices_batching_dims = problem->operand_batching_dims;
    problem->op.index_vector_dim = rank;
    return end_gather(call, list, error);
}

static bool read_batch_dims(const struct onnx_call *call, const struct gather_problem *problem,
                            int64_t *batch, struct error *error) {
    int a = problem->operand.rank, b = problem->start_indices.rank, least = a < b ? a : b;
    if (!onnx_integer_of(call->model, call->node, "batch_dims", 0, batch, error))
        return false;
    return (*batch >= 0 && *batch < least) ||
           onnx_fail(error, call->model, call->node,
                     "batch_dims is %" PRId64 "; accepted: less than the axes of data, %d, and of "
                     "indices, %d",
                     *batch, a, b);
}

bool onnx_add_gather_nd(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    int64_t batch, components;
    struct gather_problem *problem = begin_gather(call, list, error);
    if (problem == NULL || !set_shape(call, onnx_input(call, 0), &problem->operand, error) ||
        !set_indices(call, false, &problem->start_indices, error) ||
        !read_batch_dims(call, problem, &batch, error) ||
        !read_components(call, &problem->start_indices, problem->operand.rank - batch, &components,
                         error))
        return false;
    int points = problem->start_indices.rank - 1;
    push_range(&problem->operand_batching_dims, 0, batch);
    problem->start_indices_batching_dims = problem->operand_batching_dims;
    push_range(&problem->collapsed_slice_dims, batch, batch + components);
    problem->start_index_map = problem->collapsed_slice_dims;
    push_range(&problem->offset_dims, points, points + problem->operand.rank - batch - components);
    problem->op.index_vector_dim = points;
    return end_gather(call, list, error);
}

/* ---- Scatters ---- */

static struct scatter_problem *begin_scatter(const struct onnx_call *call, struct spec_list *list,
                                             struct error *error) {
    struct spec *spec = onnx_begin_spec(call, list, error);
    if (spec == NULL || !spec_begin(spec, kvmill_op_of(OP_SCATTER, 0), error))
        return NULL;
    spec->window_scatter->count = 1;
    return spec->window_scatter;
}

/* Reads the reduction, which must exist in the model's opset. */
static bool read_reduction(const struct onnx_call *call, struct scatter_problem *problem,
                           struct error *error) {
    static const struct {
        const char *word, *combiner;
        int first_opset;
    } reductions[] = {
        {"none", "replace", 1}, {"add", "add", 16},     {"mul", "multiply", 16},
        {"max", "maximum", 18}, {"min", "minimum", 18},
    };
    char word[16];
    if (!onnx_word_of(call->model, call->node, "reduction", "none", word, sizeof word, error))
        return false;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++)
        if (strcmp(reductions[i].word, word) == 0 &&
            call->model->opset >= reductions[i].first_opset) {
            strcpy(problem->update_computation, reductions[i].combiner);
            return true;
        }
    return onnx_fail(error, call->model, call->node,
                     "reduction is \"%s\" in opset %" PRId64
                     "; accepted: none, from 16 add, mul, from 18 max, min",
                     word, call->model->opset);
}

static bool set_tensors(const struct onnx_call *call, bool narrow, struct scatter_problem *problem,
                        struct error *error) {
    return set_shape(call, onnx_input(call, 0), &problem->inputs[0], error) &&
           set_indices(call, narrow, &problem->scatter_indices, error) &&
           set_shape(call, onnx_input(call, 2), &problem->updates[0], error) &&
           read_reduction(call, problem, error);
}

static bool end_scatter(const struct onnx_call *call, struct spec_list *list, struct error *error) {
    const struct onnx_value *data = onnx_input(call, 0);
    const struct spec *spec = &list->items[list->count - 1];
    return spec_check(spec, error) && onnx_learn(call->model, onnx_output(call, 0), data->dtype,
                                                 data->rank, data->dims, error);
}

static bool check_updates(const struct onnx_call *call, const struct scatter_problem *problem,
                          struct error *error) {
    const struct tensor_shape *updates = &problem->updates[0], *indices = &problem->scatter_indices;
    bool same = updates->rank == indices->rank;
    for (int d = 0; same && d < updates->rank; d++)
        same = updates->dims[d] == indices->dims[d];
    return same || onnx_fail(error, call->model, call->node,
                             "updates and indices differ in shape; accepted: one shape");
}

bool onnx_add_scatter_elements(const struct onnx_call *call, struct spec_list *list,
                               struct error *error) {
    int64_t axis;
    struct scatter_problem *problem = begin_scatter(call, list, error);
    if (problem == NULL || !set_tensors(call, true, problem, error) ||
        !read_axis(call, problem->inputs[0].rank, &axis, error) ||
        !lead(call, &problem->scatter_indices, axis, &problem->inputs[0], error) ||
        !check_updates(call, problem, error))
        return false;
    int rank = problem->inputs[0].rank;
    push(&problem->inserted_window_dims, axis);
    push(&problem->scatter_dims_to_operand_dims, axis);
    push_range(&problem->input_batching_dims, 0, axis);
    push_range(&problem->input_batching_dims, axis + 1, rank);
    problem->scatter_indices_batching_dims = problem->input_batching_dims;
    problem->op.index_vector_dim = rank;
    return end_scatter(call, list, error);
}

bool onnx_add_scatter_nd(const struct onnx_call *call, struct spec_list *list,
                         struct error *error) {
    int64_t components;
    struct scatter_problem *problem = begin_scatter(call, list, error);
    if (problem == NULL || !set_tensors(call, false, problem, error) ||
        !read_components(call, &problem->scatter_indices, problem->inputs[0].rank, &components,
                         error))
        return false;
    int points = problem->scatter_indices.rank - 1;
    push_range(&problem->inserted_window_dims, 0, components);
    problem->scatter_dims_to_operand_dims = problem->inserted_window_dims;
    push_range(&problem->update_window_dims, points, points + problem->inputs[0].rank - components);
    problem->op.index_vector_dim = points;
    return end_scatter(call, list, error);
}

/* ---- In ONNX Runtime ---- */

static enum kvmill_windows_op op_of(const struct onnx_call *call) {
    return strcmp(call->op->name, "Gather") == 0     ? KVMILL_ONNX_GATHER
           : strcmp(call->op->name, "GatherND") == 0 ? KVMILL_ONNX_GATHER_ND
                                                     : KVMILL_ONNX_SCATTER_ELEMENTS;
}

/* Attributes of another kind are refused by onnx_check_call. */
static int64_t attribute_of(const struct onnx_call *call, const char *name) {
    struct error ignored;
    int64_t value = 0;
    return onnx_integer_of(call->model, call->node, name, 0, &value, &ignored) ? value : 0;
}

static bool refuses(const struct onnx_call *call, const struct kvmill_windows_node *node,
                    kvmill_error *reason) {
    bool scatters = node->op == KVMILL_ONNX_SCATTER_ELEMENTS;
    return (scatters && onnx_input(call, 0)->is_made &&
            kvmill_windows_refuse_made(0, reason) != KVMILL_OK) ||
           kvmill_windows_check(node, reason) != KVMILL_OK ||
           kvmill_windows_pays(node, reason) != KVMILL_OK;
}

bool onnx_window_pays(const struct onnx_call *call, char *words, size_t size) {
    char reduction[16];
    struct error ignored;
    kvmill_error reason;
    DLTensor tensors[KVMILL_WINDOWS_INPUTS];
    struct kvmill_windows_node node = {.op = op_of(call),
                                       .axis = attribute_of(call, "axis"),
                                       .batch_dims = attribute_of(call, "batch_dims"),
                                       .reduction = reduction};
    int count = node.op == KVMILL_ONNX_SCATTER_ELEMENTS ? 3 : 2;
    for (int i = 0; i < count; i++) {
        const struct onnx_value *value = onnx_input(call, i);
        if (value == NULL || !value->has_shape || value->dtype.bits == 0)
            return true; /* the model says too little, or has no such node */
        tensors[i] = onnx_tensor_of(value);
        node.inputs[i] = &tensors[i];
    }
    if (!onnx_word_of(call->model, call->node, "reduction", "none", reduction, sizeof reduction,
                      &ignored) ||
        !refuses(call, &node, &reason))
        return true;
    snprintf(words, size, "%s", reason.message);
    return false;
}

bool onnx_window_never_pays(const struct onnx_call *call, char *words, size_t size) {
    (void)call, (void)size;
    words[0] = '\0';
    return false;
}
