/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_windows.h"

#include <stdlib.h>
#include <string.h>

typedef __int128 wide; /* no sum of an index and an offset overflows it */

/* A problem of either op. */
struct problem {
    struct geometry g;
    wide *indices; /* as numbers */
};

static int place_in(const int64_t *list, int count, int64_t item) {
    for (int i = 0; i < count; i++)
        if (list[i] == item)
            return i;
    return -1;
}

/* Whether windows have the operand's axis d. */
static bool is_of_window(const struct geometry *g, int d) {
    return place_in(g->dropped, g->droppeds, d) < 0 && place_in(g->batching, g->pairs, d) < 0;
}

/* ---- Indices as numbers ---- */

static wide number_at(DLDataType type, const unsigned char *data, int64_t i) {
    uint64_t bits = 0;
    int bytes = (type.bits + 7) / 8;
    memcpy(&bits, data + i * bytes, (size_t)bytes);
    if (type.code == KVMILL_DL_BOOL)
        return bits != 0;
    if (type.bits < 64)
        bits &= ((uint64_t)1 << type.bits) - 1;
    if (type.code == kDLInt && bits >> (type.bits - 1))
        return (wide)bits - ((wide)1 << type.bits);
    return (wide)bits;
}

static int64_t product(const int64_t *dims, int rank) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

static wide *read_indices(const struct geometry *g, DLDataType type, const void *data) {
    int64_t count = product(g->indices_dims, g->indices_rank);
    wide *indices = malloc((size_t)(count + 1) * sizeof *indices);
    for (int64_t i = 0; i < count; i++)
        indices[i] = number_at(type, data, i);
    return indices;
}

/* ---- Places ---- */

static void coordinates(const int64_t *dims, int rank, int64_t i, int64_t *at) {
    for (int d = rank - 1; d >= 0; d--) {
        at[d] = i % dims[d];
        i /= dims[d];
    }
}

static int64_t place_of(const int64_t *dims, int rank, const int64_t *at) {
    int64_t i = 0;
    for (int d = 0; d < rank; d++)
        i = i * dims[d] + at[d];
    return i;
}

/* Sets the coordinates among the indices for a place of the windowed tensor, without the axis of
   index vectors. */
static void find_index(const struct geometry *g, const int64_t *at, int64_t *index) {
    int next = 0;
    for (int r = 0; r < g->windowed_rank; r++)
        if (place_in(g->window, g->windows, r) < 0) {
            next += next == g->ivd;
            index[next++] = at[r];
        }
}

static wide component(const struct problem *problem, int64_t *index, int k) {
    const struct geometry *g = &problem->g;
    if (g->ivd < g->indices_rank)
        index[g->ivd] = k;
    return problem->indices[place_of(g->indices_dims, g->indices_rank, index)];
}

/* Start, batch coordinate and window coordinate of operand axis d. */
struct sum {
    wide start, batch, offset;
};

static struct sum sum_of(const struct problem *problem, const int64_t *at, int d) {
    const struct geometry *g = &problem->g;
    struct sum sum = {0, 0, 0};
    int64_t index[MOST_AXES + 1] = {0};
    int pair = place_in(g->batching, g->pairs, d), k = place_in(g->map, g->components, d), rank = 0;
    find_index(g, at, index);
    if (pair >= 0)
        sum.batch = index[g->indices_batching[pair]];
    if (k >= 0)
        sum.start = component(problem, index, k);
    for (int e = 0; e < d; e++)
        rank += is_of_window(g, e);
    if (is_of_window(g, d))
        sum.offset = at[g->window[rank]];
    return sum;
}

/* ---- The old form ---- */

/* Makes index vectors explicit and last; batching dims become dropped dims, and their coordinates
   the first components. */
static void make_old(struct problem *problem) {
    const struct geometry *g = &problem->g;
    struct geometry old = *g;
    int64_t index[MOST_AXES + 1] = {0}, at[MOST_AXES];
    int pairs = g->pairs, vector = pairs + g->components;
    old.ivd = 0;
    for (int d = 0; d < g->indices_rank; d++)
        if (d != g->ivd)
            old.indices_dims[old.ivd++] = g->indices_dims[d];
    int64_t points = product(old.indices_dims, old.ivd);
    old.indices_dims[old.ivd] = vector;
    old.indices_rank = old.ivd + 1;
    wide *indices = malloc((size_t)(points * vector + 1) * sizeof *indices);
    for (int64_t p = 0; p < points; p++) {
        coordinates(old.indices_dims, old.ivd, p, at);
        for (int d = 0; d < old.ivd; d++)
            index[d < g->ivd ? d : d + 1] = at[d];
        for (int i = 0; i < vector; i++)
            indices[p * vector + i] =
                i < pairs ? index[g->indices_batching[i]] : component(problem, index, i - pairs);
    }
    for (int i = 0; i < vector; i++)
        old.map[i] = i < pairs ? g->batching[i] : g->map[i - pairs];
    for (int i = 0; i < pairs; i++)
        old.dropped[old.droppeds++] = g->batching[i];
    old.components = vector;
    old.pairs = 0;
    free(problem->indices);
    *problem = (struct problem){old, indices};
}

