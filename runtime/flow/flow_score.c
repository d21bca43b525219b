/* Scores of pages: the index program of a flow, page by page, in as many stages as it needs.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/numbers.h"
#include "../portable/portable.h"
#include "flow_run.h"

static bool ends(const struct kvmill_flow_step *step) {
    return step->output < 0;
}

static const struct kvmill_flow_shape *shape_of(const struct flow_run *run,
                                                const struct kvmill_flow_step *step) {
    return &run->program->values[step->output].shape;
}

static bool is_in_stage(const struct flow_run *run, int i, int stage) {
    const struct kvmill_flow_step *step = &run->program->steps[i];
    return !ends(step) && !run->schedule->atoms.elsewhere[i] &&
           run->schedule->stage[step->output] == stage;
}

/* Run the steps that go page by page. */
static bool is_of_pages(const struct flow_run *run, int i, int stage) {
    const struct kvmill_flow_step *step = &run->program->steps[i];
    return is_in_stage(run, i, stage) && shape_of(run, step)->ragged &&
           !kvmill_flow_is_over_pages(step);
}

/* ---- Inputs ---- */

static void load_query(const struct flow_run *run, const struct flow_scoring *scoring) {
    const struct kvmill_cache_geometry *geometry = &run->problem->geometry;
    int number = flow_query_value(run->problem);
    int64_t dim = geometry->key.dim;
    if (!run->schedule->loaded[number])
        return;
    for (int64_t row = 0; row < run->problem->group; row++)
        for (int64_t i = 0; i < dim; i++)
            flow_place(run, number, 0)[row * dim + i] = kvmill_load_float(
                geometry->activation, scoring->query + row * scoring->query_stride, i);
}

/* Values that are kept are loaded once, others in every stage. */
static void load_page(const struct flow_run *run, const struct flow_page *page, int64_t number,
                      int stage) {
    for (int i = 0; i < run->program->value_count; i++)
        if (flow_is_of_page(&run->program->values[i]) && run->schedule->loaded[i] &&
            (stage == 0 || !run->schedule->kept[i]))
            kvmill_flow_load(page, &run->program->values[i], flow_place(run, i, number));
}

/* ---- Stages ---- */

/* Run ops over pages, and ops on values that are common to all pages. */
static void begin_stage(const struct flow_run *run, int stage) {
    for (int i = 0; i < run->program->step_count; i++) {
        const struct kvmill_flow_step *step = &run->program->steps[i];
        if (!is_in_stage(run, i, stage))
            continue;
        if (kvmill_flow_is_over_pages(step))
            kvmill_flow_run_over_pages(run, step);
        else if (!shape_of(run, step)->ragged)
            kvmill_flow_run_step(run, step, step->output, 0);
    }
}

static void run_page(const struct flow_run *run, int stage, int64_t number) {
    for (int i = 0; i < run->program->step_count; i++)
        if (is_of_pages(run, i, stage))
            kvmill_flow_run_step(run, &run->program->steps[i], run->program->steps[i].output,
                                 number);
}

static struct flow_page page_of(const struct flow_run *run, const struct flow_scoring *scoring,
                                int64_t number) {
    return (struct flow_page){run->problem, scoring->cache, scoring->ids[number], scoring->kv_head,
                              run->problem->block_size};
}

/* Whether a stage has steps for single pages. */
static bool has_pages(const struct flow_run *run, int stage) {
    bool has = false;
    for (int i = 0; i < run->program->step_count; i++)
        has = has || is_of_pages(run, i, stage);
    for (int i = 0; stage == 0 && i < run->program->value_count; i++)
        has = has || (flow_is_of_page(&run->program->values[i]) && run->schedule->loaded[i]);
    return has;
}

static void run_pages(const struct flow_run *run, const struct flow_scoring *scoring, int stage) {
    for (int64_t s = 0; has_pages(run, stage) && s < run->pages; s++) {
        struct flow_page page = page_of(run, scoring, s);
        load_page(run, &page, s, stage);
        run_page(run, stage, s);
    }
}

/* ---- Results ---- */

static void save_states(const struct flow_run *run, const struct flow_scoring *scoring) {
    for (int i = 0; i < run->program->step_count; i++) {
        const struct kvmill_flow_step *step = &run->program->steps[i];
        for (int64_t s = 0; step->code == KVMILL_FLOW_SAVE && s < run->pages; s++) {
            struct flow_page page = page_of(run, scoring, s);
            kvmill_flow_store(&page, step->field, step->code, flow_place(run, step->input[0], s));
        }
    }
}

/* ---- Kernels ---- */

/* What the library's own kernel needs to know for scores. */
struct scores {
    struct flow_interpreted interpreted;
    const struct flow_run *run;
    const struct flow_scoring *scoring;
};

/* The phases are the beginning and the pages of each stage, and then the state. */
static void run_phase(const struct scores *known, int64_t phase) {
    int stage = (int)(phase / 2);
    if (phase == 0)
        load_query(known->run, known->scoring);
    if (stage == known->run->schedule->stages)
        save_states(known->run, known->scoring);
    else if (phase % 2 == 0)
        begin_stage(known->run, stage);
    else
        run_pages(known->run, known->scoring, stage);
}

