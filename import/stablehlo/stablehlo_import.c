/* Gathers and scatters found in StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/gather.h"
#include "../../ops/scatter.h"
#include "stablehlo_import.h"

bool is_mlir_gather(const struct mlir_op *op) {
    return strcmp(op->name, "stablehlo.gather") == 0 ||
           strcmp(op->name, "stablehlo.dynamic_gather") == 0;
}

bool is_mlir_scatter(const struct mlir_op *op) {
    return strcmp(op->name, "stablehlo.scatter") == 0;
}

/* ---- Attributes ---- */

static bool read_flag(const struct mlir_file *file, const struct mlir_attr *dict, const char *key,
                      int32_t *flag, struct error *error) {
    const struct mlir_attr *attr = mlir_attr_of(dict, key);
    *flag = attr != NULL && (attr->kind == MLIR_UNIT || attr->integer != 0);
    if (attr == NULL || attr->kind == MLIR_BOOL || attr->kind == MLIR_UNIT)
        return true;
    return mlir_fail(error, file, attr->at, "%s is not a boolean; accepted: true, false", key);
}

/* Fields of #stablehlo.gather<..>, and the axes or numbers that they set. */
enum { FIELDS = 5 };
struct numbers {
    const char *key, *name;
    struct {
        const char *key;
        struct axes *axes;
    } fields[FIELDS];
    int64_t *index_vector_dim;
};

static bool check_keys(const struct mlir_file *file, const struct mlir_op *op,
                       const struct mlir_attr *dict, const struct numbers *numbers,
                       struct error *error) {
    for (int i = 0; i < dict->count; i++) {
        bool known = mlir_word_is(dict->keys[i], "index_vector_dim");
        for (int k = 0; !known && k < FIELDS; k++)
            known = mlir_word_is(dict->keys[i], numbers->fields[k].key);
        size_t length = dict->keys[i].length < 60 ? dict->keys[i].length : 60;
        if (!known)
            return mlir_fail(error, file, dict->items[i].at,
                             "%s: %.*s is not a known field; accepted: %s, %s, %s, %s, %s, "
                             "index_vector_dim",
                             op->name, (int)length, dict->keys[i].text, numbers->fields[0].key,
                             numbers->fields[1].key, numbers->fields[2].key, numbers->fields[3].key,
                             numbers->fields[4].key);
    }
    return true;
}

static bool read_numbers(const struct mlir_file *file, const struct mlir_op *op,
                         const struct numbers *numbers, struct error *error) {
    const struct mlir_attr *dict = mlir_attr_of(&op->attrs, numbers->key);
    if (dict == NULL || dict->kind != MLIR_DICT || !mlir_word_is(dict->word, numbers->name))
        return mlir_fail(error, file, dict ? dict->at : op->at, "%s: no %s; accepted: %s = #%s<..>",
                         op->name, numbers->key, numbers->key, numbers->name);
    if (!check_keys(file, op, dict, numbers, error))
        return false;
    for (int i = 0; i < FIELDS; i++)
        if (!axes_of_mlir(file, numbers->fields[i].key, mlir_attr_of(dict, numbers->fields[i].key),
                          numbers->fields[i].axes, error))
            return false;
    const struct mlir_attr *vector = mlir_attr_of(dict, "index_vector_dim");
    *numbers->index_vector_dim = vector ? vector->integer : 0;
    return vector == NULL || vector->kind == MLIR_INTEGER ||
           mlir_fail(error, file, vector->at,
                     "index_vector_dim is not an integer; accepted: 0, 1, ...");
}

/* ---- Types ---- */

static const struct mlir_type *operand_type(const struct mlir_function *function,
                                            const struct mlir_op *op, int i) {
    return function->values[op->operands[i]].type;
}

static bool fail_op(const struct mlir_file *file, const struct mlir_op *op,
                    const kvmill_error *reason, struct error *error) {
    return mlir_fail(error, file, op->at, "%s: %s", op->name, reason->message);
}

/* ---- Gather ---- */

