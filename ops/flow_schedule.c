/* Assigns places in the workspace to the values of a program, and schedules them page by page, in
   stages.  Only operands of ops over pages, operands of later stages, and results of atoms are kept
   for all pages.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_schedule.h"

#include "extent.h"

bool kvmill_flow_is_over_pages(const struct kvmill_flow_step *step) {
    const struct kvmill_flow_kind *kind = kvmill_flow_kind_at(step->code);
    return kind->attributes & KVMILL_FLOW_DIMS && step->dims & 1;
}

/* Ops over pages begin a new stage. */
static void set_stage(const struct kvmill_flow_step *step, struct flow_schedule *schedule) {
    int stage = 0;
    for (int i = 0; i < 2 && step->input[i] >= 0; i++)
        stage = (int)kvmill_max(stage, schedule->stage[step->input[i]]);
    stage += kvmill_flow_is_over_pages(step);
    if (step->output >= 0)
        schedule->stage[step->output] = stage;
    schedule->stages = (int)kvmill_max(schedule->stages, stage + 1);
}

/* An input that belongs to a page can be loaded again. */
static bool is_kept_for(const struct kvmill_flow_program *program,
                        const struct flow_schedule *schedule, const struct kvmill_flow_step *step,
                        int input) {
    const struct kvmill_flow_value *value = &program->values[input];
    bool ends = kvmill_flow_is_selection(step->code) || step->code == KVMILL_FLOW_SAVE;
    bool later = step->output >= 0 && schedule->stage[step->output] > schedule->stage[input];
    return value->shape.ragged &&
           (kvmill_flow_is_over_pages(step) || ends || (later && !flow_is_of_page(value)));
}

static void set_kept(const struct kvmill_flow_program *program, const struct kvmill_flow_step *step,
                     struct flow_schedule *schedule) {
    for (int i = 0; i < 2 && step->input[i] >= 0; i++)
        if (is_kept_for(program, schedule, step, step->input[i]))
            schedule->kept[step->input[i]] = true;
    if (step->output >= 0 && kvmill_flow_is_over_pages(step))
        schedule->kept[step->output] = program->values[step->output].shape.ragged;
}

static void keep_atoms(struct flow_schedule *schedule) {
    for (int i = 0; i < schedule->atoms.count; i++)
        schedule->kept[schedule->atoms.atom[i].value] = true;
}

/* Mark the operands of steps, for a program without atoms. */
static void find_needed(const struct kvmill_flow_program *program, struct flow_schedule *schedule) {
    for (int i = 0; i < program->value_count; i++)
        schedule->atoms.needed[i] = program->values[i].uses > 0;
}

/* Constants stay where they are. */
static void set_offset(const struct kvmill_flow_value *value, int number,
                       struct flow_schedule *schedule) {
    int64_t floats = value->shape.rows * value->shape.columns;
    int64_t *end = schedule->kept[number] ? &schedule->page_floats : &schedule->floats;
    bool needed = schedule->atoms.needed[number];
    schedule->loaded[number] = needed && value->source != KVMILL_FLOW_RESULT;
    schedule->offset[number] = *end;
    if ((needed || value->source == KVMILL_FLOW_FIELD) && value->source != KVMILL_FLOW_CONSTANT)
        *end += floats;
}

/* Schedule with atoms that are already known. */
static void plan(const struct kvmill_flow_program *program, struct flow_schedule *schedule) {
    for (int i = 0; i < program->step_count; i++)
        set_stage(&program->steps[i], schedule);
    for (int i = 0; i < program->step_count; i++)
        if (!schedule->atoms.elsewhere[i])
            set_kept(program, &program->steps[i], schedule);
    keep_atoms(schedule);
    for (int i = 0; i < program->value_count; i++)
        set_offset(&program->values[i], i, schedule);
}

void kvmill_flow_schedule_steps(const struct kvmill_flow_problem *problem,
                                enum kvmill_flow_part part, struct flow_schedule *schedule) {
    *schedule = (struct flow_schedule){.stages = 1};
    find_needed(&problem->programs[part], schedule);
    plan(&problem->programs[part], schedule);
}

void kvmill_flow_schedule(const struct kvmill_flow_problem *problem, enum kvmill_flow_part part,
                          struct flow_schedule *schedule) {
    if (part != KVMILL_INDEX_PROGRAM) {
        kvmill_flow_schedule_steps(problem, part, schedule);
        return;
    }
    *schedule = (struct flow_schedule){.stages = 1};
    kvmill_flow_find_atoms(problem, &schedule->atoms);
    plan(&problem->programs[part], schedule);
}

int64_t kvmill_flow_workspace(const struct flow_schedule *schedule, int64_t pages) {
    return (schedule->floats + schedule->page_floats * pages) * (int64_t)sizeof(float);
}
