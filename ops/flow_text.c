/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* Of a workspace: what kernels count with stays far below 2^31. */
enum { MOST_FLOATS = 1 << 20 };

struct writer {
    const struct kvmill_flow_problem *problem;
    const struct kvmill_flow_program *program;
    struct kvmill_flow_text *text;
    size_t length; /* of the text; more than there is room for when it is too long */
    int64_t floats;
};

__attribute__((format(printf, 2, 3))) static void add(struct writer *writer, const char *format,
                                                      ...) {
    size_t size = sizeof writer->text->text;
    size_t at = writer->length < size ? writer->length : size - 1;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(writer->text->text + at, size - at, format, arguments);
    va_end(arguments);
    writer->length += length < 0 ? 0 : (size_t)length;
}

/* Why not, instead. */
__attribute__((format(printf, 2, 3))) static bool refuse(struct writer *writer, const char *format,
                                                         ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(writer->text->text, sizeof writer->text->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Values ---- */

static const char *element_word(int element) {
    static const char *const words[] = {
        "none",
        [KVMILL_F32] = "f32",
        [KVMILL_F16] = "f16",
        [KVMILL_BF16] = "bf16",
        [KVMILL_I8] = "i8",
        [KVMILL_I4] = "i4",
        [KVMILL_Q8_0] = "q8_0",
        [KVMILL_Q4_0] = "q4_0",
    };
    return words[element];
}

/* Results that are no fields are counted. */
static int count_results(const struct writer *writer, int value) {
    int count = 0;
    for (int i = 0; i < value; i++)
        count += writer->program->values[i].source == KVMILL_FLOW_RESULT;
    return count;
}

static void add_name(struct writer *writer, int number) {
    const struct kvmill_flow_value *value = &writer->program->values[number];
    switch (value->source) {
    case KVMILL_FLOW_KEY:
        add(writer, " k");
        break;
    case KVMILL_FLOW_VALUE:
        add(writer, " v");
        break;
    case KVMILL_FLOW_QUERY:
        add(writer, " q");
        break;
    case KVMILL_FLOW_FIELD:
        add(writer, " f%d", value->number);
        break;
    case KVMILL_FLOW_CONSTANT:
        add(writer, " c%d", value->number);
        break;
    case KVMILL_FLOW_RESULT:
        add(writer, " r%d", count_results(writer, number));
    }
}

static void add_shape(struct writer *writer, const struct kvmill_flow_shape *shape) {
    if (shape->tokens && writer->problem->incremental)
        add(writer, " n");
    else
        add(writer, " %" PRId64, shape->rows);
    add(writer, " %" PRId64, shape->columns);
}

static void add_rows(struct writer *writer, int number, const struct kvmill_format *format) {
    add(writer, "; rows");
    add_name(writer, number);
    add(writer, " %s %s %" PRId32, element_word(format->element), element_word(format->scale),
        format->group);
    add_shape(writer, &writer->program->values[number].shape);
}

static void add_field(struct writer *writer, int number) {
    const struct kvmill_flow_value *value = &writer->program->values[number];
    add(writer, "; field");
    add_name(writer, number);
    add(writer, " %s", element_word(writer->problem->fields[value->number].element));
    add_shape(writer, &value->shape);
}

/* What the workspace has room for: inputs that are used, all fields, and results. */
static void add_values(struct writer *writer) {
    const struct kvmill_cache_geometry *geometry = &writer->problem->geometry;
    for (int i = 0; i < writer->program->value_count; i++) {
        const struct kvmill_flow_value *value = &writer->program->values[i];
        bool is_rows = value->source == KVMILL_FLOW_KEY || value->source == KVMILL_FLOW_VALUE;
        if (is_rows && value->uses > 0)
            add_rows(writer, i,
                     value->source == KVMILL_FLOW_KEY ? &geometry->key : &geometry->value);
        if (value->source == KVMILL_FLOW_FIELD)
            add_field(writer, i);
        if (!is_rows || value->uses > 0)
            writer->floats += value->shape.rows * value->shape.columns;
    }
}

/* ---- Steps ---- */

static void add_dims(struct writer *writer, unsigned dims) {
    add(writer, " ");
    for (int dim = 0; dim < 3; dim++)
        if (dims >> dim & 1)
            add(writer, "%d", dim);
}

static void add_attributes(struct writer *writer, const struct kvmill_flow_step *step) {
    unsigned has = kvmill_flow_kind_at(step->code)->attributes;
    if (has & KVMILL_FLOW_ALPHA)
        add(writer, " %a", step->alpha);
    if (has & KVMILL_FLOW_BETA)
        add(writer, " %a", step->beta);
    if (has & KVMILL_FLOW_SCALE)
        add(writer, " %a", step->scale);
    if (has & KVMILL_FLOW_DIMS)
        add_dims(writer, step->dims);
    if (has & KVMILL_FLOW_GROUP)
        add(writer, " %" PRId64, step->group);
    if (has & KVMILL_FLOW_SLICE)
        add(writer, " %" PRId64 " %" PRId64, step->start, step->end);
}

static void add_step(struct writer *writer, const struct kvmill_flow_step *step) {
    int output = step->field >= 0 ? 2 + step->field : step->output;
    add(writer, "; step");
    add_name(writer, output);
    add_shape(writer, &writer->program->values[output].shape);
    add(writer, " %s", kvmill_flow_kind_at(step->code)->name);
    add_attributes(writer, step);
    for (int i = 0; i < 2 && step->input[i] >= 0; i++)
        add_name(writer, step->input[i]);
}

bool kvmill_flow_text_make(const struct kvmill_flow_problem *problem, enum kvmill_flow_part part,
                           struct kvmill_flow_text *text) {
    struct writer writer = {.problem = problem, .program = &problem->programs[part], .text = text};
    if (part != KVMILL_CACHE_PROGRAM || writer.program->step_count == 0)
        return refuse(&writer, "it has no such program");
    add(&writer, "cache %" PRId64 " %s", problem->geometry.page_size,
        problem->incremental ? "growing" : "whole");
    add_values(&writer);
    for (int i = 0; i < writer.program->step_count; i++)
        add_step(&writer, &writer.program->steps[i]);
    if (writer.length >= sizeof text->text)
        return refuse(&writer, "its program is too long");
    return writer.floats <= MOST_FLOATS ||
           refuse(&writer, "a page takes %" PRId64 " floats; kernels have %d", writer.floats,
                  MOST_FLOATS);
}
