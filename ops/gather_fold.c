/* SPDX-License-Identifier: Apache-2.0 */
#include "gather_fold.h"

#include <string.h>

#include "element.h"
#include "extent.h"
#include "gather.h"
#include "loops.h"

enum { OPERAND, RESULT, INDICES, SIDES };

/* Loops around longer contiguous pieces gain nothing from being constants of a kernel. */
static const int64_t most_looped_bytes = 1 << 10;
enum { PIECE = 64 << 10 };

void kvmill_gather_facts_set(const kvmill_gather *op, const struct kvmill_windows *windows,
                             struct kvmill_gather_facts *facts) {
    *facts = (struct kvmill_gather_facts){
        .windows = *windows,
        .element_bytes = kvmill_element_bytes(op->operand->dtype),
        .index = op->start_indices->dtype,
        .fills = op->mode != NULL && strcmp(op->mode, "fill") == 0,
    };
}

/* ---- Steps ---- */

static void dense_steps(int rank, const int64_t *dims, int64_t bytes, int64_t *steps) {
    bool overflow = false; /* possible for empty tensors; no element is addressed */
    for (int d = rank - 1; d >= 0; d--) {
        steps[d] = bytes;
        bytes = kvmill_times(bytes, dims[d], &overflow);
    }
}

static int indices_dims(const struct kvmill_windows *windows, int64_t dims[KVMILL_MOST_RANK]) {
    bool implicit = windows->vector_axis == KVMILL_NOT_THERE;
    for (int j = 0; j < windows->space_rank; j++)
        dims[windows->index_axis[j]] = windows->space[j];
    if (!implicit)
        dims[windows->vector_axis] = windows->components;
    return windows->space_rank + !implicit;
}

void kvmill_gather_dense_steps(const struct kvmill_gather_facts *facts,
                               struct kvmill_gather_steps *steps) {
    const struct kvmill_windows *windows = &facts->windows;
    int64_t result[KVMILL_MOST_RANK], indices[KVMILL_MOST_RANK];
    int rank = indices_dims(windows, indices);
    kvmill_gather_result(windows, result);
    dense_steps(windows->rank, windows->dim, facts->element_bytes, steps->operand);
    dense_steps(windows->windowed_rank, result, facts->element_bytes, steps->result);
    dense_steps(rank, indices, kvmill_element_bytes(facts->index), steps->indices);
}

/* ---- Loops ---- */

/* The axes of the index space; batching axes also move in the operand. */
static void add_space(const struct kvmill_windows *windows, const struct kvmill_gather_steps *steps,
                      struct loops *axes) {
    for (int j = 0; j < windows->space_rank; j++) {
        int64_t *step = kvmill_loops_add(axes, windows->space[j]);
        step[OPERAND] = 0;
        step[RESULT] = steps->result[windows->space_axis[j]];
        step[INDICES] = steps->indices[windows->index_axis[j]];
        for (int d = 0; d < windows->rank; d++)
            if (windows->batch[d] == j)
                step[OPERAND] = steps->operand[d];
    }
}

static void add_window(const struct kvmill_windows *windows,
                       const struct kvmill_gather_steps *steps, struct loops *loops) {
    for (int d = 0; d < windows->rank; d++) {
        if (windows->axis[d] == KVMILL_NOT_THERE)
            continue;
        int64_t *step = kvmill_loops_add(loops, windows->window[d]);
        step[OPERAND] = steps->operand[d];
        step[RESULT] = steps->result[windows->axis[d]];
    }
    kvmill_loops_merge(loops);
}

/* Remove the innermost loop if it is over adjacent bytes.  Returns their number. */
static int64_t take_bytes(struct loops *loops, int64_t element_bytes) {
    int last = loops->count - 1;
    bool overflow = false; /* never set, if the memory exists */
    if (last < 0 || loops->step[last][OPERAND] != element_bytes ||
        loops->step[last][RESULT] != element_bytes)
        return element_bytes;
    loops->count = last;
    return kvmill_times(loops->extent[last], element_bytes, &overflow);
}

/* Whether a number fits into a kernel's symbol. */
static bool is_constant(const struct loops *loops, int i) {
    const int64_t numbers[] = {loops->extent[i], loops->step[i][OPERAND], loops->step[i][RESULT]};
    for (int k = 0; k < 3; k++)
        if (numbers[k] < 1 || numbers[k] > INT32_MAX)
            return false;
    return true;
}

/* The first of the loops that remain part of the window. */
static int first_of_window(const struct loops *loops, int64_t bytes) {
    int first = loops->count;
    bool overflow = false; /* never set: the division prevents it */
    if (bytes > most_looped_bytes)
        return first;
    while (first > 0 && loops->count - first < KVMILL_MOST_WINDOW_LOOPS &&
           is_constant(loops, first - 1) &&
           bytes <= KVMILL_MOST_WINDOW_BYTES / loops->extent[first - 1]) {
        first--;
        bytes = kvmill_times(bytes, loops->extent[first], &overflow);
    }
    return first;
}