static bool read_gather_shapes(const struct shape_reader *reader,
                               const struct mlir_function *function, const struct mlir_op *op,
                               struct gather_problem *problem) {
    problem->has_result = true;
    return shape_of_mlir(reader, "operand", operand_type(function, op, 0), &problem->operand) &&
           shape_of_mlir(reader, "start_indices", operand_type(function, op, 1),
                         &problem->start_indices) &&
           shape_of_mlir(reader, "the result", function->values[op->first_result].type,
                         &problem->result);
}

/* Reads a 1-D tensor of integers, which may be a constant or not. */
static bool read_slice_operand(const struct mlir_file *file, const struct mlir_function *function,
                               const struct mlir_op *op, struct gather_problem *problem,
                               struct error *error) {
    const struct mlir_value *value = &function->values[op->operands[2]];
    const struct mlir_type *type = value->type;
    if (!mlir_is_axes_type(type))
        return mlir_fail(
            error, file, op->at,
            "%s: slice_sizes is %.*s; accepted: integers, at most %d of them, in one axis",
            op->name, mlir_word_length(type->word), type->word.text, (int)KVMILL_MOST_RANK);
    const struct mlir_attr *constant = NULL;
    if (value->op != NULL && strcmp(value->op->name, "stablehlo.constant") == 0)
        constant = mlir_attr_of(&value->op->attrs, "value");
    problem->slice_sizes.count = (int)type->dims[0];
    problem->slices_open = constant == NULL;
    if (constant != NULL && !mlir_is_literal_of(constant, type))
        return mlir_fail(error, file, value->op->at,
                         "%s: value and result differ in type; accepted: one type",
                         value->op->name);
    if (constant != NULL)
        axes_of_literal(&constant->literal, &problem->slice_sizes);
    return true;
}

static bool read_gather(const struct mlir_file *file, const struct mlir_function *function,
                        const struct mlir_op *op, struct gather_problem *problem,
                        struct error *error) {
    const struct numbers numbers = {
        .key = "dimension_numbers",
        .name = "stablehlo.gather",
        .fields = {{"offset_dims", &problem->offset_dims},
                   {"collapsed_slice_dims", &problem->collapsed_slice_dims},
                   {"operand_batching_dims", &problem->operand_batching_dims},
                   {"start_indices_batching_dims", &problem->start_indices_batching_dims},
                   {"start_index_map", &problem->start_index_map}},
        .index_vector_dim = &problem->op.index_vector_dim,
    };
    bool is_dynamic = strcmp(op->name, "stablehlo.dynamic_gather") == 0;
    if (op->operand_count != 2 + is_dynamic || op->result_count != 1)
        return mlir_fail(error, file, op->at, "%s: %d operands and %d results; accepted: %d and 1",
                         op->name, op->operand_count, op->result_count, 2 + is_dynamic);
    if (!read_numbers(file, op, &numbers, error) ||
        !read_flag(file, &op->attrs, "indices_are_sorted", &problem->op.indices_are_sorted, error))
        return false;
    if (is_dynamic)
        return read_slice_operand(file, function, op, problem, error);
    const struct mlir_attr *sizes = mlir_attr_of(&op->attrs, "slice_sizes");
    if (sizes == NULL)
        return mlir_fail(error, file, op->at, "%s: no slice_sizes; accepted: array<i64: 1, 2>",
                         op->name);
    return axes_of_mlir(file, "slice_sizes", sizes, &problem->slice_sizes, error);
}

/* Reads everything: once to check constraints, and again to check that extents are known. */
static bool read_whole_gather(const struct shape_reader *reader,
                              const struct mlir_function *function, const struct mlir_op *op,
                              struct gather_problem *problem) {
    memset(problem, 0, sizeof *problem);
    if (is_mlir_slice(op))
        return gather_of_slice(reader, function, op, problem);
    return read_gather(reader->file, function, op, problem, reader->error) &&
           read_gather_shapes(reader, function, op, problem);
}

