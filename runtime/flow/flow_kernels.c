/* Selects the kernels that run a flow's programs, and that score and select pages.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/flow_text.h"
#include "../portable/portable.h"
#include "flow_portable.h"

#include <stdio.h>

/* The empty text of a missing program fits no kernel. */
static struct selection select_program(const struct kernel_search *search,
                                       const struct kvmill_flow_problem *problem,
                                       enum kvmill_flow_part part) {
    struct kvmill_flow_text text;
    kvmill_flow_text_make(problem, part, &text);
    const struct kvmill_flow_program_shape shape = {text.text};
    const struct wanted wanted = {KVMILL_FLOW_PROGRAM, &shape, &kvmill_portable_flow_program};
    return kvmill_select_kernel(search, &wanted);
}

void kvmill_flow_select_kernels(const struct kernel_search *search,
                                const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule,
                                struct flow_kernels *kernels) {
    static const struct kvmill_select_shape floats = {KVMILL_F32};
    const struct wanted select = {KVMILL_SELECT_PAGES, &floats, &kvmill_portable_select_pages};
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kernels->program[part] = select_program(search, problem, (enum kvmill_flow_part)part);
    kernels->select = kvmill_select_kernel(search, &select);
    for (int i = 0; i < schedule->atoms.count; i++) {
        struct kvmill_score_shape shape = kvmill_flow_atom_shape(problem, &schedule->atoms.atom[i]);
        const struct wanted score = {KVMILL_SCORE_PAGES, &shape, &kvmill_portable_score_pages};
        kernels->score[i] = kvmill_select_kernel(search, &score);
    }
}

void kvmill_flow_need_index(const struct flow_kernels *kernels,
                            const struct flow_schedule *schedule,
                            const struct kernel_search *search, struct needs *needs) {
    const struct kvmill_kernel *program = kernels->program[KVMILL_INDEX_PROGRAM].by_size.kernel;
    kvmill_need(needs, search, EVERY_RUN, "index pages", program);
    for (int i = 0; i < schedule->atoms.count; i++)
        kvmill_need(needs, search, EVERY_RUN, "score pages", kernels->score[i].by_size.kernel);
    kvmill_need(needs, search, EVERY_RUN, "select pages", kernels->select.by_size.kernel);
}

/* ---- Words ---- */

static size_t say_selection(const char *what, const struct selection *selection,
                            const struct kvmill_kernel *portable, char *text, size_t size) {
    const struct kvmill_kernel *kernel = selection->by_size.kernel;
    int count = snprintf(text, size, "; %s with %s (%s%s)", what, kernel->symbol,
                         kernel == portable ? "" : "pack ", selection->origin);
    size_t used = count < 0 ? 0 : (size_t)count < size ? (size_t)count : size - 1;
    return used + kvmill_by_size_words(&selection->by_size, text + used, size - used);
}

size_t kvmill_flow_cache_words(const struct flow_kernels *kernels, char *text, size_t size) {
    return say_selection("summarise", &kernels->program[KVMILL_CACHE_PROGRAM],
                         &kvmill_portable_flow_program, text, size);
}

size_t kvmill_flow_index_words(const struct flow_kernels *kernels,
                               const struct flow_schedule *schedule, char *text, size_t size) {
    size_t used = say_selection("index", &kernels->program[KVMILL_INDEX_PROGRAM],
                                &kvmill_portable_flow_program, text, size);
    for (int i = 0; i < schedule->atoms.count; i++)
        used += say_selection("score", &kernels->score[i], &kvmill_portable_score_pages,
                              text + used, size - used);
    return used + say_selection("select", &kernels->select, &kvmill_portable_select_pages,
                                text + used, size - used);
}
