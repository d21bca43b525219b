/* SPDX-License-Identifier: Apache-2.0 */
#include "ffi.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../ops/element.h"
#include "../spec/stablehlo.h"

/* ---- Types ---- */

/* XLA passes elements of a byte or more; it does not know types of six bits. */
static bool check_shape(const struct spec *spec, const struct tensor_shape *shape,
                        struct error *error) {
    return shape->element.dtype.bits >= 8 ||
           fail(error, EXIT_USER,
                "%s: has a tensor of %s; accepted with --ffi: types of 8 bits and more",
                spec->where, kvmill_element_word(shape->element.dtype));
}

static bool check_gather(const struct spec *spec, struct error *error) {
    return check_shape(spec, &spec->gather->operand, error) &&
           check_shape(spec, &spec->gather->start_indices, error);
}

static bool check_scatter(const struct spec *spec, struct error *error) {
    const struct scatter_problem *problem = spec->window_scatter;
    bool done = check_shape(spec, &problem->scatter_indices, error);
    for (int i = 0; done && i < problem->count; i++)
        done = check_shape(spec, &problem->inputs[i], error) &&
               check_shape(spec, &problem->updates[i], error);
    return done;
}

/* ---- Words of the template ---- */

/* Adds km_axes(NAME, COUNT, «ITEMS»). */
static bool add_axes(struct text *text, const char *name, const struct axes *axes) {
    bool done = text_print(text, "km_axes(«%s», %d, «", name, axes->count);
    for (int i = 0; done && i < axes->count; i++)
        done = text_print(text, "%s%" PRId64, i ? ", " : "", axes->items[i]);
    return done && text_print(text, "»)");
}

static bool add_type(struct text *text, DLDataType type) {
    return text_print(text, "%d, %d, ", type.code, type.bits);
}

/* Adds «CODE, BITS, CODE, BITS, SCALE, ZERO POINT, LEAST, MOST»: the stored, then the expressed
   type. */
static bool add_element(struct text *text, const kvmill_element_type *element) {
    static const DLDataType none = {0, 0, 1};
    bool quantized = kvmill_is_quantized(element);
    return text_print(text, "«") && add_type(text, element->dtype) &&
           add_type(text, quantized ? element->expressed : none) &&
           text_print(text, "%a, %" PRId64 ", %" PRId64 ", %" PRId64 "»",
                      quantized ? element->scale : 0, quantized ? element->zero_point : 0,
                      quantized ? element->storage_min : 0, quantized ? element->storage_max : 0);
}

/* Adds km_listed(«ELEMENT»). */
static bool add_listed(struct text *text, const kvmill_element_type *element) {
    return text_print(text, "km_listed(") && add_element(text, element) && text_print(text, ")");
}

/* Adds km_tensor(NAME, TYPE, RANK, «DIMS», «ELEMENT»). */
static bool add_tensor(struct text *text, const char *name, const struct tensor_shape *shape) {
    bool done = text_print(text, "km_tensor(«%s», «", name) && shape_write(shape, text) &&
                text_print(text, "», %d, «", shape->rank);
    for (int d = 0; done && d < shape->rank; d++)
        done = text_print(text, "%s%" PRId64, d ? ", " : "", shape->dims[d]);
    return done && text_print(text, "», ") && add_element(text, &shape->element) &&
           text_print(text, ")");
}

/* Adds the tensors NAME_0, NAME_1, ... */
static bool add_tensors(struct text *text, const char *name, const struct tensor_shape *shapes,
                        int count) {
    char numbered[32];
    bool done = true;
    for (int i = 0; done && i < count; i++) {
        snprintf(numbered, sizeof numbered, "%s_%d", name, i);
        done = add_tensor(text, numbered, &shapes[i]);
    }
    return done;
}

/* Defines NAME as the text, and frees it. */
static bool define_calls(struct expansion *expansion, const char *name, struct text *calls,
                         bool written) {
    bool done = written && define_text(expansion, name, calls->data ? calls->data : "");
    text_free(calls);
    return done;
}

/* Adds the lists of the op, in the order of its description. */
static bool add_lists(struct text *text, const struct spec *spec, const struct axes *axes) {
    const struct op_struct *part = spec->op->parts[0];
    bool done = true;
    for (int i = 0; done && i < part->member_count; i++)
        if (part->members[i].kind == OP_DIMS)
            done = add_axes(text, part->members[i].name, axes++);
    return done;
}

static bool define_all(struct expansion *expansion, const struct spec *spec, int arguments,
                       int results, int results_at) {
    return define_text(expansion, "op", spec->op->name) &&
           define_integer(expansion, "argument_count", arguments) &&
           define_integer(expansion, "result_count", results) &&
           define_integer(expansion, "results_at", results_at);
}

/* ---- Gather ---- */

static bool define_gather(struct expansion *expansion, const struct spec *spec) {
    const struct gather_problem *problem = spec->gather;
    struct text axes = {0}, tensors = {0}, element = {0};
    char fill[64] = "";
    if (problem->has_fill)
        snprintf(fill, sizeof fill, "0x%" PRIx64 ", 0x%" PRIx64, problem->fill.word[0],
                 problem->fill.word[1]);
    return define_all(expansion, spec, KVMILL_GATHER_RESULT, 1, KVMILL_GATHER_RESULT) &&
           define_integer(expansion, "index_vector_dim", problem->op.index_vector_dim) &&
           define_integer(expansion, "indices_are_sorted", problem->op.indices_are_sorted) &&
           define_text(expansion, "mode", problem->op.mode ? problem->op.mode : "clip") &&
           define_integer(expansion, "has_fill", problem->has_fill) &&
           define_text(expansion, "fill", fill) &&
           define_calls(expansion, "elements_of_operand", &element,
                        add_listed(&element, &problem->operand.element)) &&
           define_calls(expansion, "axes_lists", &axes, add_lists(&axes, spec, problem->axes)) &&
           define_calls(expansion, "tensors", &tensors,
                        add_tensor(&tensors, "operand", &problem->operand) &&
                            add_tensor(&tensors, "start_indices", &problem->start_indices));
}

