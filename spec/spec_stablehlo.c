/* stablehlo.gather and stablehlo.scatter in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/gather.h"
#include "../ops/scatter.h"
#include "spec_keys.h"
#include "stablehlo_mlir.h"

/* ---- Tensors ---- */

/* Reads "tensor<2x3xf32>". */
static bool read_shape(const struct json_place *place, struct tensor_shape *shape,
                       struct error *error) {
    struct mlir_file file = {0};
    const struct mlir_type *type;
    const char *text;
    struct error reason = {0};
    const struct shape_reader reader = {&file, "spec", 0, true, &reason};
    if (!json_get_string(place, &text, error))
        return false;
    bool done = mlir_read_type("type", text, &file, &type, &reason) &&
                shape_of_mlir(&reader, "it", type, shape);
    mlir_free(&file);
    if (!done && reason.exit_code == EXIT_USER)
        return json_fail(error, place, "is \"%.80s\": %.400s", text, reason.text);
    if (!done)
        *error = reason;
    return done;
}

static bool read_member_shape(const struct json_place *place, const char *key,
                              struct tensor_shape *shape, struct error *error) {
    struct json_place member = json_member(place, key);
    return read_shape(&member, shape, error);
}

/* Reads one type, or a list of them. */
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

/* Reads fill_value. */
static bool read_fill(const struct json_place *place, struct spec *spec,
                      const struct op_member *member, struct error *error) {
    const kvmill_element_type number = {.dtype = kvmill_float64};
    struct gather_problem *problem = spec->gather;
    (void)member;
    if (!json_is_number(place->value))
        return json_fail(error, place,
                         "is not a number; accepted: a number, or none for JAX's behaviour");
    double value = json_number_value(place->value);
    struct kvmill_scalar scalar = {{kvmill_bits_of(number.dtype, value), 0}};
    problem->has_fill = true;
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

static bool begin_gather(struct spec *spec, struct error *error) {
    spec->gather = calloc(1, sizeof *spec->gather);
    if (spec->gather == NULL)
        return out_of_memory(error);
    spec_init_parts(spec);
    return true;
}

static void *gather_part(struct spec *spec, int number) {
    (void)number;
    return &spec->gather->op;
}

static struct axes *gather_axes(struct spec *spec) {
    return spec->gather->axes;
}

static bool read_gather_tensors(const struct json_place *place, struct spec *spec,
                                struct error *error) {
    struct gather_problem *problem = spec->gather;
    struct json_place result = json_member(place, "result");
    problem->has_result = json_given(&result);
    return read_member_shape(place, "operand", &problem->operand, error) &&
           read_member_shape(place, "start_indices", &problem->start_indices, error) &&
           (!problem->has_result || read_shape(&result, &problem->result, error));
}

static bool complete_gather(const struct json_place *place, struct spec *spec,
                            struct error *error) {
    (void)place;
    return check_gather(spec, error);
}

/* ---- Regions ---- */

static bool read_captures(const struct json_place *place, const char **captures, size_t *count,
                          struct error *error) {
    struct json_place member = json_member(place, "captures");
    *count = 0;
    if (!json_given(&member))
        return true;
    if (!json_get_array(&member, error))
        return false;
    if (json_array_size(member.value) > KVMILL_MOST_CAPTURES)
        return json_fail(error, &member, "has %zu types; accepted: at most %d",
                         json_array_size(member.value), (int)KVMILL_MOST_CAPTURES);
    for (; *count < json_array_size(member.value); ++*count) {
        struct json_place element = json_element(&member, *count);
        if (!json_get_string(&element, &captures[*count], error))
            return false;
        if (strncmp(captures[*count], "tensor<", strlen("tensor<")) != 0)
            return json_fail(error, &element, "is \"%.60s\"; accepted: tensor<f32>, ...",
                             captures[*count]);
    }
    return true;
}

static bool read_region(const struct json_place *place, const struct json_place *member,
                        const char *text, struct scatter_problem *problem, struct error *error) {
    const char *captures[KVMILL_MOST_CAPTURES];
    struct error reason = {0};
    size_t count;
    if (!read_captures(place, captures, &count, error))
        return false;
    if (region_of_text("region", text, strlen(text), captures, count, problem, &reason))
        return true;
    if (reason.exit_code == EXIT_USER)
        return json_fail(error, member, "%.500s", reason.text);
    *error = reason;
    return false;
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

static bool read_scatter_tensors(const struct json_place *place, struct spec *spec,
                                 struct error *error) {
    struct scatter_problem *problem = spec->window_scatter;
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

static bool begin_scatter(struct spec *spec, struct error *error) {
    spec->window_scatter = calloc(1, sizeof *spec->window_scatter);
    if (spec->window_scatter == NULL)
        return out_of_memory(error);
    spec_init_parts(spec);
    return true;
}

static void *scatter_part(struct spec *spec, int number) {
    (void)number;
    return &spec->window_scatter->op;
}

static struct axes *scatter_axes(struct spec *spec) {
    return spec->window_scatter->axes;
}

static bool complete_scatter(const struct json_place *place, struct spec *spec,
                             struct error *error) {
    return read_computation(place, spec->window_scatter, error) && check_scatter(spec, error);
}

/* ---- Writing ---- */

static json_t *write_shape(const struct tensor_shape *shape) {
    struct text text = {0};
    return json_take_text(&text, shape_write(shape, &text));
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

static void write_gather(const struct spec *spec, json_t *object) {
    spec_write_name(spec, object);
    json_object_set_new(object, "operand", write_shape(&spec->gather->operand));
    json_object_set_new(object, "start_indices", write_shape(&spec->gather->start_indices));
    spec_write_attributes(spec, object);
}

static json_t *write_fill(const struct spec *spec, const struct op_member *member) {
    const kvmill_element_type number = {.dtype = kvmill_float64};
    const struct gather_problem *problem = spec->gather;
    (void)member;
    if (!problem->has_fill)
        return NULL;
    struct kvmill_scalar fill =
        kvmill_scalar_convert(&problem->operand.element, &number, problem->fill);
    return json_real(kvmill_float_of(number.dtype, fill.word[0]));
}

static json_t *write_computation(const struct scatter_problem *problem) {
    struct text text = {0};
    if (problem->update_computation[0])
        return json_string(problem->update_computation);
    return json_take_text(&text, region_write(problem, &text));
}

/* Returns the type of a capture; float32 if nothing uses it. */
static kvmill_element_type capture_element(const struct scatter_problem *problem, int number) {
    for (int k = problem->op_count - 1; k >= 0; k--)
        if (strcmp(problem->ops[k].name, "capture") == 0 &&
            problem->ops[k].value[0] == (uint64_t)number)
            return problem->ops[k].element;
    return kvmill_plain_element(kvmill_float32);
}

static json_t *write_captures(const struct scatter_problem *problem) {
    if (problem->update_computation[0] || problem->capture_count == 0)
        return NULL;
    json_t *captures = json_array();
    for (int i = 0; i < problem->capture_count; i++) {
        struct tensor_shape shape = {.element = capture_element(problem, i)};
        json_array_append_new(captures, write_shape(&shape));
    }
    return captures;
}

static json_t *write_scatter_own(const struct spec *spec, const struct op_member *member) {
    return (strcmp(member->name, "captures") == 0 ? write_captures
                                                  : write_computation)(spec->window_scatter);
}

static void write_scatter(const struct spec *spec, json_t *object) {
    const struct scatter_problem *problem = spec->window_scatter;
    spec_write_name(spec, object);
    write_shapes(object, "inputs", problem->inputs, problem->count);
    json_object_set_new(object, "scatter_indices", write_shape(&problem->scatter_indices));
    write_shapes(object, "updates", problem->updates, problem->count);
    if (problem->has_results)
        write_shapes(object, "results", problem->results, problem->count);
    spec_write_attributes(spec, object);
}

/* ---- The ops ---- */

static void free_gather(struct spec *spec) {
    free(spec->gather);
}

static void free_scatter(struct spec *spec) {
    free(spec->window_scatter);
}

const struct spec_family gather_specs = {
    .begin = begin_gather,
    .part = gather_part,
    .axes = gather_axes,
    .read_tensors = read_gather_tensors,
    .read_own = read_fill,
    .complete = complete_gather,
    .null_is_absent = true,
    .write = write_gather,
    .write_own = write_fill,
    .free = free_gather,
    .check = check_gather,
};

const struct spec_family window_scatter_specs = {
    .begin = begin_scatter,
    .part = scatter_part,
    .axes = scatter_axes,
    .read_tensors = read_scatter_tensors,
    .complete = complete_scatter,
    .null_is_absent = true,
    .write = write_scatter,
    .write_own = write_scatter_own,
    .free = free_scatter,
    .check = check_scatter,
};
