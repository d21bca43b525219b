/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_cache_attend.h"

#include <math.h>
#include <stdlib.h>

static int64_t sequence_of(const struct oracle_attend *problem, int64_t n) {
    int64_t b = 0;
    while (problem->starts[b + 1] <= n)
        b++;
    return b;
}

static int64_t list_of(const struct oracle_attend *problem, int64_t n, int64_t h) {
    return sequence_of(problem, n) * problem->kv_heads + h / (problem->heads / problem->kv_heads);
}

static double mask_at(const struct oracle_attend *problem, int64_t n, int64_t h, int64_t j) {
    const int64_t *dims = problem->mask_dims;
    int64_t b = sequence_of(problem, n), t = problem->together ? n : n - problem->starts[b];
    if (j >= dims[3])
        return -INFINITY;
    int64_t at = dims[0] == 1 ? 0 : b;
    at = at * dims[1] + (dims[1] == 1 ? 0 : h);
    at = at * dims[2] + (dims[2] == 1 ? 0 : t);
    return problem->mask[at * dims[3] + j];
}

static int64_t position_of(const struct oracle_attend *problem, int64_t n, int64_t list) {
    int64_t b = sequence_of(problem, n);
    if (problem->positions != NULL)
        return problem->positions[n];
    return problem->lengths[list] - (problem->starts[b + 1] - n);
}

static bool is_near(const struct oracle_attend *problem, int64_t key, int64_t query) {
    if (problem->is_causal && key > query)
        return false;
    if (!problem->is_causal && problem->right_window >= 0 && key > query + problem->right_window)
        return false;
    return problem->window == 0 || key > query - problem->window;
}

bool oracle_attend_sees(const struct oracle_attend *problem, int64_t n, int64_t h, int64_t j,
                        double *added) {
    int64_t list = list_of(problem, n, h), query = position_of(problem, n, list);
    int64_t cell = problem->cells[list][j];
    int64_t key = problem->key_positions ? problem->key_positions[cell] : j;
    if (problem->rings != NULL && j < problem->lengths[list] - problem->rings[list])
        return false;
    *added = problem->mask ? mask_at(problem, n, h, j) : 0;
    if (*added == -(double)INFINITY)
        return false;
    if (problem->ranges != NULL) {
        if (j < problem->ranges[2 * n] || j >= problem->ranges[2 * n + 1])
            return false;
    }
    if ((problem->ranges == NULL || problem->key_positions != NULL) &&
        !is_near(problem, key, query))
        return false;
    if (problem->slopes != NULL && problem->slopes_of_mask)
        *added *= problem->slopes[h];
    else if (problem->slopes != NULL)
        *added += problem->slopes[h] * (double)(key - query);
    return true;
}

bool oracle_attend_sees_cell(const struct oracle_attend *problem, int64_t cell, int64_t g) {
    int64_t ratio = problem->heads / problem->kv_heads;
    double added;
    for (int64_t n = 0; n < problem->queries; n++) {
        int64_t list = list_of(problem, n, g * ratio);
        for (int64_t j = 0; j < problem->lengths[list]; j++)
            for (int64_t h = g * ratio; problem->cells[list][j] == cell && h < (g + 1) * ratio; h++)
                if (oracle_attend_sees(problem, n, h, j, &added))
                    return true;
    }
    return false;
}

bool oracle_attend_cuts_window(const struct oracle_attend *problem, int64_t left) {
    int64_t ratio = problem->heads / problem->kv_heads;
    for (int64_t n = 0; problem->rings != NULL && left >= 0 && n < problem->queries; n++)
        for (int64_t g = 0; g < problem->kv_heads; g++) {
            int64_t list = list_of(problem, n, g * ratio), ring = problem->rings[list];
            int64_t lost = problem->lengths[list] - ring;
            if (left < ring && lost > 0 && position_of(problem, n, list) - left < lost)
                return true;
        }
    return false;
}

void oracle_attend_row(const struct oracle_attend *problem, int64_t n, int64_t h,
                       struct oracle_answer *answer) {
    int64_t list = list_of(problem, n, h), count = problem->lengths[list];
    int64_t g = h / (problem->heads / problem->kv_heads);
    struct oracle_key *keys = calloc((size_t)count + 1, sizeof *keys);
    for (int64_t j = 0; j < count; j++) {
        int64_t row = problem->cells[list][j] * problem->kv_heads + g;
        keys[j].k = problem->k + row * problem->dim;
        keys[j].v = problem->v + row * problem->value_dim;
        keys[j].hidden = !oracle_attend_sees(problem, n, h, j, &keys[j].bias);
        keys[j].size = fabs(keys[j].bias);
    }
    oracle_query_attend(
        &(struct oracle_query){.dim = problem->dim,
                               .value_dim = problem->value_dim,
                               .count = count,
                               .numbers = problem->q + (n * problem->heads + h) * problem->dim,
                               .keys = keys,
                               .scale = problem->scale,
                               .softcap = problem->softcap,
                               .sink = problem->sinks ? problem->sinks[h] : -INFINITY,
                               .unit = 0x1p-24},
        answer);
    free(keys);
}