/* ---- Scatter ---- */

static bool add_scatter_tensors(struct text *text, const struct scatter_problem *problem) {
    return add_tensors(text, "inputs", problem->inputs, problem->count) &&
           add_tensor(text, "scatter_indices", &problem->scatter_indices) &&
           add_tensors(text, "updates", problem->updates, problem->count) &&
           add_tensors(text, "results", problem->results,
                       problem->has_results ? problem->count : 0);
}

/* Adds NAME_0, NAME_1, ..., separated by commas. */
static bool add_names(struct text *text, const char *name, int count) {
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = text_print(text, "%s%s_%d", i ? ", " : "", name, i);
    return done;
}

static bool add_arguments(struct text *text, const struct scatter_problem *problem) {
    bool done = true;
    for (int i = 0; done && i < problem->argument_count; i++)
        done = add_listed(text, &problem->arguments[i]);
    return done;
}

/* Defines the tensors NAME_0, ... and their elements: km_NAME, km_elements_of_NAME. */
static bool define_list(struct expansion *expansion, const char *name,
                        const struct tensor_shape *shapes, int count) {
    struct text names = {0}, elements = {0};
    char definition[64];
    bool done = true;
    snprintf(definition, sizeof definition, "elements_of_%s", name);
    for (int i = 0; done && i < count; i++)
        done = add_listed(&elements, &shapes[i].element);
    return define_calls(expansion, definition, &elements, done) &&
           define_calls(expansion, name, &names, add_names(&names, name, count));
}

/* Adds km_step(NAME, «ELEMENT», «OPERANDS», DIRECTION, TYPE, «BITS») for each op. */
static bool add_steps(struct text *text, const struct scatter_problem *problem) {
    bool done = true;
    for (int i = 0; done && i < problem->op_count; i++) {
        const kvmill_region_op *op = &problem->ops[i];
        done = text_print(text, "km_step(«%s», ", op->name) && add_element(text, &op->element) &&
               text_print(text,
                          ", «%" PRId32 ", %" PRId32 ", %" PRId32 "», «%s», «%s», "
                          "«0x%" PRIx64 ", 0x%" PRIx64 "»)",
                          op->operands[0], op->operands[1], op->operands[2],
                          op->comparison_direction ? op->comparison_direction : "",
                          op->compare_type ? op->compare_type : "", op->value[0], op->value[1]);
    }
    return done;
}

static bool add_returned(struct text *text, const struct scatter_problem *problem) {
    bool done = true;
    for (int i = 0; done && i < problem->return_count; i++)
        done = text_print(text, "%s%" PRId32, i ? ", " : "", problem->returned[i]);
    return done;
}

static bool define_region(struct expansion *expansion, const struct scatter_problem *problem) {
    struct text arguments = {0}, steps = {0}, returned = {0};
    return define_text(expansion, "update_computation", problem->update_computation) &&
           define_integer(expansion, "step_count", problem->op_count) &&
           define_integer(expansion, "capture_count", problem->capture_count) &&
           define_calls(expansion, "region_arguments", &arguments,
                        add_arguments(&arguments, problem)) &&
           define_calls(expansion, "steps", &steps, add_steps(&steps, problem)) &&
           define_calls(expansion, "returned", &returned, add_returned(&returned, problem));
}

/* Returns what happens to windows out of bounds.  As in XLA, they are skipped unless the spec says
   otherwise. */
static const char *outside_of(const struct scatter_problem *problem) {
    return problem->op.window_out_of_bounds ? problem->op.window_out_of_bounds : "skip_window";
}

static bool define_scatter(struct expansion *expansion, const struct spec *spec) {
    const struct scatter_problem *problem = spec->window_scatter;
    struct text axes = {0}, tensors = {0};
    int count = problem->count, arguments = 2 * count + 1;
    return define_all(expansion, spec, arguments + problem->capture_count, count, arguments) &&
           define_integer(expansion, "index_vector_dim", problem->op.index_vector_dim) &&
           define_integer(expansion, "indices_are_sorted", problem->op.indices_are_sorted) &&
           define_integer(expansion, "unique_indices", problem->op.unique_indices) &&
           define_text(expansion, "outside", outside_of(problem)) &&
           define_list(expansion, "inputs", problem->inputs, count) &&
           define_list(expansion, "updates", problem->updates, count) &&
           define_integer(expansion, "given_results", problem->has_results) &&
           define_list(expansion, "results", problem->results, problem->has_results ? count : 0) &&
           define_region(expansion, problem) &&
           define_calls(expansion, "axes_lists", &axes, add_lists(&axes, spec, problem->axes)) &&
           define_calls(expansion, "tensors", &tensors, add_scatter_tensors(&tensors, problem));
}

const struct handler gather_handler = {"pack/ffi_gather.c.m4", check_gather, define_gather};
const struct handler scatter_handler = {"pack/ffi_scatter.c.m4", check_scatter, define_scatter};
