/* stablehlo.gather and stablehlo.scatter in spec files, and as specs from StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/gather.h"
#include "../ops/gather_fold.h"
#include "../ops/scatter_shape.h"
#include "gather_family.h"
#include "rows_family.h"
#include "scatter_family.h"
#include "scatter_region_family.h"
#include "spec.h"
#include "stablehlo.h"

bool is_gather_spec(const struct spec *spec) {
    return spec->op == &gather_spec;
}

bool is_window_spec(const struct spec *spec) {
    return spec->op == &gather_spec || spec->op == &window_scatter_spec;
}

/* ---- Reading ---- */

static bool read_axes(const struct json_place *place, const char *key, struct axes *axes,
                      struct error *error) {
    struct json_place member = json_member(place, key);
    axes->count = 0;
    if (!json_given(&member))
        return true;
    if (!json_get_array(&member, error))
        return false;
    size_t count = json_array_size(member.value);
    if (count > KVMILL_MOST_RANK)
        return json_fail(error, &member, "has %zu elements; accepted: at most %d", count,
                         (int)KVMILL_MOST_RANK);
    for (size_t i = 0; i < count; i++) {
        struct json_place element = json_element(&member, i);
        if (!json_get_integer(&element, INT64_MIN, INT64_MAX, &axes->items[i], error))
            return false;
    }
    axes->count = (int)count;
    return true;
}

static bool read_flag(const struct json_place *place, const char *key, bool *flag,
                      struct error *error) {
    struct json_place member = json_member(place, key);
    *flag = json_is_true(member.value);
    return !json_given(&member) || json_is_boolean(member.value) ||
           json_fail(error, &member, "is no truth value; accepted: true, false");
}

static bool read_vector_dim(const struct json_place *place, int64_t *dim, struct error *error) {
    struct json_place member = json_member(place, "index_vector_dim");
    *dim = 0;
    return !json_given(&member) || json_get_integer(&member, INT64_MIN, INT64_MAX, dim, error);
}

/* A word, cut where it is too long to be one that is accepted. */
static bool read_word(const struct json_place *place, const char *key, char *word, size_t size,
                      struct error *error) {
    const char *text = "";
    struct json_place member = json_member(place, key);
    if (json_given(&member) && !json_get_string(&member, &text, error))
        return false;
    snprintf(word, size, "%s", text);
    return true;
}

/* "tensor<2x3xf32>" */
static bool read_shape(const struct json_place *place, struct tensor_shape *shape,
                       struct error *error) {
    struct mlir_file file = {0};
    const struct mlir_type *type;
    const char *text;
    struct error reason = {0};
    if (!json_get_string(place, &text, error))
        return false;
    bool done = mlir_read_type("type", text, &file, &type, &reason) &&
                shape_of_mlir(&file, "spec", "it", type, 0, true, shape, &reason);
    mlir_free(&file);
    return done || json_fail(error, place, "is \"%.80s\": %.400s", text, reason.text);
}

static bool read_member_shape(const struct json_place *place, const char *key,
                              struct tensor_shape *shape, struct error *error) {
    struct json_place member = json_member(place, key);
    return read_shape(&member, shape, error);
}

/* One type, or a list of them. */
static bool read_shapes(const struct json_place *place, const char *key,
                        struct tensor_shape *shapes, int *count, struct error *error) {
    struct json_place member = json_member(place, key);
    *count = 1;
    if (!json_is_array(member.value))
        return read_shape(&member, shapes, error);
    size_t given = json_array_size(member.value);
    if (given < 1 || given > KVMILL_MOST_INPUTS)
        return json_fail(error, &member, "has %zu types; accepted: 1 to %d", given,
                         (int)KVMILL_MOST_INPUTS);
    for (size_t i = 0; i < given; i++) {
        struct json_place element = json_element(&member, i);
        if (!read_shape(&element, &shapes[i], error))
            return false;
    }
    *count = (int)given;
    return true;
}

