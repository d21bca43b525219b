/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "bounded.h"
#include "flow_schedule.h"

/* The most floats of a workspace, so that the numbers of kernels stay far below 2^31. */
enum { MOST_FLOATS = 1 << 20 };

struct writer {
    const struct kvmill_flow_problem *problem;
    const struct kvmill_flow_program *program;
    struct flow_schedule schedule;
    struct kvmill_bounded out;
};

/* ---- Values ---- */

/* Results that are not fields are numbered. */
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
        kvmill_bounded_add(&writer->out, " k");
        break;
    case KVMILL_FLOW_VALUE:
        kvmill_bounded_add(&writer->out, " v");
        break;
    case KVMILL_FLOW_QUERY:
        kvmill_bounded_add(&writer->out, " q");
        break;
    case KVMILL_FLOW_FIELD:
        kvmill_bounded_add(&writer->out, " f%d", value->number);
        break;
    case KVMILL_FLOW_CONSTANT:
        kvmill_bounded_add(&writer->out, " c%d", value->number);
        break;
    case KVMILL_FLOW_RESULT:
        kvmill_bounded_add(&writer->out, " r%d", count_results(writer, number));
    }
}

static void add_shape(struct writer *writer, const struct kvmill_flow_shape *shape) {
    if (shape->tokens && writer->problem->incremental)
        kvmill_bounded_add(&writer->out, " n");
    else
        kvmill_bounded_add(&writer->out, " %" PRId64, shape->rows);
    kvmill_bounded_add(&writer->out, " %" PRId64, shape->columns);
}

static void add_rows(struct writer *writer, int number, const struct kvmill_format *format) {
    kvmill_bounded_add(&writer->out, "; rows");
    add_name(writer, number);
    kvmill_bounded_add(&writer->out, " %s %s %" PRId32, kvmill_format_name(format->element),
                       kvmill_format_name(format->scale), format->quant_group);
    add_shape(writer, &writer->program->values[number].shape);
}

static void add_place(struct writer *writer, const char *word, int number, int element) {
    kvmill_bounded_add(&writer->out, "; %s", word);
    add_name(writer, number);
    kvmill_bounded_add(&writer->out, " %s", kvmill_format_name(element));
    add_shape(writer, &writer->program->values[number].shape);
}

/* Adds a field, with the number of kv heads that share it.  If fields are adjacent in memory, also
   adds the bytes between pages; a kernel gets the places for one kv head. */
static void add_field(struct writer *writer, int number, int field) {
    const struct kvmill_flow_problem *problem = writer->problem;
    int64_t sharers = kvmill_flow_sharers(problem, field);
    bool is_beside = problem->field_layout != KVMILL_FIELDS_APART;
    add_place(writer, "field", number, problem->fields[field].element);
    if (sharers > 1 || is_beside)
        kvmill_bounded_add(&writer->out, " %" PRId64, sharers);
    if (is_beside)
        kvmill_bounded_add(&writer->out, " %" PRId64,
                           kvmill_flow_field_place(problem, field, 0).block);
}

static void add_constant(struct writer *writer, int number) {
    const struct kvmill_flow_shape *shape = &writer->program->values[number].shape;
    kvmill_bounded_add(&writer->out, "; constant");
    add_name(writer, number);
    kvmill_bounded_add(&writer->out, " %" PRId64, shape->taps);
    add_shape(writer, shape);
}

/* All that have a place in the workspace, and constants; results are steps'. */
static void add_input(struct writer *writer, int number) {
    const struct kvmill_flow_value *value = &writer->program->values[number];
    const struct kvmill_cache_geometry *geometry = &writer->problem->geometry;
    if (value->source == KVMILL_FLOW_FIELD)
        add_field(writer, number, value->number);
    if (!writer->schedule.loaded[number])
        return;
    switch (value->source) {
    case KVMILL_FLOW_KEY:
        add_rows(writer, number, &geometry->key);
        break;
    case KVMILL_FLOW_VALUE:
        add_rows(writer, number, &geometry->value);
        break;
    case KVMILL_FLOW_QUERY:
        add_place(writer, "query", number, geometry->activation);
        break;
    case KVMILL_FLOW_CONSTANT:
        add_constant(writer, number);
        break;
    default:
        break;
    }
}

