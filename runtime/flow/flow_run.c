/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_run.h"

#include "../core/numbers.h"

static int64_t rows_of(const struct flow_run *run, const struct kvmill_flow_value *value) {
    return value->shape.tokens ? run->rows : value->shape.rows;
}

static struct flow_matrix matrix_of(const struct flow_run *run, int number, int64_t page) {
    const struct kvmill_flow_value *value = &run->program->values[number];
    const float *data = value->source == KVMILL_FLOW_CONSTANT ? run->constant[value->number]
                                                              : flow_place(run, number, page);
    return (struct flow_matrix){data, rows_of(run, value), value->shape.columns};
}

static struct flow_eval eval_of(const struct flow_run *run, const struct kvmill_flow_step *step,
                                int output, int64_t page) {
    const struct kvmill_flow_value *value = &run->program->values[output];
    struct flow_eval eval = {.step = step,
                             .rows = rows_of(run, value),
                             .columns = value->shape.columns,
                             .out = flow_place(run, output, page)};
    for (int i = 0; i < 2 && step->input[i] >= 0; i++)
        eval.in[i] = matrix_of(run, step->input[i], page);
    return eval;
}

/* Values that are stored get rounded by the store. */
static bool is_rounded(const struct flow_run *run, const struct kvmill_flow_step *step,
                       int output) {
    return run->problem->rounds && step->side < 0 &&
           run->program->values[output].source == KVMILL_FLOW_RESULT;
}

static void round_numbers(float *data, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        data[i] = kvmill_round_as(KVMILL_BF16, data[i]);
}

void kvmill_flow_round_pages(const struct flow_run *run, int value, int64_t first, int64_t last) {
    const struct kvmill_flow_shape *shape = &run->program->values[value].shape;
    if (run->problem->rounds)
        round_numbers(flow_place(run, value, first), (last - first) * shape->rows * shape->columns);
}

void kvmill_flow_run_step(const struct flow_run *run, const struct kvmill_flow_step *step,
                          int output, int64_t page) {
    struct flow_eval eval = eval_of(run, step, output, page);
    kvmill_flow_eval(&eval);
    if (is_rounded(run, step, output))
        round_numbers(eval.out, eval.rows * eval.columns);
}

void kvmill_flow_run_over_pages(const struct flow_run *run, const struct kvmill_flow_step *step) {
    struct flow_eval eval = eval_of(run, step, step->output, 0);
    int64_t taps = step->input[1] < 0 ? 1 : run->program->values[step->input[1]].shape.taps;
    kvmill_flow_eval_pages(&eval, run->pages, taps);
    kvmill_flow_round_pages(run, step->output, 0,
                            run->program->values[step->output].shape.ragged ? run->pages : 1);
}
