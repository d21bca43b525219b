/* Summaries of pages: the cache program of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_run.h"

static void load_inputs(const struct flow_run *run, const struct flow_page *page) {
    for (int i = 0; i < FLOW_FIRST_FIELD; i++)
        if (run->schedule->loaded[i])
            kvmill_flow_load(page, &run->program->values[i], flow_place(run, i, 0));
}

/* Later ops read a field as it is stored. */
static void write_field(const struct flow_run *run, const struct flow_page *page,
                        const struct kvmill_flow_step *step) {
    int value = FLOW_FIRST_FIELD + step->field;
    float *data = flow_place(run, value, 0);
    kvmill_flow_run_step(run, step, value, 0);
    kvmill_flow_store(page, step->field, step->code, data);
    kvmill_flow_load(page, &run->program->values[value], data);
}

void kvmill_flow_summarise(const struct kvmill_flow_problem *problem,
                           const struct flow_schedule *schedule, const struct flow_cache *cache,
                           int64_t page, int64_t kv_head, int64_t rows, float *workspace) {
    const struct kvmill_flow_program *program = &problem->programs[KVMILL_CACHE_PROGRAM];
    const struct flow_run run = {problem, program, schedule, workspace, 0, rows};
    const struct flow_page known = {problem, cache, page, kv_head, rows};
    load_inputs(&run, &known);
    for (int i = 0; i < program->step_count; i++) {
        const struct kvmill_flow_step *step = &program->steps[i];
        if (step->field >= 0)
            write_field(&run, &known, step);
        else
            kvmill_flow_run_step(&run, step, step->output, 0);
    }
}

/* Rows of the page that token t tells a summary of; 0: it tells none. */
static int64_t rows_told(const struct kvmill_flow_problem *problem,
                         const struct flow_tokens *tokens, int64_t t) {
    const int64_t *slot = tokens->slot;
    int64_t size = problem->geometry.page_size;
    if (slot[t] < 0)
        return 0;
    if (!problem->incremental)
        return (slot[t] + 1) % size == 0 ? size : 0;
    bool is_last =
        t + 1 == tokens->tokens || slot[t + 1] < 0 || slot[t + 1] / size != slot[t] / size;
    return is_last ? slot[t] % size + 1 : 0;
}

void kvmill_flow_summarise_span(const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule,
                                const struct flow_cache *cache, const struct flow_tokens *tokens,
                                const struct flow_span *span, float *workspace) {
    for (int64_t t = span->first; t < span->last; t++) {
        int64_t rows = rows_told(problem, tokens, t);
        for (int64_t head = 0; rows > 0 && head < problem->geometry.kv_heads; head++)
            kvmill_flow_summarise(problem, schedule, cache,
                                  tokens->slot[t] / problem->geometry.page_size, head, rows,
                                  workspace);
    }
}
