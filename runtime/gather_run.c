/* Running stablehlo.gather: for every point of the index space a window is copied, or filled.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/fail.h"
#include "gather.h"
#include "loops.h"
#include "tensor.h"

static const struct gather_call *call_of(const struct call *call) {
    return (const struct gather_call *)(const void *)call;
}

static const struct gather_plan *plan_of(const struct gather_call *call) {
    return (const struct gather_plan *)(const void *)call->base.plan;
}

kvmill_status kvmill_gather_begin(struct call *base, const DLTensor *const *tensors,
                                  kvmill_error *error) {
    struct gather_call *call = (struct gather_call *)(void *)base;
    const struct gather_plan *plan = plan_of(call);
    kvmill_status status = kvmill_shaped_check(plan->shaped, KVMILL_GATHER_TENSORS, tensors, error);
    if (status == KVMILL_OK)
        memcpy(call->tensors, tensors, sizeof call->tensors);
    return status;
}

int64_t kvmill_gather_parts(const struct call *call) {
    return plan_of(call_of(call))->parts;
}

/* ---- Windows ---- */

/* A part at work. */
struct work {
    const struct gather_plan *plan;
    const struct kvmill_windows *windows;
    const DLTensor *operand, *indices, *result;
    struct loops loops; /* over a window: operand, result */
    int64_t component_step;
};

static void set_loops(struct work *work) {
    const struct kvmill_windows *windows = work->windows;
    work->loops.count = 0;
    work->loops.sides = 2;
    for (int d = 0; d < windows->rank; d++) {
        if (windows->axis[d] == KVMILL_NOT_THERE)
            continue;
        int64_t *step = kvmill_loops_add(&work->loops, windows->window[d]);
        step[0] = kvmill_shaped_step(work->operand, d);
        step[1] = kvmill_shaped_step(work->result, windows->axis[d]);
    }
    kvmill_loops_merge(&work->loops);
}

static int64_t clamp(int64_t start, int64_t most) {
    return start < 0 ? 0 : start > most ? most : start;
}

/* Bytes from the operand's first element to where the window begins; `point` is a place in the
   index space and `vector` its index vector.  *outside: some start had to be clamped. */
static int64_t window_offset(const struct work *work, const int64_t *point,
                             const unsigned char *vector, bool *outside) {
    const struct kvmill_windows *windows = work->windows;
    int64_t offset = 0;
    *outside = false;
    for (int d = 0; d < windows->rank; d++) {
        int64_t at = 0, most = windows->dim[d] - windows->window[d];
        if (windows->batch[d] != KVMILL_NOT_THERE)
            at = point[windows->batch[d]];
        if (windows->component[d] != KVMILL_NOT_THERE) {
            int64_t start = kvmill_load_index(
                work->indices->dtype, vector + windows->component[d] * work->component_step);
            at = clamp(start, most);
            *outside |= at != start;
        }
        offset += at * kvmill_shaped_step(work->operand, d);
    }
    return offset;
}

/* A body: side 0 is not looked at. */
static void fill_elements(const void *context, unsigned char *const *at, int64_t count,
                          const int64_t *step) {
    const struct gather_plan *plan = context;
    for (int64_t i = 0; i < count; i++)
        memcpy(at[1] + i * step[1], plan->fill, (size_t)plan->element_bytes);
}

static void gather_window(const struct work *work, const int64_t *point) {
    const struct kvmill_windows *windows = work->windows;
    unsigned char *vector = tensor_data(work->indices);
    unsigned char *base[2] = {tensor_data(work->operand), tensor_data(work->result)};
    bool outside;
    for (int j = 0; j < windows->space_rank; j++) {
        vector += point[j] * kvmill_shaped_step(work->indices, windows->index_axis[j]);
        base[1] += point[j] * kvmill_shaped_step(work->result, windows->space_axis[j]);
    }
    base[0] += window_offset(work, point, vector, &outside);
    if (outside && work->plan->fills)
        kvmill_loops_walk(&work->loops, base, fill_elements, work->plan);
    else
        kvmill_loops_walk(&work->loops, base, kvmill_copy_elements, &work->plan->element_bytes);
}

/* ---- Parts: ranges of points, row-major ---- */

static void set_point(const struct kvmill_windows *windows, int64_t number, int64_t *point) {
    for (int j = windows->space_rank - 1; j >= 0; j--) {
        point[j] = number % windows->space[j];
        number /= windows->space[j];
    }
}

static void next_point(const struct kvmill_windows *windows, int64_t *point) {
    for (int j = windows->space_rank - 1; j >= 0; j--) {
        if (++point[j] < windows->space[j])
            return;
        point[j] = 0;
    }
}

static int64_t boundary(const struct gather_plan *plan, int64_t part) {
    return plan->points / plan->parts * part +
           (part < plan->points % plan->parts ? part : plan->points % plan->parts);
}

void kvmill_gather_part(const struct call *base, int64_t part) {
    const struct gather_call *call = call_of(base);
    const struct gather_plan *plan = plan_of(call);
    int64_t point[KVMILL_MOST_RANK] = {0};
    struct work work = {
        .plan = plan,
        .windows = &plan->windows,
        .operand = call->tensors[KVMILL_OPERAND],
        .indices = call->tensors[KVMILL_START_INDICES],
        .result = call->tensors[KVMILL_RESULT],
    };
    if (plan->windows.vector_axis != KVMILL_NOT_THERE)
        work.component_step = kvmill_shaped_step(work.indices, plan->windows.vector_axis);
    set_loops(&work);
    set_point(&plan->windows, boundary(plan, part), point);
    for (int64_t i = boundary(plan, part); i < boundary(plan, part + 1); i++) {
        gather_window(&work, point);
        next_point(&plan->windows, point);
    }
}