static void move_to_axes(const struct loops *loops, int count, struct loops *axes) {
    for (int i = 0; i < count; i++) {
        int64_t *step = kvmill_loops_add(axes, loops->extent[i]);
        step[OPERAND] = loops->step[i][OPERAND];
        step[RESULT] = loops->step[i][RESULT];
        step[INDICES] = 0;
    }
}

/* ---- The geometry ---- */

static void set_components(const struct kvmill_gather_facts *facts,
                           const struct kvmill_gather_steps *steps,
                           struct kvmill_gather_geometry *geometry) {
    const struct kvmill_windows *windows = &facts->windows;
    int vector = windows->vector_axis;
    int64_t step = vector == KVMILL_NOT_THERE ? 0 : steps->indices[vector];
    for (int d = 0; d < windows->rank; d++) {
        int64_t most = windows->dim[d] - windows->window[d];
        if (windows->component[d] == KVMILL_NOT_THERE || (most == 0 && !facts->fills))
            continue;
        geometry->component[geometry->shape.components++] = (struct kvmill_gather_component){
            .index = windows->component[d] * step, .most = most, .from = steps->operand[d]};
    }
}

/* If no index is read, its type and what is outside do not matter. */
static void forget_indices(struct kvmill_gather_shape *shape) {
    if (shape->components > 0)
        return;
    shape->index_bits = 64;
    shape->index_signed = 1;
    shape->fill = 0;
}

static void swap(struct loops *loops, int i, int j) {
    struct loops other = *loops;
    loops->extent[i] = other.extent[j];
    loops->extent[j] = other.extent[i];
    memcpy(loops->step[i], other.step[j], sizeof other.step[j]);
    memcpy(loops->step[j], other.step[i], sizeof other.step[i]);
}

/* Order the axes so that the result is written from beginning to end. */
static void sort_by_result(struct loops *axes) {
    for (int i = 1; i < axes->count; i++)
        for (int j = i; j > 0 && axes->step[j][RESULT] > axes->step[j - 1][RESULT]; j--)
            swap(axes, j, j - 1);
}

static void set_axes(struct loops *axes, struct kvmill_gather_geometry *geometry) {
    sort_by_result(axes);
    kvmill_loops_merge(axes);
    if (axes->count == 0)
        memset(kvmill_loops_add(axes, 1), 0, SIDES * sizeof(int64_t));
    geometry->axes = axes->count;
    for (int i = 0; i < axes->count; i++)
        geometry->axis[i] = (struct kvmill_gather_axis){.extent = axes->extent[i],
                                                        .index = axes->step[i][INDICES],
                                                        .from = axes->step[i][OPERAND],
                                                        .to = axes->step[i][RESULT]};
}

static void set_loops(const struct loops *loops, int first,
                      struct kvmill_gather_geometry *geometry) {
    for (int i = first; i < loops->count; i++)
        geometry->shape.loop[i - first] = (struct kvmill_window_loop){
            loops->extent[i], loops->step[i][OPERAND], loops->step[i][RESULT]};
}

static void set_pieces(int64_t bytes, struct kvmill_gather_geometry *geometry) {
    bool known = bytes <= KVMILL_MOST_KNOWN_BYTES;
    geometry->shape.bytes = known ? bytes : KVMILL_ANY;
    geometry->bytes = bytes;
    geometry->piece = known ? bytes : PIECE;
    geometry->pieces = known ? 1 : (bytes + PIECE - 1) / PIECE;
}

static int64_t count_result_bytes(const struct kvmill_gather_facts *facts) {
    const struct kvmill_windows *windows = &facts->windows;
    int64_t dims[KVMILL_MOST_RANK];
    bool overflow = false; /* never set, if the memory exists */
    kvmill_gather_result(windows, dims);
    return kvmill_times(kvmill_count_of(dims, windows->windowed_rank), facts->element_bytes,
                        &overflow);
}

void kvmill_gather_fold(const struct kvmill_gather_facts *facts,
                        const struct kvmill_gather_steps *steps,
                        struct kvmill_gather_geometry *geometry) {
    struct loops axes = {.sides = SIDES}, loops = {.sides = RESULT + 1};
    *geometry = (struct kvmill_gather_geometry){
        .shape = {.index_bits = facts->index.bits,
                  .index_signed = facts->index.code == kDLInt,
                  .fill = facts->fills},
        .result_bytes = count_result_bytes(facts),
    };
    if (geometry->result_bytes == 0)
        return;
    add_space(&facts->windows, steps, &axes);
    add_window(&facts->windows, steps, &loops);
    int64_t bytes = take_bytes(&loops, facts->element_bytes);
    set_pieces(bytes, geometry);
    int first = first_of_window(&loops, bytes);
    move_to_axes(&loops, first, &axes);
    set_loops(&loops, first, geometry);
    set_axes(&axes, geometry);
    set_components(facts, steps, geometry);
    forget_indices(&geometry->shape);
}

int64_t kvmill_gather_units(const struct kvmill_gather_geometry *geometry) {
    int64_t units = geometry->result_bytes > 0 ? geometry->pieces : 0;
    bool overflow = false; /* never set: there are at least that many bytes */
    for (int64_t a = 0; units > 0 && a < geometry->axes; a++)
        units = kvmill_times(units, geometry->axis[a].extent, &overflow);
    return units;
}
