/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_shape.h"

#include <string.h>

#include "../defs/dtype.h"
#include "extent.h"

int kvmill_windows_outer(const struct kvmill_windows *windows) {
    return windows->space_rank ? windows->space_axis[windows->space_rank - 1] + 1 : 0;
}

/* ---- How elements are combined ---- */

static bool takes(const struct kvmill_program *program, int op, int a, int b) {
    return program->operand[op][0] == a && program->operand[op][1] == b;
}

/* 0 if the slot's result is more than one op on the slot's arguments. */
static int combiner_of(const struct kvmill_program *program, int slot) {
    int update = program->results + slot, op = program->result[slot] - program->arguments;
    if (program->result[slot] == update)
        return KVMILL_COMBINE_REPLACE;
    if (op < 0 || program->call[op].op == NULL)
        return 0;
    int combiner = kvmill_combiner_by_word(program->call[op].op->name);
    bool in_order = takes(program, op, slot, update);
    bool swapped = combiner != KVMILL_COMBINE_SUBTRACT && takes(program, op, update, slot);
    return in_order || swapped ? combiner : 0;
}

/* ---- Types, as few as possible ---- */

/* Booleans are combined by logical ops. */
static int logic_of(int combiner) {
    switch (combiner) {
    case KVMILL_COMBINE_ADD:
    case KVMILL_COMBINE_MAXIMUM:
        return KVMILL_COMBINE_OR;
    case KVMILL_COMBINE_MULTIPLY:
    case KVMILL_COMBINE_MINIMUM:
        return KVMILL_COMBINE_AND;
    default:
        return combiner;
    }
}

static bool has_order(int combiner) {
    return combiner == KVMILL_COMBINE_MINIMUM || combiner == KVMILL_COMBINE_MAXIMUM;
}

static void set_element(struct kvmill_scatter_shape *shape, DLDataType type) {
    shape->element_code = type.code;
    shape->element_bits = type.bits;
    if (shape->combiner == KVMILL_COMBINE_REPLACE) {
        shape->element_code = kDLUInt;
        shape->element_bits = (int32_t)(kvmill_element_bytes(type) * 8);
    } else if (type.code == KVMILL_DL_BOOL) {
        shape->combiner = logic_of(shape->combiner);
    } else if (type.code == kDLInt && !has_order(shape->combiner)) {
        shape->element_code = kDLUInt;
    }
}

/* ---- Rows ---- */

static int64_t dense_step(const DLTensor *tensor, int d) {
    return kvmill_count_of(tensor->shape + d + 1, tensor->ndim - d - 1);
}

/* The elements of a window that are adjacent in results and updates; 1 without a window. */
static int64_t row_of(const kvmill_scatter *op, const struct kvmill_windows *windows) {
    int64_t row = 1;
    bool overflow = false; /* never set: updates have that many elements */
    int outer = kvmill_windows_outer(windows);
    for (int d = windows->rank - 1; d >= 0; d--) {
        int axis = windows->axis[d];
        if (axis == KVMILL_NOT_THERE || axis < outer || windows->window[d] == 1)
            continue;
        if (dense_step(op->inputs[0], d) != row || dense_step(op->updates[0], axis) != row)
            return row == 1 ? KVMILL_ANY : row;
        row = kvmill_times(row, windows->window[d], &overflow);
    }
    return row;
}

/* ---- All of it ---- */

static int32_t count_components(const struct kvmill_windows *windows) {
    int32_t components = 0;
    for (int d = 0; d < windows->rank; d++)
        components += windows->component[d] != KVMILL_NOT_THERE;
    return components;
}

static const char *why_not(const kvmill_scatter *op, const struct kvmill_program *program, int slot,
                           int combiner) {
    kvmill_element_type input = kvmill_scatter_input_element(op, (size_t)slot);
    kvmill_element_type update = kvmill_scatter_update_element(op, (size_t)slot);
    if (combiner == 0)
        return "its region is more than a combiner";
    if (!kvmill_element_equal(&input, &program->type[program->result[slot]]) ||
        !kvmill_element_equal(&update, &program->type[program->result[slot]]))
        return "elements are converted";
    return kvmill_is_quantized(&input) && combiner != KVMILL_COMBINE_REPLACE
               ? "elements are quantized"
               : NULL;
}

const char *kvmill_scatter_shape_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                    const struct kvmill_program *program, int slot,
                                    struct kvmill_scatter_shape *shape) {
    int combiner = combiner_of(program, slot);
    *shape = (struct kvmill_scatter_shape){.combiner = combiner};
    set_element(shape, op->inputs[slot]->dtype);
    shape->index_code = op->scatter_indices->dtype.code;
    shape->index_bits = op->scatter_indices->dtype.bits;
    shape->components = count_components(windows);
    shape->row = row_of(op, windows);
    return why_not(op, program, slot, combiner);
}

static struct kvmill_scatter_region_shape region_shape(const kvmill_scatter *op,
                                                       const struct kvmill_region_text *text,
                                                       int32_t components, int64_t row) {
    return (struct kvmill_scatter_region_shape){.program = text->text,
                                                .index_code = op->scatter_indices->dtype.code,
                                                .index_bits = op->scatter_indices->dtype.bits,
                                                .components = components,
                                                .row = row};
}

const char *kvmill_scatter_region_of(const kvmill_scatter *op, const struct kvmill_windows *windows,
                                     const struct kvmill_program *program,
                                     struct kvmill_region_text *text,
                                     struct kvmill_scatter_region_shape *shape) {
    kvmill_element_type updates[KVMILL_MOST_INPUTS];
    for (size_t i = 0; i < op->count; i++)
        updates[i] = kvmill_scatter_update_element(op, i);
    *shape = region_shape(op, text, count_components(windows),
                          row_of(op, windows) == 1 ? 1 : KVMILL_ANY);
    return kvmill_region_text_make(program, updates, text) ? NULL : text->text;
}

bool kvmill_scatter_conversion_of(const kvmill_scatter *op, const struct kvmill_program *program,
                                  int slot, struct kvmill_region_text *text,
                                  struct kvmill_scatter_region_shape *shape) {
    kvmill_element_type input = kvmill_scatter_input_element(op, (size_t)slot);
    const kvmill_element_type *result = &program->type[program->result[slot]];
    struct kvmill_program replace;
    kvmill_error ignored;
    *shape = region_shape(op, text, 0, KVMILL_ANY);
    return !kvmill_element_equal(&input, result) &&
           kvmill_program_named("replace", result, 1, &replace, &ignored) == KVMILL_OK &&
           kvmill_region_text_make(&replace, &input, text);
}
