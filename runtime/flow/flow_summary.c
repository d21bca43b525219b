/* Summaries of pages: the cache program of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "../portable/portable.h"
#include "flow_run.h"

/* Load the inputs of the program: K, V, and rows of appended fields. */
static bool is_there(const struct kvmill_flow_problem *problem,
                     const struct kvmill_flow_value *value) {
    return value->source != KVMILL_FLOW_FIELD || kvmill_flow_grows(&problem->fields[value->number]);
}

static void load_inputs(const struct flow_run *run, const struct flow_page *page) {
    for (int i = 0; i < run->program->value_count; i++) {
        const struct kvmill_flow_value *value = &run->program->values[i];
        if (run->schedule->loaded[i] && is_there(run->problem, value))
            kvmill_flow_load(page, value, flow_place(run, i, 0));
    }
}

/* Later ops read a field as it was stored. */
static void write_field(const struct flow_run *run, const struct flow_page *page,
                        const struct kvmill_flow_step *step) {
    int value = FLOW_FIRST_FIELD + step->field;
    float *data = flow_place(run, value, 0);
    kvmill_flow_run_step(run, step, value, 0);
    kvmill_flow_store(page, step->field, step->code, data);
    kvmill_flow_load(page, &run->program->values[value], data);
}

/* The same for rows of K or V. */
static void run_value(const struct flow_run *run, const struct flow_page *page,
                      const struct kvmill_flow_step *step) {
    float *data = flow_place(run, step->output, 0);
    kvmill_flow_run_step(run, step, step->output, 0);
    if (step->side < 0)
        return;
    kvmill_flow_store_rows(page, step->side, data);
    kvmill_flow_load(page, &run->program->values[step->side], data);
}

/* Compute the fields of a page, of which `rows` rows exist, for one kv head. */
static void flow_summarise(const struct kvmill_flow_problem *problem,
                           const struct flow_schedule *schedule, const struct flow_cache *cache,
                           int64_t page, int64_t kv_head, int64_t rows, float *workspace) {
    const struct kvmill_flow_program *program = &problem->programs[KVMILL_CACHE_PROGRAM];
    const struct flow_run run = {.problem = problem,
                                 .program = program,
                                 .schedule = schedule,
                                 .workspace = workspace,
                                 .rows = rows};
    const struct flow_page known = {problem, cache, page, kv_head, rows};
    load_inputs(&run, &known);
    for (int i = 0; i < program->step_count; i++) {
        const struct kvmill_flow_step *step = &program->steps[i];
        if (step->field >= 0)
            write_field(&run, &known, step);
        else
            run_value(&run, &known, step);
    }
}

/* The rows of the page that token t completes (or begins); 0 if it does neither. */
static int64_t rows_told(const struct kvmill_flow_problem *problem,
                         const struct flow_tokens *tokens, int64_t t) {
    const int64_t *slot = tokens->slot;
    int64_t size = problem->block_size;
    if (slot[t] < 0)
        return 0;
    if (!problem->incremental)
        return (slot[t] + 1) % size == 0 ? size : 0;
    bool is_last =
        t + 1 == tokens->tokens || slot[t + 1] < 0 || slot[t + 1] / size != slot[t] / size;
    return is_last ? slot[t] % size + 1 : 0;
}

/* ---- Kernels ---- */

/* What the library's own kernel needs to know for a summary. */
struct summaries {
    struct flow_interpreted interpreted;
    const struct kvmill_flow_problem *problem;
    const struct flow_schedule *schedule;
    const struct flow_cache *cache;
};

static void interpret(const struct flow_interpreted *interpreted, const void *problem,
                      int64_t first, int64_t last) {
    const struct summaries *known = (const struct summaries *)(const void *)interpreted;
    const struct kvmill_flow_summary *summary = problem;
    for (int64_t head = first; head < last; head++)
        flow_summarise(known->problem, known->schedule, known->cache, summary->page, head,
                       summary->rows, summary->workspace);
}

static struct kvmill_cache_rows rows_from(const struct kvmill_cache_rows *rows,
                                          const struct kvmill_format *format, int64_t slot) {
    struct kvmill_cache_rows from = *rows;
    from.data += kvmill_format_row_at(format, slot, rows->row_stride);
    if (rows->scale != NULL)
        from.scale += slot * rows->scale_row_stride;
    return from;
}

static const struct kvmill_kernel *kernel_of(const struct flow_kernels *kernels, int64_t rows) {
    const struct kvmill_call_size size = {1, rows, rows};
    return kernels == NULL ? &kvmill_portable_flow_program
                           : kvmill_selected_kernel(&kernels->program[KVMILL_CACHE_PROGRAM], &size);
}

static void summarise_page(const struct summaries *known, const struct flow_kernels *kernels,
                           int64_t page, int64_t rows, float *workspace) {
    const struct kvmill_cache_geometry *geometry = &known->problem->geometry;
    int64_t row = flow_first_row(known->problem, known->cache, page), heads = geometry->kv_heads;
    bool is_apart = known->problem->field_layout == KVMILL_FIELDS_APART;
    struct flow_fields fields;
    const struct kvmill_flow_summary summary = {
        .program = known,
        .key = rows_from(&known->cache->key, &geometry->key, row),
        .value = rows_from(&known->cache->value, &geometry->value, row),
        .field = fields.field,
        .page = page,
        .kv_heads = heads,
        .rows = rows,
        .workspace = workspace,
    };
    for (int64_t head = 0, next; head < heads; head = next) {
        next = is_apart ? heads : head + 1;
        fields = flow_fields_of(known->problem, known->cache, head);
        kernel_of(kernels, rows)->run(&summary, head, next);
    }
}

void kvmill_flow_summarise_span(const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule,
                                const struct flow_kernels *kernels, const struct flow_cache *cache,
                                const struct flow_tokens *tokens, const struct flow_span *span,
                                float *workspace) {
    const struct summaries known = {{interpret}, problem, schedule, cache};
    for (int64_t t = span->first; t < span->last; t++) {
        int64_t rows = rows_told(problem, tokens, t);
        if (rows > 0)
            summarise_page(&known, kernels, tokens->slot[t] / problem->block_size, rows, workspace);
    }
}