bool gather_verify_mlir(const struct mlir_file *file, const struct mlir_function *function,
                        const struct mlir_op *op, struct gather_problem *problem,
                        struct error *error) {
    struct gather_view view;
    kvmill_error reason;
    const struct shape_reader reader = {file, op->name, op->at, false, error};
    if (!read_whole_gather(&reader, function, op, problem))
        return false;
    gather_view_make(problem, &view);
    return kvmill_gather_verify(&view.op, &reason) == KVMILL_OK ||
           fail_op(file, op, &reason, error);
}

bool gather_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                    const struct mlir_op *op, struct gather_problem *problem, struct error *error) {
    struct gather_view view;
    struct kvmill_windows windows;
    kvmill_error reason;
    const struct shape_reader reader = {file, op->name, op->at, true, error};
    if (!gather_verify_mlir(file, function, op, problem, error) ||
        !read_whole_gather(&reader, function, op, problem))
        return false;
    gather_view_make(problem, &view);
    return problem->slices_open || kvmill_gather_check(&view.op, &windows, &reason) == KVMILL_OK ||
           fail_op(file, op, &reason, error);
}

bool gather_require_slices(const struct mlir_file *file, const struct mlir_op *op,
                           const struct gather_problem *problem, struct error *error) {
    return !problem->slices_open || mlir_fail(error, file, op->at,
                                              "%s: slice_sizes is not a constant; accepted: "
                                              "stablehlo.constant, as kernels are made "
                                              "for one shape",
                                              op->name);
}

/* ---- Scatter ---- */

static bool read_scatter_numbers(const struct mlir_file *file, const struct mlir_op *op,
                                 struct scatter_problem *problem, struct error *error) {
    const struct numbers numbers = {
        .key = "scatter_dimension_numbers",
        .name = "stablehlo.scatter",
        .fields = {{"update_window_dims", &problem->update_window_dims},
                   {"inserted_window_dims", &problem->inserted_window_dims},
                   {"input_batching_dims", &problem->input_batching_dims},
                   {"scatter_indices_batching_dims", &problem->scatter_indices_batching_dims},
                   {"scatter_dims_to_operand_dims", &problem->scatter_dims_to_operand_dims}},
        .index_vector_dim = &problem->op.index_vector_dim,
    };
    return read_numbers(file, op, &numbers, error) &&
           read_flag(file, &op->attrs, "indices_are_sorted", &problem->op.indices_are_sorted,
                     error) &&
           read_flag(file, &op->attrs, "unique_indices", &problem->op.unique_indices, error);
}

/* Types of consecutive values. */
struct type_list {
    const struct mlir_function *function;
    const int *values;
    int count;
};

static bool read_list(const struct shape_reader *reader, const char *name,
                      const struct type_list *list, struct tensor_shape *shapes) {
    char words[32];
    for (int i = 0; i < list->count; i++) {
        const struct mlir_type *type = list->function->values[list->values[i]].type;
        snprintf(words, sizeof words, "%s[%d]", name, i);
        if (!shape_of_mlir(reader, words, type, &shapes[i]))
            return false;
    }
    return true;
}

static bool read_result_shapes(const struct shape_reader *reader,
                               const struct mlir_function *function, const struct mlir_op *op,
                               struct scatter_problem *problem) {
    problem->has_results = true;
    for (int i = 0; i < problem->count; i++)
        if (!shape_of_mlir(reader, "the result", function->values[op->first_result + i].type,
                           &problem->results[i]))
            return false;
    return true;
}

static bool read_scatter_shapes(const struct shape_reader *reader,
                                const struct mlir_function *function, const struct mlir_op *op,
                                struct scatter_problem *problem) {
    int n = problem->count;
    const struct type_list inputs = {function, op->operands, n};
    const struct type_list updates = {function, op->operands + n + 1, n};
    return read_list(reader, "inputs", &inputs, problem->inputs) &&
           shape_of_mlir(reader, "scatter_indices", operand_type(function, op, n),
                         &problem->scatter_indices) &&
           read_list(reader, "updates", &updates, problem->updates) &&
           read_result_shapes(reader, function, op, problem);
}

