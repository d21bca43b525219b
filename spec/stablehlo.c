/* SPDX-License-Identifier: Apache-2.0 */
#include "stablehlo.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/text.h"
#include "../defs/op.h"
#include "../ops/fail.h"

/* ---- Views ---- */

DLTensor tensor_view(const struct tensor_shape *shape) {
    return (DLTensor){.device = {kDLCPU, 0},
                      .ndim = shape->rank,
                      .dtype = shape->element.dtype,
                      .shape = (int64_t *)(uintptr_t)shape->dims};
}

/* Sets the lists in an op's struct, in the order of its description. */
static void set_lists(const struct op_struct *part, void *op, const struct axes *axes) {
    for (int i = 0; i < part->member_count; i++)
        if (part->members[i].kind == OP_DIMS) {
            *(kvmill_dims *)kvmill_member_at(&part->members[i], op) =
                (kvmill_dims){axes->items, (size_t)axes->count};
            axes++;
        }
}

void gather_view_make(const struct gather_problem *problem, struct gather_view *view) {
    kvmill_gather *op = &view->op;
    view->operand = tensor_view(&problem->operand);
    view->start_indices = tensor_view(&problem->start_indices);
    view->result = tensor_view(&problem->result);
    *op = problem->op;
    op->struct_size = sizeof *op;
    set_lists(kvmill_op_of(OP_GATHER, 0)->parts[0], op, problem->axes);
    if (problem->slices_open)
        op->slice_sizes.items = NULL;
    op->fill_value = problem->has_fill ? &problem->fill : NULL;
    op->operand = &view->operand;
    op->start_indices = &view->start_indices;
    op->result = problem->has_result ? &view->result : NULL;
    op->operand_element = &problem->operand.element;
    op->result_element = problem->has_result ? &problem->result.element : NULL;
}

static void view_list(const struct tensor_shape *shapes, int count, DLTensor *tensors,
                      const DLTensor **list, kvmill_element_type *elements) {
    for (int i = 0; i < count; i++) {
        tensors[i] = tensor_view(&shapes[i]);
        list[i] = &tensors[i];
        elements[i] = shapes[i].element;
    }
}

static void view_op(const struct scatter_problem *problem, struct scatter_view *view) {
    kvmill_scatter *op = &view->op;
    *op = problem->op;
    op->struct_size = sizeof *op;
    set_lists(kvmill_op_of(OP_SCATTER, 0)->parts[0], op, problem->axes);
    op->update_computation = problem->update_computation[0] ? problem->update_computation : NULL;
    op->region = &view->region;
    op->count = (size_t)problem->count;
    op->inputs = view->input_list;
    op->updates = view->update_list;
    op->scatter_indices = &view->scatter_indices;
    op->results = problem->has_results ? view->result_list : NULL;
    op->elements = view->elements;
    op->update_elements = view->update_elements;
    op->result_elements = problem->has_results ? view->result_elements : NULL;
}

kvmill_region region_view(const struct scatter_problem *problem) {
    return (kvmill_region){.arguments = problem->arguments,
                           .ops = problem->ops,
                           .op_count = (size_t)problem->op_count,
                           .results = problem->returned,
                           .capture_count = (size_t)problem->capture_count};
}

void scatter_view_make(const struct scatter_problem *problem, struct scatter_view *view) {
    view_list(problem->inputs, problem->count, view->inputs, view->input_list, view->elements);
    view_list(problem->updates, problem->count, view->updates, view->update_list,
              view->update_elements);
    view_list(problem->results, problem->count, view->results, view->result_list,
              view->result_elements);
    view->scatter_indices = tensor_view(&problem->scatter_indices);
    view->region = region_view(problem);
    view_op(problem, view);
}

/* ---- Writing ---- */

bool shape_write(const struct tensor_shape *shape, struct text *text) {
    struct kvmill_element_text words;
    bool done = text_print(text, "tensor<");
    for (int d = 0; done && d < shape->rank; d++)
        done = shape->dims[d] == KVMILL_DYNAMIC ? text_print(text, "?x")
                                                : text_print(text, "%" PRId64 "x", shape->dims[d]);
    return done && text_print(text, "%s>", kvmill_element_words(&shape->element, &words));
}

static bool write_scalar_type(const kvmill_element_type *element, struct text *text) {
    struct tensor_shape shape = {.element = *element};
    return shape_write(&shape, text);
}

