/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <stdlib.h>
#include <string.h>

typedef __int128 wide; /* no sum of an index and an offset leaves it */

enum { MOST_AXES = 80 }; /* the old form adds components */

struct list {
    int count;
    int64_t items[MOST_AXES];
};

/* Either op, in one vocabulary. */
struct problem {
    struct list window, dropped, batching, indices_batching, map;
    int ivd, rank, indices_rank, windowed_rank;
    int64_t dims[MOST_AXES], indices_dims[MOST_AXES], windowed_dims[MOST_AXES];
    wide *indices; /* as numbers */
};

static struct list list_of(kvmill_dims dims) {
    struct list list = {.count = (int)dims.count};
    for (size_t i = 0; i < dims.count; i++)
        list.items[i] = dims.items[i];
    return list;
}

static int place_in(const struct list *list, int64_t item) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == item)
            return i;
    return -1;
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

static void read_indices(struct problem *problem, DLDataType type, const void *data) {
    int64_t count = product(problem->indices_dims, problem->indices_rank);
    problem->indices = malloc((size_t)(count + 1) * sizeof *problem->indices);
    for (int64_t i = 0; i < count; i++)
        problem->indices[i] = number_at(type, data, i);
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

/* Component k of the index vector for a place in the windowed tensor. */
static wide component(const struct problem *problem, const int64_t *at, int k) {
    int64_t index[MOST_AXES];
    int next = 0;
    for (int r = 0; r < problem->windowed_rank; r++)
        if (place_in(&problem->window, r) < 0) {
            next += next == problem->ivd;
            index[next++] = at[r];
        }
    if (problem->ivd < problem->indices_rank)
        index[problem->ivd] = k;
    return problem->indices[place_of(problem->indices_dims, problem->indices_rank, index)];
}

/* Start, batch coordinate and window coordinate of operand axis d. */
struct sum {
    wide start, batch, offset;
};

static struct sum sum_of(const struct problem *problem, const int64_t *at, int d) {
    struct sum sum = {0, 0, 0};
    int batching = place_in(&problem->batching, d), k = place_in(&problem->map, d), rank = 0;
    if (k >= 0)
        sum.start = component(problem, at, k);
    if (batching >= 0) {
        int64_t axis = problem->indices_batching.items[batching], seen = 0;
        for (int r = 0; r < problem->windowed_rank; r++) {
            if (place_in(&problem->window, r) >= 0)
                continue;
            seen += seen == problem->ivd;
            if (seen++ == axis)
                sum.batch = at[r];
        }
        return sum;
    }
    if (place_in(&problem->dropped, d) >= 0)
        return sum;
    for (int e = 0; e < d; e++)
        rank += place_in(&problem->dropped, e) < 0 && place_in(&problem->batching, e) < 0;
    sum.offset = at[problem->window.items[rank]];
    return sum;
}

/* ---- The old form ---- */

static int compare_items(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The index vector becomes explicit and last; batching dims are dropped dims with an iota in front.
 */
static void make_old(struct problem *problem) {
    struct problem old = *problem;
    int pairs = problem->batching.count, components = problem->map.count;
    int64_t at[MOST_AXES], index[MOST_AXES];
    old.indices_rank = 0;
    for (int d = 0; d < problem->indices_rank; d++)
        if (d != problem->ivd)
            old.indices_dims[old.indices_rank++] = problem->indices_dims[d];
    old.ivd = old.indices_rank;
    int64_t points = product(old.indices_dims, old.ivd);
    old.indices_dims[old.indices_rank++] = pairs + components;
    old.indices = malloc((size_t)(points * (pairs + components) + 1) * sizeof *old.indices);
    for (int64_t p = 0; p < points; p++) {
        coordinates(old.indices_dims, old.ivd, p, at);
        for (int d = 0; d < problem->indices_rank; d++)
            if (d != problem->ivd)
                index[d] = at[d < problem->ivd ? d : d - 1];
        wide *vector = old.indices + p * (pairs + components);
        for (int i = 0; i < pairs; i++)
            vector[i] = index[problem->indices_batching.items[i]];
        for (int k = 0; k < components; k++) {
            if (problem->ivd < problem->indices_rank)
                index[problem->ivd] = k;
            vector[pairs + k] =
                problem->indices[place_of(problem->indices_dims, problem->indices_rank, index)];
        }
    }
    for (int i = 0; i < pairs; i++) {
        old.dropped.items[old.dropped.count++] = problem->batching.items[i];
        old.map.items[i] = problem->batching.items[i];
    }
    for (int k = 0; k < components; k++)
        old.map.items[pairs + k] = problem->map.items[k];
    qsort(old.dropped.items, (size_t)old.dropped.count, sizeof old.dropped.items[0], compare_items);
    old.map.count = pairs + components;
    old.batching.count = old.indices_batching.count = 0;
    free(problem->indices);
    *problem = old;
}

/* ---- The ops ---- */

static void set_dims(int64_t *dims, int *rank, const DLTensor *tensor) {
    *rank = tensor->ndim;
    for (int d = 0; d < tensor->ndim; d++)
        dims[d] = tensor->shape[d];
}

/* An axis that the result does not have is read once, even where its slice size is 0. */
static int64_t extent_read(const struct problem *problem, const int64_t *slice_sizes, int d) {
    bool is_window = place_in(&problem->dropped, d) < 0 && place_in(&problem->batching, d) < 0;
    return is_window ? slice_sizes[d] : 1;
}

/* Elements along the result's last axis that come from one window, and how far apart these lie in
 * the operand. */
static int64_t run_of(const struct problem *problem, int64_t *step) {
    int last = problem->windowed_rank - 1, axis = problem->rank - 1;
    if (place_in(&problem->window, last) < 0)
        return 1;
    while (place_in(&problem->dropped, axis) >= 0 || place_in(&problem->batching, axis) >= 0)
        axis--;
    *step = product(problem->dims + axis + 1, problem->rank - axis - 1);
    return problem->windowed_dims[last];
}

void oracle_gather(enum oracle_form form, const kvmill_gather *op, const void *operand,
                   const void *start_indices, void *result) {
    struct problem problem = {
        .window = list_of(op->offset_dims),
        .dropped = list_of(op->collapsed_slice_dims),
        .batching = list_of(op->operand_batching_dims),
        .indices_batching = list_of(op->start_indices_batching_dims),
        .map = list_of(op->start_index_map),
        .ivd = (int)op->index_vector_dim,
    };
    int64_t at[MOST_AXES], from[MOST_AXES], step = 0;
    int64_t bytes = (op->operand->dtype.bits + 7) / 8;
    set_dims(problem.dims, &problem.rank, op->operand);
    set_dims(problem.indices_dims, &problem.indices_rank, op->start_indices);
    set_dims(problem.windowed_dims, &problem.windowed_rank, op->result);
    read_indices(&problem, op->start_indices->dtype, start_indices);
    if (form == ORACLE_OLD_FORM)
        make_old(&problem);
    int64_t count = product(problem.windowed_dims, problem.windowed_rank);
    for (int64_t i = 0, run = run_of(&problem, &step); i < count; i += run) {
        bool outside = false;
        coordinates(problem.windowed_dims, problem.windowed_rank, i, at);
        for (int d = 0; d < problem.rank; d++) {
            struct sum sum = sum_of(&problem, at, d);
            wide most = problem.dims[d] - extent_read(&problem, op->slice_sizes.items, d);
            wide start = sum.start < 0 ? 0 : sum.start > most ? most : sum.start;
            outside |= start != sum.start;
            from[d] = (int64_t)(start + sum.batch + sum.offset);
        }
        const unsigned char *source =
            (const unsigned char *)operand + place_of(problem.dims, problem.rank, from) * bytes;
        bool filled = outside && op->mode != NULL && strcmp(op->mode, "fill") == 0;
        for (int64_t n = 0; n < run; n++)
            memcpy((unsigned char *)result + (i + n) * bytes,
                   filled ? op->fill_value : source + n * step * bytes, (size_t)bytes);
    }
    free(problem.indices);
}

/* All of the window lies inside. */
static bool is_whole(const struct problem *problem, const int64_t *at) {
    int next = 0;
    for (int d = 0; d < problem->rank; d++) {
        struct sum sum = sum_of(problem, at, d);
        bool is_window = place_in(&problem->dropped, d) < 0 && place_in(&problem->batching, d) < 0;
        int64_t extent = is_window ? problem->windowed_dims[problem->window.items[next++]] : 1;
        if (sum.start < 0 || sum.start > problem->dims[d] - extent)
            return false;
    }
    return true;
}

/* The element of the operand that update i goes to; -1: it is skipped. */
static int64_t place_of_update(const struct problem *problem, int64_t i, bool whole) {
    int64_t at[MOST_AXES], to[MOST_AXES];
    coordinates(problem->windowed_dims, problem->windowed_rank, i, at);
    if (whole && !is_whole(problem, at))
        return -1;
    for (int d = 0; d < problem->rank; d++) {
        struct sum sum = sum_of(problem, at, d);
        wide place = sum.start + sum.batch + sum.offset;
        if (place < 0 || place >= problem->dims[d])
            return -1;
        to[d] = (int64_t)place;
    }
    return place_of(problem->dims, problem->rank, to);
}

void oracle_scatter(enum oracle_form form, const kvmill_scatter *op, const void *scatter_indices,
                    const unsigned char *const *updates, unsigned char *const *results,
                    const int64_t *result_bytes, oracle_combine combine, void *context) {
    struct problem problem = {
        .window = list_of(op->update_window_dims),
        .dropped = list_of(op->inserted_window_dims),
        .batching = list_of(op->input_batching_dims),
        .indices_batching = list_of(op->scatter_indices_batching_dims),
        .map = list_of(op->scatter_dims_to_operand_dims),
        .ivd = (int)op->index_vector_dim,
    };
    bool whole = op->window_out_of_bounds && strcmp(op->window_out_of_bounds, "skip_window") == 0;
    set_dims(problem.dims, &problem.rank, op->inputs[0]);
    set_dims(problem.indices_dims, &problem.indices_rank, op->scatter_indices);
    set_dims(problem.windowed_dims, &problem.windowed_rank, op->updates[0]);
    read_indices(&problem, op->scatter_indices->dtype, scatter_indices);
    if (form == ORACLE_OLD_FORM)
        make_old(&problem);
    int64_t count = product(problem.windowed_dims, problem.windowed_rank);
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