/* Rows that tokens brought, for the program of the page. */
static void add_loads(struct writer *writer) {
    for (int i = 0; i < writer->program->value_count; i++) {
        const struct kvmill_flow_value *value = &writer->program->values[i];
        if (value->source == KVMILL_FLOW_FIELD && writer->schedule.loaded[i] &&
            kvmill_flow_grows(&writer->problem->fields[value->number])) {
            kvmill_bounded_add(&writer->out, "; load");
            add_name(writer, i);
        }
    }
}

static void add_kept(struct writer *writer) {
    for (int i = 0; i < writer->program->value_count; i++)
        if (writer->schedule.kept[i]) {
            kvmill_bounded_add(&writer->out, "; keep");
            add_name(writer, i);
        }
}

/* ---- Steps ---- */

static void add_dims(struct writer *writer, unsigned dims) {
    kvmill_bounded_add(&writer->out, " ");
    for (int dim = 0; dim < 3; dim++)
        if (dims >> dim & 1)
            kvmill_bounded_add(&writer->out, "%d", dim);
}

static void add_attributes(struct writer *writer, const struct kvmill_flow_step *step) {
    unsigned has = kvmill_flow_kind_at(step->code)->attributes;
    if (has & KVMILL_FLOW_ALPHA)
        kvmill_bounded_add(&writer->out, " %a", step->alpha);
    if (has & KVMILL_FLOW_BETA)
        kvmill_bounded_add(&writer->out, " %a", step->beta);
    if (has & KVMILL_FLOW_SCALE)
        kvmill_bounded_add(&writer->out, " %a", step->scale);
    if (has & KVMILL_FLOW_DIMS)
        add_dims(writer, step->dims);
    if (has & KVMILL_FLOW_GROUP)
        kvmill_bounded_add(&writer->out, " %" PRId64, step->group);
    if (has & KVMILL_FLOW_SLICE)
        kvmill_bounded_add(&writer->out, " %" PRId64 " %" PRId64, step->start, step->end);
}

/* After the word that says when. */
static void add_op(struct writer *writer, const struct kvmill_flow_step *step, int output) {
    add_name(writer, output);
    add_shape(writer, &writer->program->values[output].shape);
    kvmill_bounded_add(&writer->out, " %s", kvmill_flow_kind_at(step->code)->name);
    add_attributes(writer, step);
    for (int i = 0; i < 2 && step->input[i] >= 0; i++)
        add_name(writer, step->input[i]);
}

static void add_write(struct writer *writer, const struct kvmill_flow_step *step) {
    const struct kvmill_cache_geometry *geometry = &writer->problem->geometry;
    int element = step->side ? geometry->value.element : geometry->key.element;
    kvmill_bounded_add(&writer->out, "; write");
    add_name(writer, step->side);
    add_name(writer, step->output);
    kvmill_bounded_add(&writer->out, " %s", kvmill_format_name(element));
    add_shape(writer, &writer->program->values[step->output].shape);
}

static void add_cache_step(struct writer *writer, const struct kvmill_flow_step *step) {
    kvmill_bounded_add(&writer->out, "; step");
    add_op(writer, step, step->field >= 0 ? FLOW_FIRST_FIELD + step->field : step->output);
    if (step->side >= 0)
        add_write(writer, step);
}

static void add_atom(struct writer *writer, int value) {
    if (!writer->schedule.atoms.needed[value])
        return;
    kvmill_bounded_add(&writer->out, "; atom");
    add_name(writer, value);
    add_shape(writer, &writer->program->values[value].shape);
}