static bool read_fill(const struct json_place *place, struct gather_problem *problem,
                      struct error *error) {
    static const kvmill_element_type number = {.dtype = {kDLFloat, 64, 1}};
    struct json_place member = json_member(place, "fill_value");
    problem->has_fill = json_given(&member);
    if (!problem->has_fill)
        return true;
    if (!json_is_number(member.value))
        return json_fail(error, &member, "is no number; accepted: one, or none for JAX's choice");
    double value = json_number_value(member.value);
    struct kvmill_scalar scalar = {{kvmill_bits_of(number.dtype, value), 0}};
    problem->fill = kvmill_scalar_convert(&number, &problem->operand.element, scalar);
    return true;
}

static bool check_gather(const struct spec *spec, struct error *error) {
    struct gather_view view;
    struct kvmill_windows windows;
    kvmill_error reason;
    gather_view_make(spec->gather, &view);
    return kvmill_gather_check(&view.op, &windows, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool read_gather(const struct json_place *place, struct spec *spec, struct error *error) {
    static const char *const known[] = {"op",
                                        "purpose",
                                        "name",
                                        "operand",
                                        "start_indices",
                                        "result",
                                        "offset_dims",
                                        "collapsed_slice_dims",
                                        "operand_batching_dims",
                                        "start_indices_batching_dims",
                                        "start_index_map",
                                        "index_vector_dim",
                                        "slice_sizes",
                                        "indices_are_sorted",
                                        "mode",
                                        "fill_value",
                                        NULL};
    struct gather_problem *problem = spec->gather = calloc(1, sizeof *problem);
    if (problem == NULL)
        return out_of_memory(error);
    struct json_place result = json_member(place, "result");
    problem->has_result = json_given(&result);
    return json_only_keys(place, known, error) &&
           read_member_shape(place, "operand", &problem->operand, error) &&
           read_member_shape(place, "start_indices", &problem->start_indices, error) &&
           (!problem->has_result || read_shape(&result, &problem->result, error)) &&
           read_axes(place, "offset_dims", &problem->offset_dims, error) &&
           read_axes(place, "collapsed_slice_dims", &problem->collapsed_slice_dims, error) &&
           read_axes(place, "operand_batching_dims", &problem->operand_batching_dims, error) &&
           read_axes(place, "start_indices_batching_dims", &problem->start_indices_batching_dims,
                     error) &&
           read_axes(place, "start_index_map", &problem->start_index_map, error) &&
           read_axes(place, "slice_sizes", &problem->slice_sizes, error) &&
           read_vector_dim(place, &problem->index_vector_dim, error) &&
           read_flag(place, "indices_are_sorted", &problem->indices_are_sorted, error) &&
           read_word(place, "mode", problem->mode, sizeof problem->mode, error) &&
           read_fill(place, problem, error) && check_gather(spec, error);
}

/* ---- Regions ---- */

enum { CAPTURE_NAME = 24 };

static bool read_captures(const struct json_place *place, char names[][CAPTURE_NAME],
                          struct mlir_capture *captures, int *count, struct error *error) {
    struct json_place member = json_member(place, "captures");
    *count = 0;
    if (!json_given(&member))
        return true;
    if (!json_get_array(&member, error))
        return false;
    if (json_array_size(member.value) > KVMILL_MOST_CAPTURES)
        return json_fail(error, &member, "has %zu types; accepted: at most %d",
                         json_array_size(member.value), (int)KVMILL_MOST_CAPTURES);
    for (; *count < (int)json_array_size(member.value); ++*count) {
        struct json_place element = json_element(&member, (size_t)*count);
        snprintf(names[*count], CAPTURE_NAME, "capture%d", *count);
        captures[*count].name = names[*count];
        if (!json_get_string(&element, &captures[*count].type, error))
            return false;
        if (strncmp(captures[*count].type, "tensor<", strlen("tensor<")) != 0)
            return json_fail(error, &element, "is \"%.60s\"; accepted: tensor<f32>, ...",
                             captures[*count].type);
    }
    return true;
}

/* Captures as the spec lists them, used or not. */
static void order_captures(struct scatter_problem *problem, int count) {
    for (int i = 0; i < problem->op_count; i++)
        if (strcmp(problem->ops[i].name, "capture") == 0)
            problem->ops[i].value[0] = (uint64_t)problem->captured[problem->ops[i].value[0]];
    problem->capture_count = count;
}

/* "^bb0(%a: tensor<f32>, %b: tensor<f32>): ..", with %capture0, ... from outside. */
static bool read_region(const struct json_place *place, const struct json_place *member,
                        const char *text, struct scatter_problem *problem, struct error *error) {
    char names[KVMILL_MOST_CAPTURES][CAPTURE_NAME];
    struct mlir_capture captures[KVMILL_MOST_CAPTURES];
    struct mlir_file file = {0};
    struct error reason = {0};
    int count;
    if (!read_captures(place, names, captures, &count, error))
        return false;
    bool done = mlir_read_region("region", text, captures, count, &file, &reason);
    if (done) {
        const struct mlir_function *function = file.chunks->functions;
        done = region_of_mlir(&file, function, &function->body, count, problem, &reason);
    }
    mlir_free(&file);
    order_captures(problem, count);
    if (!done)
        return json_fail(error, member, "%.500s", reason.text);
    int n = problem->count;
    return (problem->argument_count == 2 * n && problem->return_count == n) ||
           json_fail(
               error, member,
               "C23: has %d arguments and returns %d values; accepted for %d inputs: %d and %d",
               problem->argument_count, problem->return_count, n, 2 * n, n);
}

static bool read_computation(const struct json_place *place, struct scatter_problem *problem,
                             struct error *error) {
    const char *text;
    struct json_place member = json_member(place, "update_computation");
    if (!json_get_string(&member, &text, error))
        return false;
    if (text[0] == '^')
        return read_region(place, &member, text, problem, error);
    snprintf(problem->update_computation, sizeof problem->update_computation, "%s", text);
    return true;
}

/* ---- Scatter ---- */

static bool check_scatter(const struct spec *spec, struct error *error) {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
    kvmill_error reason;
    scatter_view_make(spec->window_scatter, &view);
    return kvmill_scatter_check(&view.op, &windows, &program, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool read_scatter_tensors(const struct json_place *place, struct scatter_problem *problem,
                                 struct error *error) {
    int updates, results;
    struct json_place given = json_member(place, "results");
    problem->has_results = json_given(&given);
    if (!read_shapes(place, "inputs", problem->inputs, &problem->count, error) ||
        !read_shapes(place, "updates", problem->updates, &updates, error) ||
        !read_member_shape(place, "scatter_indices", &problem->scatter_indices, error) ||
        (problem->has_results && !read_shapes(place, "results", problem->results, &results, error)))
        return false;
    struct json_place member = json_member(place, "updates");
    if (updates != problem->count)
        return json_fail(error, &member, "C5: has %d types; accepted: as many as inputs, %d",
                         updates, problem->count);
    return !problem->has_results || results == problem->count ||
           json_fail(error, &given, "C25: has %d types; accepted: as many as inputs, %d", results,
                     problem->count);
}

static bool read_scatter(const struct json_place *place, struct spec *spec, struct error *error) {
    static const char *const known[] = {"op",
                                        "purpose",
                                        "name",
                                        "inputs",
                                        "scatter_indices",
                                        "updates",
                                        "results",
                                        "update_window_dims",
                                        "inserted_window_dims",
                                        "input_batching_dims",
                                        "scatter_indices_batching_dims",
                                        "scatter_dims_to_operand_dims",
                                        "index_vector_dim",
                                        "indices_are_sorted",
                                        "unique_indices",
                                        "window_out_of_bounds",
                                        "update_computation",
                                        "captures",
                                        NULL};
    struct scatter_problem *problem = spec->window_scatter = calloc(1, sizeof *problem);
    if (problem == NULL)
        return out_of_memory(error);
    return json_only_keys(place, known, error) && read_scatter_tensors(place, problem, error) &&
           read_axes(place, "update_window_dims", &problem->update_window_dims, error) &&
           read_axes(place, "inserted_window_dims", &problem->inserted_window_dims, error) &&
           read_axes(place, "input_batching_dims", &problem->input_batching_dims, error) &&
           read_axes(place, "scatter_indices_batching_dims",
                     &problem->scatter_indices_batching_dims, error) &&
           read_axes(place, "scatter_dims_to_operand_dims", &problem->scatter_dims_to_operand_dims,
                     error) &&
           read_vector_dim(place, &problem->index_vector_dim, error) &&
           read_flag(place, "indices_are_sorted", &problem->indices_are_sorted, error) &&
           read_flag(place, "unique_indices", &problem->unique_indices, error) &&
           read_word(place, "window_out_of_bounds", problem->window_out_of_bounds,
                     sizeof problem->window_out_of_bounds, error) &&
           read_computation(place, problem, error) && check_scatter(spec, error);
}

/* ---- Writing ---- */

static void write_axes(json_t *object, const char *key, const struct axes *axes) {
    json_t *list = json_array();
    for (int i = 0; i < axes->count; i++)
        json_array_append_new(list, json_integer(axes->items[i]));
    json_object_set_new(object, key, list);
}

static json_t *write_shape(const struct tensor_shape *shape) {
    struct text text = {0};
    json_t *words = shape_write(shape, &text) ? json_string(text.data) : NULL;
    text_free(&text);
    return words;
}

static void write_shapes(json_t *object, const char *key, const struct tensor_shape *shapes,
                         int count) {
    json_t *list = json_array();
    if (count == 1)
        json_object_set_new(object, key, write_shape(shapes));
    for (int i = 0; count > 1 && i < count; i++)
        json_array_append_new(list, write_shape(&shapes[i]));
    if (count > 1)
        json_object_set(object, key, list);
    json_decref(list);
}

static void write_name(const struct spec *spec, json_t *object) {
    if (spec->name[0])
        json_object_set_new(object, "name", json_string(spec->name));
}

static void write_gather(const struct spec *spec, json_t *object) {
    const struct gather_problem *problem = spec->gather;
    static const kvmill_element_type number = {.dtype = {kDLFloat, 64, 1}};
    write_name(spec, object);
    json_object_set_new(object, "operand", write_shape(&problem->operand));
    json_object_set_new(object, "start_indices", write_shape(&problem->start_indices));
    write_axes(object, "offset_dims", &problem->offset_dims);
    write_axes(object, "collapsed_slice_dims", &problem->collapsed_slice_dims);
    write_axes(object, "operand_batching_dims", &problem->operand_batching_dims);
    write_axes(object, "start_indices_batching_dims", &problem->start_indices_batching_dims);
    write_axes(object, "start_index_map", &problem->start_index_map);
    json_object_set_new(object, "index_vector_dim", json_integer(problem->index_vector_dim));
    write_axes(object, "slice_sizes", &problem->slice_sizes);
    if (problem->indices_are_sorted)
        json_object_set_new(object, "indices_are_sorted", json_true());
    if (problem->mode[0])
        json_object_set_new(object, "mode", json_string(problem->mode));
    struct kvmill_scalar fill =
        kvmill_scalar_convert(&problem->operand.element, &number, problem->fill);
    if (problem->has_fill)
        json_object_set_new(object, "fill_value",
                            json_real(kvmill_float_of(number.dtype, fill.word[0])));
}

static void write_region(const struct scatter_problem *problem, json_t *object) {
    struct text text = {0};
    json_t *captures = json_array();
    if (region_write(problem, &text))
        json_object_set_new(object, "update_computation", json_string(text.data));
    for (int i = 0; i < problem->capture_count; i++) {
        struct tensor_shape shape = {.element = {.dtype = {kDLFloat, 32, 1}}};
        for (int k = 0; k < problem->op_count; k++)
            if (strcmp(problem->ops[k].name, "capture") == 0 &&
                problem->ops[k].value[0] == (uint64_t)i)
                shape.element = problem->ops[k].element;
        json_array_append_new(captures, write_shape(&shape));
    }
    if (problem->capture_count > 0)
        json_object_set(object, "captures", captures);
    json_decref(captures);
    text_free(&text);
}

static void write_scatter(const struct spec *spec, json_t *object) {
    const struct scatter_problem *problem = spec->window_scatter;
    write_name(spec, object);
    write_shapes(object, "inputs", problem->inputs, problem->count);
    json_object_set_new(object, "scatter_indices", write_shape(&problem->scatter_indices));
    write_shapes(object, "updates", problem->updates, problem->count);
    if (problem->has_results)
        write_shapes(object, "results", problem->results, problem->count);
    write_axes(object, "update_window_dims", &problem->update_window_dims);
    write_axes(object, "inserted_window_dims", &problem->inserted_window_dims);
    write_axes(object, "input_batching_dims", &problem->input_batching_dims);
    write_axes(object, "scatter_indices_batching_dims", &problem->scatter_indices_batching_dims);
    write_axes(object, "scatter_dims_to_operand_dims", &problem->scatter_dims_to_operand_dims);
    json_object_set_new(object, "index_vector_dim", json_integer(problem->index_vector_dim));
    if (problem->indices_are_sorted)
        json_object_set_new(object, "indices_are_sorted", json_true());
    if (problem->unique_indices)
        json_object_set_new(object, "unique_indices", json_true());
    if (problem->window_out_of_bounds[0])
        json_object_set_new(object, "window_out_of_bounds",
                            json_string(problem->window_out_of_bounds));
    if (problem->update_computation[0])
        json_object_set_new(object, "update_computation", json_string(problem->update_computation));
    else
        write_region(problem, object);
}

/* ---- From text ---- */

/* Words of ours that look like gather or scatter and are neither. */
static bool check_scope(const struct mlir_file *file, const struct mlir_op *op,
                        struct error *error) {
    static const char *const others[] = {"stablehlo.select_and_scatter", "stablehlo.reduce_scatter",
                                         "stablehlo.all_gather"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], op->name) == 0)
            return mlir_fail(error, file, op->at,
                             "%s: not an op that kvmill has; accepted: stablehlo.gather, "
                             "stablehlo.dynamic_gather, stablehlo.scatter",
                             op->name);
    return true;
}

static bool add_spec(const struct mlir_file *file, const struct mlir_function *function,
                     const struct mlir_op *op, struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL)
        return false;
    snprintf(spec->where, sizeof spec->where, "%.200s: @%.*s: %s", file->name,
             (int)(function->name.length < 40 ? function->name.length : 40), function->name.text,
             op->name);
    spec->op = is_mlir_gather(op) ? &gather_spec : &window_scatter_spec;
    if (is_mlir_scatter(op)) {
        spec->window_scatter = calloc(1, sizeof *spec->window_scatter);
        return spec->window_scatter != NULL
                   ? scatter_of_mlir(file, function, op, spec->window_scatter, error)
                   : out_of_memory(error);
    }
    spec->gather = calloc(1, sizeof *spec->gather);
    if (spec->gather == NULL)
        return out_of_memory(error);
    return gather_of_mlir(file, function, op, spec->gather, error) &&
           gather_require_slices(file, op, spec->gather, error);
}

static bool add_specs(const struct mlir_file *file, const struct mlir_function *function,
                      const struct mlir_block *block, struct spec_list *list, struct error *error) {
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next) {
        bool ours = is_mlir_gather(op) || is_mlir_scatter(op);
        if (!check_scope(file, op, error) || (ours && !add_spec(file, function, op, list, error)))
            return false;
        for (int i = 0; !ours && i < op->region_count; i++)
            if (!add_specs(file, function, &op->regions[i], list, error))
                return false;
    }
    return true;
}

