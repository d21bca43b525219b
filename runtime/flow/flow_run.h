/* A running program: its values in a workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_FLOW_FLOW_RUN_H
#define KVMILL_RUNTIME_FLOW_FLOW_RUN_H

#include "flow_page.h"

struct flow_run {
    const struct kvmill_flow_problem *problem;
    const struct kvmill_flow_program *program;
    const struct flow_schedule *schedule;
    const float *const *constant; /* of the index program */
    float *workspace;
    int64_t pages; /* that are scored */
    int64_t rows;  /* of the page that is summarised */
};

/* Where a value of page number `page` is; for values that are common to all pages, `page` is
 * ignored. */
static inline float *flow_place(const struct flow_run *run, int value, int64_t page) {
    const struct flow_schedule *schedule = run->schedule;
    const struct kvmill_flow_shape *shape = &run->program->values[value].shape;
    int64_t offset = schedule->offset[value];
    if (!schedule->kept[value])
        return run->workspace + offset;
    return run->workspace + schedule->floats + offset * run->pages +
           page * shape->rows * shape->columns;
}

/* The `program` of a FLOW_PROGRAM problem; what the interpreter knows begins with it. */
struct flow_interpreted {
    void (*run)(const struct flow_interpreted *interpreted, const void *problem, int64_t first,
                int64_t last);
};

/* Run an op with the result `output`, on one page or on values common to all pages. */
void kvmill_flow_run_step(const struct flow_run *run, const struct kvmill_flow_step *step,
                          int output, int64_t page);

/* Round a value for pages [first, last), if the flow rounds results. */
void kvmill_flow_round_pages(const struct flow_run *run, int value, int64_t first, int64_t last);

/* Run an op over pages. */
void kvmill_flow_run_over_pages(const struct flow_run *run, const struct kvmill_flow_step *step);

#endif
