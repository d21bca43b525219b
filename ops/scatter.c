/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attributes.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

static const char *const words[] = {
    [KVMILL_WORD_WINDOW] = "update_window_dims",
    [KVMILL_WORD_DROPPED] = "inserted_window_dims",
    [KVMILL_WORD_BATCHING] = "input_batching_dims",
    [KVMILL_WORD_INDICES_BATCHING] = "scatter_indices_batching_dims",
    [KVMILL_WORD_MAP] = "scatter_dims_to_operand_dims",
    [KVMILL_WORD_OPERAND] = "inputs",
    [KVMILL_WORD_INDICES] = "scatter_indices",
    [KVMILL_WORD_WINDOWED] = "updates",
};

static struct kvmill_numbers numbers_of(const kvmill_scatter *op) {
    return (struct kvmill_numbers){
        .words = words,
        .window = op->update_window_dims,
        .dropped = op->inserted_window_dims,
        .batching = op->input_batching_dims,
        .indices_batching = op->scatter_indices_batching_dims,
        .map = op->scatter_dims_to_operand_dims,
        .index_vector_dim = op->index_vector_dim,
        .operand = op->inputs[0],
        .indices = op->scatter_indices,
        .windowed_rank = op->updates[0]->ndim,
    };
}

/* In the order in which StableHLO's own verifier checks them, after C1, C3, C22, C23 and the part
 * of C4 about ranks. */
static const struct kvmill_constraint constraints[] = {
    {2, kvmill_check_axis_count},
    {7, kvmill_check_window_sorted},
    {8, kvmill_check_window_range},
    {9, kvmill_check_dropped_unique},
    {10, kvmill_check_dropped_sorted},
    {11, kvmill_check_dropped_range},
    {12, kvmill_check_batching_sorted},
    {13, kvmill_check_batching_range},
    {14, kvmill_check_indices_batching_unique},
    {15, kvmill_check_indices_batching_range},
    {16, kvmill_check_indices_batching_vector},
    {17, kvmill_check_pair_count},
    {18, kvmill_check_pair_extents},
    {19, kvmill_check_map_size},
    {20, kvmill_check_map_unique},
    {21, kvmill_check_map_range},
};

/* ---- Tensors ---- */

static kvmill_status check_given(const char *name, const DLTensor *const *tensors, size_t count,
                                 kvmill_error *error) {
    char words_of_it[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(words_of_it, sizeof words_of_it, "%s[%zu]", name, i);
        if (tensors == NULL || tensors[i] == NULL)
            return kvmill_refuse_null(words_of_it, error);
        kvmill_status status = kvmill_check_rank(words_of_it, tensors[i], error);
        if (status != KVMILL_OK)
            return status;
        if (kvmill_kind_of(tensors[i]->dtype) == KVMILL_NO_KIND)
            return kvmill_refuse_type_code(words_of_it, tensors[i]->dtype, "the types of StableHLO",
                                           error);
    }
    return KVMILL_OK;
}

static kvmill_status check_tensors(const kvmill_scatter *op, kvmill_error *error) {
    if (op->count == 0 || op->count > KVMILL_MOST_INPUTS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "C5: %zu inputs; accepted: 1 to %d",
                           op->count, (int)KVMILL_MOST_INPUTS);
    kvmill_status status = kvmill_check_axis_lists(OP_SCATTER, op, NULL, error);
    if (status == KVMILL_OK)
        status = check_given("inputs", op->inputs, op->count, error);
    if (status == KVMILL_OK)
        status = check_given("scatter_indices", &op->scatter_indices, 1, error);
    if (status == KVMILL_OK)
        status = check_given("updates", op->updates, op->count, error);
    if (status == KVMILL_OK && op->results != NULL)
        status = check_given("results", op->results, op->count, error);
    return status;
}

static kvmill_status check_index_type(const kvmill_scatter *op, kvmill_error *error) {
    enum kvmill_kind kind = kvmill_kind_of(op->scatter_indices->dtype);
    if (kind == KVMILL_INT || kind == KVMILL_UINT || kind == KVMILL_BOOL)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_DTYPE,
                       "scatter_indices has element type %s; accepted: integers, i1",
                       kvmill_element_word(op->scatter_indices->dtype));
}

static bool is_same_shape(const DLTensor *a, const DLTensor *b) {
    bool same = a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++)
        same = kvmill_may_be_equal(a->shape[d], b->shape[d]);
    return same;
}

static kvmill_status check_one_shape(int number, const char *name, const DLTensor *const *tensors,
                                     const DLTensor *first, size_t count, kvmill_error *error) {
    char words[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(words, sizeof words, "C%d: %s[%zu]", number, name, i);
        if (!is_same_shape(tensors[i], first))
            return kvmill_refuse_shape(words, tensors[i], first->ndim, first->shape, "", error);
    }
    return KVMILL_OK;
}