bool is_mlir_name(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".mlir") == 0;
}

bool specs_of_mlir(const char *name, struct spec_list *list, struct error *error) {
    struct mlir_file file;
    bool done = mlir_read(name, &file, error);
    for (const struct mlir_chunk *c = file.chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next)
            done = add_specs(&file, f, &f->body, list, error);
    mlir_free(&file);
    return done &&
           (list->count > 0 || fail(error, EXIT_USER,
                                    "%s: no op of kvmill in it; accepted: stablehlo.gather, "
                                    "stablehlo.dynamic_gather, stablehlo.scatter",
                                    name));
}

/* ---- The ops ---- */

static void free_gather(struct spec *spec) {
    free(spec->gather);
}

static void free_scatter(struct spec *spec) {
    free(spec->window_scatter);
}

/* Of row-major tensors. */
static bool gather_spec_kernels(const struct spec *spec, const struct isa *isa,
                                struct kernel_list *list, struct error *error) {
    struct gather_view view;
    struct kvmill_windows windows;
    struct kvmill_gather_facts facts;
    struct kvmill_gather_steps steps;
    struct kvmill_gather_geometry geometry;
    kvmill_error reason;
    gather_view_make(spec->gather, &view);
    if (kvmill_gather_check(&view.op, &windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    kvmill_gather_facts_set(&view.op, &windows, &facts);
    kvmill_gather_dense_steps(&facts, &steps);
    kvmill_gather_fold(&facts, &steps, &geometry);
    return kvmill_gather_units(&geometry) == 0 || gather_kernels(&geometry.shape, isa, list, error);
}

/* What a scatter's spec is checked with. */
struct checked_scatter {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
};

static kvmill_status check_again(const struct spec *spec, struct checked_scatter *checked,
                                 kvmill_error *reason) {
    scatter_view_make(spec->window_scatter, &checked->view);
    return kvmill_scatter_check(&checked->view.op, &checked->windows, &checked->program, reason);
}

/* false: some input has more than a combiner. */
static bool have_combiners(const struct checked_scatter *checked) {
    struct kvmill_scatter_shape shape;
    for (int i = 0; i < (int)checked->view.op.count; i++)
        if (kvmill_scatter_shape_of(&checked->view.op, &checked->windows, &checked->program, i,
                                    &shape) != NULL)
            return false;
    return true;
}

static bool add_combiners(const struct checked_scatter *checked, const struct isa *isa,
                          struct kernel_list *list, struct error *error) {
    struct kvmill_scatter_shape shape;
    for (int i = 0; i < (int)checked->view.op.count; i++) {
        kvmill_scatter_shape_of(&checked->view.op, &checked->windows, &checked->program, i, &shape);
        if (!scatter_kernels(&shape, isa, list, error))
            return false;
    }
    return true;
}

/* One that combines, and where inputs are promoted one that converts them first. */
static bool add_region(const struct checked_scatter *checked, const struct isa *isa,
                       struct kernel_list *list, struct error *error) {
    struct kvmill_region_text text;
    struct kvmill_scatter_region_shape shape;
    if (kvmill_scatter_region_of(&checked->view.op, &checked->windows, &checked->program, &text,
                                 &shape) != NULL)
        return true;
    bool done = scatter_region_kernels(&shape, isa, list, error);
    for (int i = 0; done && i < (int)checked->view.op.count; i++)
        done =
            !kvmill_scatter_conversion_of(&checked->view.op, &checked->program, i, &text, &shape) ||
            scatter_region_kernels(&shape, isa, list, error);
    return done;
}

static void why_no_scatter_kernels(const struct spec *spec, char *words, size_t size) {
    struct checked_scatter checked;
    struct kvmill_region_text text;
    struct kvmill_scatter_region_shape shape;
    check_again(spec, &checked, NULL);
    const char *why = kvmill_scatter_region_of(&checked.view.op, &checked.windows, &checked.program,
                                               &text, &shape);
    snprintf(words, size, "%s", why ? why : window_scatter_spec.without_kernels);
}

static bool scatter_spec_kernels(const struct spec *spec, const struct isa *isa,
                                 struct kernel_list *list, struct error *error) {
    static const struct kvmill_rows_shape bytes = {
        .unit_bits = 8, .heads = KVMILL_ANY, .capacity = KVMILL_ANY, .row = 1};
    struct checked_scatter checked;
    kvmill_error reason;
    if (check_again(spec, &checked, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    size_t before = list->count;
    bool done = have_combiners(&checked) ? add_combiners(&checked, isa, list, error)
                                         : add_region(&checked, isa, list, error);
    return done && (list->count == before || rows_kernels(&bytes, isa, list, error));
}

const struct spec_op gather_spec = {
    .name = "stablehlo.gather",
    .read = read_gather,
    .check = check_gather,
    .kernels = gather_spec_kernels,
    .without_kernels = "its result is empty",
    .write = write_gather,
    .free = free_gather,
};

const struct spec_op window_scatter_spec = {
    .name = "stablehlo.scatter",
    .read = read_scatter,
    .check = check_scatter,
    .kernels = scatter_spec_kernels,
    .without_kernels = "no kernel computes with its types, or has as many index components",
    .why_none = why_no_scatter_kernels,
    .write = write_scatter,
    .free = free_scatter,
};