static bool check_counts(const struct mlir_file *file, const struct mlir_op *op,
                         const struct scatter_problem *problem, struct error *error) {
    int n = problem->count;
    if (op->operand_count % 2 == 0 || n < 1 || n > KVMILL_MOST_INPUTS)
        return mlir_fail(
            error, file, op->at,
            "%s: C5: %d operands; accepted: inputs, scatter_indices and as many updates as "
            "inputs, 1 to %d",
            op->name, op->operand_count, (int)KVMILL_MOST_INPUTS);
    if (op->result_count != n)
        return mlir_fail(error, file, op->at,
                         "%s: C25: %d results for %d inputs; accepted: equal numbers", op->name,
                         op->result_count, n);
    if (op->region_count != 1)
        return mlir_fail(error, file, op->at, "%s: %d regions; accepted: 1", op->name,
                         op->region_count);
    return true;
}

static bool check_region_counts(const struct mlir_file *file, const struct mlir_op *op,
                                const struct scatter_problem *problem, struct error *error) {
    int n = problem->count;
    if (problem->argument_count == 2 * n && problem->return_count == n)
        return true;
    return mlir_fail(
        error, file, op->at,
        "%s: C23: a region of %d arguments that returns %d values; accepted for %d inputs: %d "
        "and %d",
        op->name, problem->argument_count, problem->return_count, n, 2 * n, n);
}

/* Kernels are made for names of simple regions: names a region that is one op on both halves of the
   arguments, or that returns the second half. */
static void name_region(struct scatter_problem *problem) {
    const kvmill_region_op *op = &problem->ops[0];
    int returned = problem->returned[0];
    bool combines = problem->op_count == 1 && op->operands[0] == 0 && op->operands[1] == 1 &&
                    kvmill_is_combiner(op->name) && returned == 2;
    bool replaces = problem->op_count == 0 && returned == 1;
    bool promotes = !kvmill_element_equal(&problem->arguments[0], &problem->inputs[0].element);
    if (problem->count == 1 && !promotes && (combines || replaces))
        snprintf(problem->update_computation, sizeof problem->update_computation, "%s",
                 combines ? op->name : "replace");
}

static bool read_scatter(const struct shape_reader *reader, const struct mlir_function *function,
                         const struct mlir_op *op, struct scatter_problem *problem) {
    const struct mlir_file *file = reader->file;
    problem->count = op->operand_count / 2;
    return check_counts(file, op, problem, reader->error) &&
           read_scatter_numbers(file, op, problem, reader->error) &&
           read_scatter_shapes(reader, function, op, problem) &&
           region_of_mlir(file, function, &op->regions[0], op->regions[0].first_argument, problem,
                          reader->error) &&
           check_region_counts(file, op, problem, reader->error);
}

bool scatter_verify_mlir(const struct mlir_file *file, const struct mlir_function *function,
                         const struct mlir_op *op, struct scatter_problem *problem,
                         struct error *error) {
    struct scatter_view view;
    struct kvmill_program program;
    kvmill_error reason;
    const struct shape_reader reader = {file, op->name, op->at, false, error};
    memset(problem, 0, sizeof *problem);
    if (!(is_mlir_update(op) ? scatter_of_update : read_scatter)(&reader, function, op, problem))
        return false;
    scatter_view_make(problem, &view);
    if (kvmill_scatter_verify(&view.op, &program, &reason) != KVMILL_OK)
        return fail_op(file, op, &reason, error);
    if (!is_mlir_update(op))
        name_region(problem);
    return true;
}

bool scatter_of_mlir(const struct mlir_file *file, const struct mlir_function *function,
                     const struct mlir_op *op, struct scatter_problem *problem,
                     struct error *error) {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
    kvmill_error reason;
    const struct shape_reader reader = {file, op->name, op->at, true, error};
    if (!scatter_verify_mlir(file, function, op, problem, error) ||
        !(is_mlir_update(op) ? scatter_of_update(&reader, function, op, problem)
                             : read_scatter_shapes(&reader, function, op, problem)))
        return false;
    scatter_view_make(problem, &view);
    return kvmill_scatter_check(&view.op, &windows, &program, &reason) == KVMILL_OK ||
           fail_op(file, op, &reason, error);
}