static void add_save(struct writer *writer, const struct kvmill_flow_step *step) {
    kvmill_bounded_add(&writer->out, "; save f%d", step->field);
    add_name(writer, step->input[0]);
}

static void add_index_step(struct writer *writer, const struct kvmill_flow_step *step) {
    bool elsewhere = writer->schedule.atoms.elsewhere[step - writer->program->steps];
    if (step->code == KVMILL_FLOW_SAVE)
        add_save(writer, step);
    if (step->output < 0)
        return;
    if (elsewhere) {
        add_atom(writer, step->output);
        return;
    }
    const char *when = kvmill_flow_is_over_pages(step)                      ? "over"
                       : writer->program->values[step->output].shape.ragged ? "page"
                                                                            : "once";
    kvmill_bounded_add(&writer->out, "; %s %d", when, writer->schedule.stage[step->output]);
    add_op(writer, step, step->output);
}

static void add_program(struct writer *writer, enum kvmill_flow_part part) {
    const struct kvmill_flow_program *program = writer->program;
    if (writer->problem->rounds)
        kvmill_bounded_add(&writer->out, "; round bf16");
    for (int i = 0; i < program->value_count; i++)
        add_input(writer, i);
    if (part == KVMILL_CACHE_PROGRAM)
        add_loads(writer);
    for (int i = 0; i < program->step_count; i++)
        (part == KVMILL_CACHE_PROGRAM ? add_cache_step : add_index_step)(writer,
                                                                         &program->steps[i]);
    add_kept(writer);
}

/* Rows of K or V are not written, or rounded once. */
static bool writes_floats(const struct kvmill_flow_problem *problem, int side) {
    const struct kvmill_cache_geometry *geometry = &problem->geometry;
    int element = side ? geometry->value.element : geometry->key.element;
    bool once = geometry->activation == KVMILL_F32 || geometry->activation == element;
    return !problem->writes[side] || (once && kvmill_is_activation(element));
}

/* What kernels know of where blocks are: those of a page, where rows of K or V are read. */
static void add_index_head(struct writer *writer) {
    const bool *loaded = writer->schedule.loaded;
    kvmill_bounded_add(&writer->out, "index %d %" PRId64, writer->schedule.stages,
                       writer->problem->block_size);
    if (writer->problem->page_blocks > 1 && (loaded[0] || loaded[1]))
        kvmill_bounded_add(&writer->out, " %" PRId64, writer->problem->page_blocks);
}

bool kvmill_flow_text_make(const struct kvmill_flow_problem *problem, enum kvmill_flow_part part,
                           struct kvmill_flow_text *text) {
    struct writer writer = {.problem = problem,
                            .program = &problem->programs[part],
                            .out = {text->text, sizeof text->text, 0}};
    if (part == KVMILL_CACHE_PROGRAM && !(writes_floats(problem, 0) && writes_floats(problem, 1)))
        return kvmill_bounded_refuse(&writer.out,
                                     "it writes rows that are not floats rounded once");
    if (writer.program->step_count == 0)
        return kvmill_bounded_refuse(&writer.out, "it has no such program");
    kvmill_flow_schedule(problem, part, &writer.schedule);
    if (part == KVMILL_CACHE_PROGRAM)
        kvmill_bounded_add(&writer.out, "cache %" PRId64 " %s", problem->block_size,
                           problem->incremental ? "growing" : "whole");
    else
        add_index_head(&writer);
    add_program(&writer, part);
    int64_t floats = writer.schedule.floats + writer.schedule.page_floats;
    if (writer.out.length >= sizeof text->text)
        return kvmill_bounded_refuse(&writer.out, "its program is too long");
    return floats <= MOST_FLOATS ||
           kvmill_bounded_refuse(&writer.out, "a page takes %" PRId64 " floats; kernels have %d",
                                 floats, MOST_FLOATS);
}