/* ---- Types ---- */

static kvmill_element_type element_of(const kvmill_element_type *given, const DLTensor *tensor,
                                      size_t i) {
    return given ? given[i] : kvmill_plain_element(tensor->dtype);
}

kvmill_element_type kvmill_scatter_input_element(const kvmill_scatter *op, size_t i) {
    return element_of(op->elements, op->inputs[i], i);
}

kvmill_element_type kvmill_scatter_update_element(const kvmill_scatter *op, size_t i) {
    const kvmill_element_type *given = op->update_elements ? op->update_elements : op->elements;
    return element_of(given, op->updates[i], i);
}

static kvmill_status make_program(const kvmill_scatter *op, struct kvmill_program *program,
                                  kvmill_error *error) {
    kvmill_element_type elements[KVMILL_MOST_INPUTS];
    for (size_t i = 0; i < op->count; i++)
        elements[i] = kvmill_scatter_input_element(op, i);
    if (op->update_computation != NULL)
        return kvmill_program_named(op->update_computation, elements, op->count, program, error);
    return kvmill_program_make(op->region, op->count, program, error);
}

static kvmill_status refuse_type(const char *what, size_t i, const kvmill_element_type *have,
                                 const char *accepted, const kvmill_element_type *want,
                                 kvmill_error *error) {
    struct kvmill_element_text have_words, want_words;
    return kvmill_fail(error, KVMILL_E_DTYPE, "%s[%zu] is %s; accepted: %s %s", what, i,
                       kvmill_element_words(have, &have_words), accepted,
                       kvmill_element_words(want, &want_words));
}

/* (E0, ..., E0, ...) -> (E0, ...), and inputs promotable to E. */
static kvmill_status check_region_types(const kvmill_scatter *op,
                                        const struct kvmill_program *program, kvmill_error *error) {
    size_t n = op->count;
    for (size_t i = 0; i < n; i++) {
        const kvmill_element_type *type = &program->type[program->result[i]];
        kvmill_element_type input = kvmill_scatter_input_element(op, i);
        for (size_t half = 0; half < 2; half++)
            if (!kvmill_element_equal(&program->type[half * n + i], type))
                return refuse_type("C23: the type of the region's arguments", half * n + i,
                                   &program->type[half * n + i], "the type it returns,", type,
                                   error);
        if (!kvmill_element_promotable(&input, type))
            return refuse_type("C23: the element type of inputs", i, &input,
                               "what can be promoted to the region's", type, error);
    }
    return KVMILL_OK;
}

static kvmill_status check_update_types(const kvmill_scatter *op, kvmill_error *error) {
    for (size_t i = 0; i < op->count; i++) {
        kvmill_element_type input = kvmill_scatter_input_element(op, i);
        kvmill_element_type update = kvmill_scatter_update_element(op, i);
        if (!kvmill_element_equal(&input, &update))
            return refuse_type("C6: the element type of updates", i, &update, "that of its input,",
                               &input, error);
    }
    return KVMILL_OK;
}

static kvmill_status check_stored(const char *name, size_t i, kvmill_element_type element,
                                  const DLTensor *tensor, kvmill_error *error) {
    char words_of_it[64];
    snprintf(words_of_it, sizeof words_of_it, "%s[%zu]", name, i);
    return kvmill_check_stored(words_of_it, &element, tensor, error);
}

/* Check that given element types agree with the types in memory. */
static kvmill_status check_all_stored(const kvmill_scatter *op, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < op->count; i++) {
        status =
            check_stored("inputs", i, kvmill_scatter_input_element(op, i), op->inputs[i], error);
        if (status == KVMILL_OK)
            status = check_stored("updates", i, kvmill_scatter_update_element(op, i),
                                  op->updates[i], error);
    }
    return status;
}

static kvmill_status check_types(const kvmill_scatter *op, struct kvmill_program *program,
                                 kvmill_error *error) {
    kvmill_status status = check_all_stored(op, error);
    if (status == KVMILL_OK)
        status = make_program(op, program, error);
    if (status == KVMILL_OK)
        status = check_region_types(op, program, error);
    return status == KVMILL_OK ? check_update_types(op, error) : status;
}

static kvmill_status check_results(const kvmill_scatter *op, const struct kvmill_program *program,
                                   kvmill_error *error) {
    if (op->results == NULL)
        return KVMILL_OK;
    kvmill_status status =
        check_one_shape(24, "results", op->results, op->inputs[0], op->count, error);
    for (size_t i = 0; status == KVMILL_OK && i < op->count; i++) {
        const kvmill_element_type *type = &program->type[program->result[i]];
        kvmill_element_type result = element_of(op->result_elements, op->results[i], i);
        if (kvmill_is_quantized(type) && op->result_elements == NULL)
            result = *type;
        status = check_stored("results", i, result, op->results[i], error);
        if (status == KVMILL_OK && !kvmill_element_equal(&result, type))
            status = refuse_type("C25: the element type of results", i, &result, "the region's,",
                                 type, error);
    }
    return status;
}

