/* Which kernels score and select pages of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"
#include "portable.h"

#include <stdio.h>

void kvmill_flow_select_kernels(const struct shelf *shelf,
                                const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule,
                                struct flow_kernels *kernels) {
    const struct kvmill_convert_shape query = kvmill_flow_query_shape(problem);
    const struct wanted read = {KVMILL_READ_ROWS, &query, &kvmill_portable_read_rows};
    static const struct kvmill_select_shape floats = {KVMILL_F32};
    const struct wanted select = {KVMILL_SELECT_PAGES, &floats, &kvmill_portable_select_pages};
    kernels->query = kvmill_select_kernel(shelf, &read);
    kernels->select = kvmill_select_kernel(shelf, &select);
    for (int i = 0; i < schedule->atoms.count; i++) {
        struct kvmill_score_shape shape = kvmill_flow_atom_shape(problem, &schedule->atoms.atom[i]);
        const struct wanted score = {KVMILL_SCORE_PAGES, &shape, &kvmill_portable_score_pages};
        kernels->score[i] = kvmill_select_kernel(shelf, &score);
    }
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

size_t kvmill_flow_kernel_words(const struct flow_kernels *kernels,
                                const struct flow_schedule *schedule, char *text, size_t size) {
    size_t used =
        say_selection("read queries", &kernels->query, &kvmill_portable_read_rows, text, size);
    for (int i = 0; i < schedule->atoms.count; i++)
        used += say_selection("score", &kernels->score[i], &kvmill_portable_score_pages,
                              text + used, size - used);
    return used + say_selection("select", &kernels->select, &kvmill_portable_select_pages,
                                text + used, size - used);
}