static void interpret(const struct flow_interpreted *interpreted, const void *problem,
                      int64_t first, int64_t last) {
    (void)problem;
    for (int64_t phase = first; phase < last; phase++)
        run_phase((const struct scores *)(const void *)interpreted, phase);
}

static struct kvmill_call_size size_of(const struct flow_run *run) {
    return (struct kvmill_call_size){1, 1, run->pages * run->problem->block_size};
}

static const struct kvmill_kernel *program_of(const struct flow_run *run,
                                              const struct flow_scoring *scoring) {
    const struct kvmill_call_size size = size_of(run);
    return scoring->kernels == NULL
               ? &kvmill_portable_flow_program
               : kvmill_selected_kernel(&scoring->kernels->program[KVMILL_INDEX_PROGRAM], &size);
}

/* ---- Atoms ---- */

static const struct kvmill_kernel *kernel_of(const struct flow_run *run,
                                             const struct flow_scoring *scoring, int i) {
    const struct kvmill_call_size size = size_of(run);
    return scoring->kernels == NULL ? &kvmill_portable_score_pages
                                    : kvmill_selected_kernel(&scoring->kernels->score[i], &size);
}

/* Compute values that are common to all pages. */
static const float *find_numbers(const struct flow_run *run, int value) {
    const struct kvmill_flow_value *known = &run->program->values[value];
    return known->source == KVMILL_FLOW_CONSTANT ? run->constant[known->number]
                                                 : flow_place(run, value, 0);
}

static void run_atom(const struct flow_run *run, const struct flow_scoring *scoring, int i,
                     const struct flow_span *span) {
    const struct kvmill_flow_atom *atom = &run->schedule->atoms.atom[i];
    const struct kvmill_score_shape shape = kvmill_flow_atom_shape(run->problem, atom);
    const struct flow_cache *cache = scoring->cache;
    struct kvmill_score_pages pages = {
        .shape = &shape,
        .query = find_numbers(run, atom->query),
        .stride = kvmill_flow_field_place(run->problem, atom->field[0], cache->field_blocks).block,
        .ids = scoring->ids,
        .pages = run->pages,
        .score = flow_place(run, atom->value, 0),
        .weight = atom->weight < 0 ? NULL : find_numbers(run, atom->weight),
    };
    for (int k = 0; k < (atom->kind == KVMILL_ATOM_BOUND ? 2 : 1); k++)
        pages.field[k] = flow_field_at(run->problem, cache, atom->field[k], 0, scoring->kv_head);
    kernel_of(run, scoring, i)->run(&pages, span->first, span->last);
    kvmill_flow_round_pages(run, atom->value, span->first, span->last);
}

/* ---- The program ---- */

static struct flow_run run_of(const struct flow_scoring *scoring, float *workspace) {
    return (struct flow_run){.problem = scoring->problem,
                             .program = &scoring->problem->programs[KVMILL_INDEX_PROGRAM],
                             .schedule = scoring->schedule,
                             .constant = scoring->constant,
                             .workspace = workspace,
                             .pages = scoring->pages};
}

static void run_phases(const struct flow_run *run, const struct flow_scoring *scoring,
                       int64_t first, int64_t last) {
    const struct scores known = {{interpret}, run, scoring};
    const struct flow_fields fields =
        flow_fields_of(run->problem, scoring->cache, scoring->kv_head);
    const struct kvmill_flow_scores scores = {
        .program = &known,
        .query = scoring->query,
        .query_stride = scoring->query_stride,
        .key = scoring->cache->key,
        .value = scoring->cache->value,
        .page_rows = scoring->cache->page_rows,
        .field = fields.field,
        .constant = scoring->constant,
        .ids = scoring->ids,
        .pages = scoring->pages,
        .kv_head = scoring->kv_head,
        .kv_heads = run->problem->geometry.kv_heads,
        .workspace = run->workspace,
    };
    program_of(run, scoring)->run(&scores, first, last);
}

void kvmill_flow_prepare(const struct flow_scoring *scoring, float *workspace) {
    const struct flow_run run = run_of(scoring, workspace);
    run_phases(&run, scoring, 0, 1);
}

void kvmill_flow_score_span(const struct flow_scoring *scoring, const struct flow_span *span,
                            float *workspace) {
    const struct flow_run run = run_of(scoring, workspace);
    for (int i = 0; i < run.schedule->atoms.count; i++)
        run_atom(&run, scoring, i, span);
}

static struct flow_scores find_scores(const struct flow_run *run) {
    const struct kvmill_flow_step *step = run->program->steps;
    while (!kvmill_flow_is_selection(step->code))
        step++;
    return (struct flow_scores){flow_place(run, step->input[0], 0),
                                step->input[1] < 0 ? NULL : flow_place(run, step->input[1], 0)};
}

struct flow_scores kvmill_flow_finish(const struct flow_scoring *scoring, float *workspace) {
    const struct flow_run run = run_of(scoring, workspace);
    run_phases(&run, scoring, 1, 2 * run.schedule->stages + 1);
    return find_scores(&run);
}
