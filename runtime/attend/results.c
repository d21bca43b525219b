/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include <math.h>

#include "partial.h"

/* The partial result of rows that see nothing, except possibly a sink. */
void kvmill_put_nothing(const struct kvmill_attend *problem, int64_t floats) {
    for (int64_t i = 0; i < problem->rows; i++) {
        float *partial = problem->partial + i * floats;
        memset(partial, 0, (size_t)floats * sizeof *partial);
        partial[0] = problem->row[i].sink;
        partial[1] = partial[0] == -INFINITY ? 0 : 1;
    }
}

/* Write the merged partial results of a tile's rows; pieces are `step` floats apart. */
void kvmill_finish_tile(const struct attend_view *view, const struct tile *tile,
                        const float *partial, int64_t step) {
    const struct attend_plan *plan = view->plan;
    int64_t floats = partial_floats(plan);
    for (int64_t i = 0; i < tile->rows; i++) {
        const struct partials partials = {partial + i * floats, tile->pieces, step, plan->value_dim,
                                          plan->empty};
        const struct merged_row row = {
            plan->output,
            row_of_tile(view, &view->output, tile, i),
            view->lse.data != NULL ? row_of_tile(view, &view->lse, tile, i) : NULL,
        };
        kvmill_merge_row(&partials, &row);
    }
}

/* Where the partial results of a unit's pieces are; view->cuts ensures that there is room. */
float *kvmill_shared_partials(const struct attend_view *view, int64_t unit) {
    unsigned char *shared = view->workspace + view->plan->layout.shared;
    return (float *)(void *)shared + unit * view->cuts.splits * kvmill_piece_floats(view);
}