/* Writes "%arg0", "%capture1" or "%3". */
static bool write_value(const struct scatter_problem *problem, int value, struct text *text) {
    if (value < problem->argument_count)
        return text_print(text, "%%arg%d", value);
    const kvmill_region_op *op = &problem->ops[value - problem->argument_count];
    if (strcmp(op->name, "capture") == 0)
        return text_print(text, "%%capture%d", (int)op->value[0]);
    return text_print(text, "%%%d", value);
}

static bool write_bits(const kvmill_element_type *element, const uint64_t value[2],
                       struct text *text) {
    DLDataType type = element->dtype;
    struct kvmill_scalar scalar = {{value[0], value[1]}};
    switch (kvmill_kind_of(type)) {
    case KVMILL_BOOL:
        return text_print(text, "%s", value[0] ? "true" : "false");
    case KVMILL_INT:
        return text_print(text, "%" PRId64, (int64_t)kvmill_integer_of(type, value[0]));
    case KVMILL_FLOAT:
        return text_print(text, "0x%" PRIX64, value[0]);
    case KVMILL_COMPLEX:
        return text_print(text, "(0x%" PRIX64 ", 0x%" PRIX64 ")",
                          kvmill_real_of(type, scalar).word[0],
                          kvmill_imaginary_of(type, scalar).word[0]);
    default:
        return text_print(text, "%" PRIu64, kvmill_integer_of(type, value[0]));
    }
}

static const kvmill_element_type *element_of(const struct scatter_problem *problem, int value) {
    return value < problem->argument_count ? &problem->arguments[value]
                                           : &problem->ops[value - problem->argument_count].element;
}

static bool write_constant(const kvmill_region_op *op, struct text *text) {
    kvmill_element_type storage = kvmill_plain_element(op->element.dtype);
    return text_print(text, "\"stablehlo.constant\"() {value = dense<") &&
           write_bits(&op->element, op->value, text) && text_print(text, "> : ") &&
           write_scalar_type(&storage, text) && text_print(text, "} : () -> ") &&
           write_scalar_type(&op->element, text);
}

/* Writes a step in generic form, which names all types. */
static bool write_step(const struct scatter_problem *problem, const kvmill_region_op *op,
                       struct text *text) {
    const struct kvmill_scalar_op *scalar = kvmill_scalar_op_by_name(op->name);
    bool done = text_print(text, "\"stablehlo.%s\"(", op->name);
    for (int i = 0; done && i < scalar->operands; i++)
        done = text_print(text, "%s", i ? ", " : "") && write_value(problem, op->operands[i], text);
    done = done && text_print(text, ")");
    if (done && op->comparison_direction)
        done = text_print(text, " {comparison_direction = %s%s%s}", op->comparison_direction,
                          op->compare_type ? ", compare_type = " : "",
                          op->compare_type ? op->compare_type : "");
    done = done && text_print(text, " : (");
    for (int i = 0; done && i < scalar->operands; i++)
        done = text_print(text, "%s", i ? ", " : "") &&
               write_scalar_type(element_of(problem, op->operands[i]), text);
    return done && text_print(text, ") -> ") && write_scalar_type(&op->element, text);
}

static bool write_op(const struct scatter_problem *problem, int at, struct text *text) {
    const kvmill_region_op *op = &problem->ops[at];
    if (strcmp(op->name, "capture") == 0)
        return true;
    if (!write_value(problem, problem->argument_count + at, text) || !text_print(text, " = "))
        return false;
    bool done = strcmp(op->name, "constant") == 0 ? write_constant(op, text)
                                                  : write_step(problem, op, text);
    return done && text_print(text, " ");
}

bool region_write(const struct scatter_problem *problem, struct text *text) {
    bool done = text_print(text, "^bb0(");
    for (int i = 0; done && i < problem->argument_count; i++)
        done = text_print(text, "%s%%arg%d: ", i ? ", " : "", i) &&
               write_scalar_type(&problem->arguments[i], text);
    done = done && text_print(text, "): ");
    for (int i = 0; done && i < problem->op_count; i++)
        done = write_op(problem, i, text);
    done = done && text_print(text, "stablehlo.return ");
    for (int i = 0; done && i < problem->return_count; i++)
        done = text_print(text, "%s", i ? ", " : "") &&
               write_value(problem, problem->returned[i], text);
    done = done && text_print(text, " : ");
    for (int i = 0; done && i < problem->return_count; i++)
        done = text_print(text, "%s", i ? ", " : "") &&
               write_scalar_type(element_of(problem, problem->returned[i]), text);
    return done;
}
