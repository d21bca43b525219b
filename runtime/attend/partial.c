/* SPDX-License-Identifier: Apache-2.0 */
#include "partial.h"

#include <math.h>

#include <kvmill.h>

#include "../../ops/extent.h"
#include "../core/numbers.h"

/* Elements that are added up at a time. */
enum { PIECE = 128 };

/* ---- Scores ---- */

static float largest_of(const float *scores, int64_t count, int64_t step) {
    float largest = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        largest = scores[i * step] > largest ? scores[i * step] : largest;
    return largest;
}

/* exp (score - largest), also for infinities. */
static float weight_of(float score, float largest) {
    return score == largest ? 1 : expf(score - largest);
}

/* ---- Partial results of kernels ---- */

/* Set the weights, and return the total of all results.  A result that saw nothing has no sums. */
static float set_weights(const struct partials *partials, float largest, float *weights) {
    float total = 0;
    for (int64_t i = 0; i < partials->count; i++) {
        const float *partial = partials->first + i * partials->step;
        weights[i] = partial[1] == 0 ? 0 : weight_of(partial[0], largest);
        total += weights[i] * partial[1];
    }
    return total;
}

/* Elements [from, from + count) of the sums. */
static void sum_up(const struct partials *partials, const float *weights, int64_t from,
                   int64_t count, float *sums) {
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t i = 0; i < partials->count; i++) {
        const float *sum = partials->first + i * partials->step + KVMILL_PARTIAL_HEAD + from;
        for (int64_t d = 0; weights[i] != 0 && d < count; d++)
            sums[d] += weights[i] * sum[d];
    }
}

static void put_lse(unsigned char *at, float largest, float total) {
    float lse = total == 0 ? -INFINITY : largest + logf(total);
    memcpy(at, &lse, sizeof lse);
}

void kvmill_merge_row(const struct partials *partials, const struct merged_row *row) {
    float weights[KVMILL_MOST_PARTIALS], sums[PIECE];
    float largest = largest_of(partials->first, partials->count, partials->step);
    float total = set_weights(partials, largest, weights);
    for (int64_t from = 0; from < partials->dim; from += PIECE) {
        int64_t count = partials->dim - from < PIECE ? partials->dim - from : PIECE;
        sum_up(partials, weights, from, count, sums);
        for (int64_t d = 0; d < count; d++)
            kvmill_store_float(row->element, row->output, from + d,
                               total == 0 ? partials->empty : sums[d] / total);
    }
    if (row->lse != NULL)
        put_lse(row->lse, largest, total);
}

/* ---- Partial results of callers ---- */

static float lse_of(const float *const *lses, int64_t count, int64_t row, float *largest) {
    float total = 0;
    *largest = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        *largest = lses[i][row] > *largest ? lses[i][row] : *largest;
    for (int64_t i = 0; i < count; i++)
        total += lses[i][row] == -INFINITY ? 0 : weight_of(lses[i][row], *largest);
    return total;
}

/* Elements [from, from + count) of a row.  If no result saw anything, all agree. */
static void merge_piece(int64_t inputs, const float *const *outputs, const float *const *lses,
                        int64_t row, int64_t at, int64_t count, float *output) {
    float sums[PIECE] = {0}, largest;
    float total = lse_of(lses, inputs, row, &largest);
    for (int64_t i = 0; i < inputs; i++) {
        bool saw = lses[i][row] != -INFINITY;
        float weight = saw ? weight_of(lses[i][row], largest) / total : total == 0 && i == 0;
        for (int64_t d = 0; weight != 0 && d < count; d++)
            sums[d] += weight * outputs[i][at + d];
    }
    memcpy(output + at, sums, (size_t)count * sizeof *sums);
}

static kvmill_status check_merge(int64_t count, const float *const *outputs,
                                 const float *const *lses, int64_t rows, int64_t dim,
                                 const float *output, const float *lse) {
    bool overflow = false;
    int64_t elements = kvmill_times(rows, dim, &overflow);
    if (count < 0 || rows < 0 || dim < 0)
        return KVMILL_E_SHAPE;
    if (overflow || elements > PTRDIFF_MAX / (int64_t)sizeof *output)
        return KVMILL_E_OVERFLOW;
    if (rows == 0)
        return KVMILL_OK;
    if (lse == NULL || (output == NULL && dim > 0) ||
        (count > 0 && (lses == NULL || (outputs == NULL && dim > 0))))
        return KVMILL_E_NULL;
    for (int64_t i = 0; i < count; i++)
        if (lses[i] == NULL || (dim > 0 && outputs[i] == NULL))
            return KVMILL_E_NULL;
    return KVMILL_OK;
}

kvmill_status kvmill_merge_partials(int64_t count, const float *const *outputs,
                                    const float *const *lses, int64_t rows, int64_t dim,
                                    float *output, float *lse) {
    kvmill_status status = check_merge(count, outputs, lses, rows, dim, output, lse);
    for (int64_t row = 0; status == KVMILL_OK && row < rows; row++) {
        for (int64_t d = 0; d < dim; d += PIECE)
            merge_piece(count, outputs, lses, row, row * dim + d, dim - d < PIECE ? dim - d : PIECE,
                        output);
        float largest, total = lse_of(lses, count, row, &largest);
        lse[row] = total == 0 ? -INFINITY : largest + logf(total);
    }
    return status;
}