/* ---- Updates ---- */

static kvmill_status check_update_rank(const kvmill_scatter *op,
                                       const struct kvmill_numbers *numbers, kvmill_error *error) {
    int wanted = kvmill_space_rank(numbers) + (int)op->update_window_dims.count;
    if (op->updates[0]->ndim == wanted)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_SHAPE,
                       "C4: updates has rank %d; accepted: %d, %d for the indices and %zu for "
                       "update_window_dims",
                       op->updates[0]->ndim, wanted, kvmill_space_rank(numbers),
                       op->update_window_dims.count);
}

static kvmill_status refuse_extent(const DLTensor *updates, int axis, const char *accepted,
                                   int64_t extent, kvmill_error *error) {
    struct kvmill_shape_text have;
    return kvmill_fail(error, KVMILL_E_SHAPE,
                       "C4: updates has shape %s; accepted on axis %d: %s%" PRId64,
                       kvmill_shape_words(updates, &have), axis, accepted, extent);
}

static kvmill_status check_update_extents(const kvmill_scatter *op,
                                          const struct kvmill_windows *windows,
                                          kvmill_error *error) {
    const DLTensor *updates = op->updates[0];
    for (int d = 0; d < windows->rank; d++) {
        int axis = windows->axis[d];
        bool known = axis != KVMILL_NOT_THERE && windows->dim[d] != KVMILL_DYNAMIC;
        if (known && updates->shape[axis] > windows->dim[d])
            return refuse_extent(updates, axis, "0 to ", windows->dim[d], error);
    }
    for (int j = 0; j < windows->space_rank; j++)
        if (!kvmill_may_be_equal(updates->shape[windows->space_axis[j]], windows->space[j]))
            return refuse_extent(updates, windows->space_axis[j], "", windows->space[j], error);
    return KVMILL_OK;
}

static void unfold(const kvmill_scatter *op, struct kvmill_windows *windows) {
    int64_t extent[KVMILL_MOST_RANK];
    struct kvmill_numbers numbers = numbers_of(op);
    for (size_t i = 0; i < op->update_window_dims.count; i++)
        extent[i] = op->updates[0]->shape[op->update_window_dims.items[i]];
    kvmill_windows_unfold(&numbers, extent, windows);
}

/* ---- All of it ---- */

static kvmill_status check_shapes_and_types(const kvmill_scatter *op,
                                            struct kvmill_program *program, kvmill_error *error) {
    struct kvmill_numbers numbers = numbers_of(op);
    kvmill_status status =
        check_one_shape(1, "inputs", op->inputs, op->inputs[0], op->count, error);
    if (status == KVMILL_OK)
        status = check_one_shape(3, "updates", op->updates, op->updates[0], op->count, error);
    if (status == KVMILL_OK)
        status = kvmill_check_vector_dim(22, &numbers, error);
    if (status == KVMILL_OK)
        status = check_types(op, program, error);
    return status == KVMILL_OK ? check_update_rank(op, &numbers, error) : status;
}

kvmill_status kvmill_scatter_verify(const kvmill_scatter *op, struct kvmill_program *program,
                                    kvmill_error *error) {
    struct kvmill_windows windows;
    kvmill_status status = check_tensors(op, error);
    if (status == KVMILL_OK)
        status = check_index_type(op, error);
    if (status == KVMILL_OK)
        status = check_shapes_and_types(op, program, error);
    if (status != KVMILL_OK)
        return status;
    struct kvmill_numbers numbers = numbers_of(op);
    status = kvmill_constraints_check(constraints, sizeof constraints / sizeof *constraints,
                                      &numbers, error);
    if (status != KVMILL_OK)
        return status;
    unfold(op, &windows);
    status = check_update_extents(op, &windows, error);
    return status == KVMILL_OK ? check_results(op, program, error) : status;
}

kvmill_status kvmill_scatter_check(const kvmill_scatter *op, struct kvmill_windows *windows,
                                   struct kvmill_program *program, kvmill_error *error) {
    kvmill_status status = kvmill_scatter_verify(op, program, error);
    for (size_t i = 0; status == KVMILL_OK && i < op->count; i++) {
        status = kvmill_check_known("inputs", op->inputs[i], error);
        if (status == KVMILL_OK)
            status = kvmill_check_known("updates", op->updates[i], error);
        if (status == KVMILL_OK && op->results != NULL)
            status = kvmill_check_known("results", op->results[i], error);
    }
    if (status == KVMILL_OK)
        status = kvmill_check_known("scatter_indices", op->scatter_indices, error);
    if (status == KVMILL_OK)
        status = kvmill_check_members(OP_SCATTER, 0, op, error);
    if (status == KVMILL_OK)
        unfold(op, windows);
    return status;
}