static struct problem problem_of(enum oracle_form form, const struct geometry *g, DLDataType type,
                                 const void *indices) {
    struct problem problem = {*g, read_indices(g, type, indices)};
    if (form == ORACLE_OLD_FORM)
        make_old(&problem);
    return problem;
}

/* ---- The ops ---- */

/* Returns how many elements along the result's last axis come from one window; *step is their
   distance in the operand. */
static int64_t run_of(const struct geometry *g, int64_t *step) {
    int last = g->windowed_rank - 1, axis = g->rank - 1;
    if (place_in(g->window, g->windows, last) < 0)
        return 1;
    while (!is_of_window(g, axis))
        axis--;
    *step = product(g->dims + axis + 1, g->rank - axis - 1);
    return g->windowed_dims[last];
}

/* Returns the operand's element for a place of the result; *outside, whether its window was
   moved. */
static int64_t place_read(const struct problem *problem, const int64_t *at, bool *outside) {
    const struct geometry *g = &problem->g;
    int64_t from[MOST_AXES];
    *outside = false;
    for (int d = 0; d < g->rank; d++) {
        struct sum sum = sum_of(problem, at, d);
        /* An axis that the result does not have is read once, even if its slice size is 0. */
        wide most = g->dims[d] - (is_of_window(g, d) ? g->slice[d] : 1);
        wide start = sum.start < 0 ? 0 : sum.start > most ? most : sum.start;
        *outside |= start != sum.start;
        from[d] = (int64_t)(start + sum.batch + sum.offset);
    }
    return place_of(g->dims, g->rank, from);
}

void oracle_gather(enum oracle_form form, const struct geometry *g, const kvmill_gather *op,
                   const void *operand, const void *start_indices, void *result) {
    struct problem problem = problem_of(form, g, op->start_indices->dtype, start_indices);
    int64_t bytes = (op->operand->dtype.bits + 7) / 8, step = 0, at[MOST_AXES];
    int64_t count = product(g->windowed_dims, g->windowed_rank);
    bool fills = op->mode != NULL && strcmp(op->mode, "fill") == 0, outside;
    for (int64_t i = 0, run = run_of(g, &step); i < count; i += run) {
        coordinates(g->windowed_dims, g->windowed_rank, i, at);
        const unsigned char *source =
            (const unsigned char *)operand + place_read(&problem, at, &outside) * bytes;
        for (int64_t n = 0; n < run; n++)
            memcpy((unsigned char *)result + (i + n) * bytes,
                   outside && fills ? op->fill_value : source + n * step * bytes, (size_t)bytes);
    }
    free(problem.indices);
}

/* Whether the window is completely inside the operand. */
static bool is_whole(const struct problem *problem, const int64_t *at) {
    const struct geometry *g = &problem->g;
    int next = 0;
    for (int d = 0; d < g->rank; d++) {
        struct sum sum = sum_of(problem, at, d);
        int64_t extent = is_of_window(g, d) ? g->windowed_dims[g->window[next++]] : 1;
        if (sum.start < 0 || sum.start > g->dims[d] - extent)
            return false;
    }
    return true;
}

/* Returns the operand's element for update i, or -1 if it is skipped. */
static int64_t place_of_update(const struct problem *problem, int64_t i, bool whole) {
    const struct geometry *g = &problem->g;
    int64_t at[MOST_AXES], to[MOST_AXES];
    coordinates(g->windowed_dims, g->windowed_rank, i, at);
    if (whole && !is_whole(problem, at))
        return -1;
    for (int d = 0; d < g->rank; d++) {
        struct sum sum = sum_of(problem, at, d);
        wide place = sum.start + sum.batch + sum.offset;
        if (place < 0 || place >= g->dims[d])
            return -1;
        to[d] = (int64_t)place;
    }
    return place_of(g->dims, g->rank, to);
}

void oracle_scatter(enum oracle_form form, const struct geometry *g, const kvmill_scatter *op,
                    const void *scatter_indices, const unsigned char *const *updates,
                    unsigned char *const *results, const int64_t *result_bytes,
                    oracle_combine combine, void *context) {
    struct problem problem = problem_of(form, g, op->scatter_indices->dtype, scatter_indices);
    bool whole = op->window_out_of_bounds && strcmp(op->window_out_of_bounds, "skip_window") == 0;
    int64_t count = product(g->windowed_dims, g->windowed_rank);
    for (int64_t i = 0; i < count; i++) {
        unsigned char *accumulators[16];
        const unsigned char *values[16];
        int64_t place = place_of_update(&problem, i, whole);
        if (place < 0)
            continue;
        for (size_t s = 0; s < op->count; s++) {
            accumulators[s] = results[s] + place * result_bytes[s];
            values[s] = updates[s] + i * ((op->updates[s]->dtype.bits + 7) / 8);
        }
        combine(context, accumulators, values);
    }
    free(problem.indices);
}
