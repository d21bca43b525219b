/* Scatters of every type, region and stride.  They run if no pack has a kernel that fits.

   The outer axes of updates are walked in row-major order.  The loops over a window have no checks,
   because the part of the window that is inside the result is computed first.  So every element of
   a result gets its updates in row-major order.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/extent.h"
#include "../core/loops_walk.h"
#include "../core/tensor.h"
#include "../ops/scatter_plan.h"

/* A part in progress.  The sides of loops are results and updates. */
struct work {
    const struct scatter_plan *plan;
    const struct kvmill_windows *windows;
    const struct scatter_call *call;
    const DLTensor *indices;
    int64_t component_step;
    int64_t own_first, own_last;                             /* of axis plan->split */
    int64_t first[KVMILL_MOST_RANK], last[KVMILL_MOST_RANK]; /* of outer axes of updates */
    int64_t element_bytes;                                   /* if updates just replace */
    struct kvmill_scalar values[KVMILL_MOST_REGION_VALUES];
};

/* The part of a window that is applied: for each operand axis, window coordinates [from, to). */
struct box {
    int64_t base[KVMILL_MOST_RANK]; /* operand coordinate of window coordinate 0 */
    int64_t from[KVMILL_MOST_RANK], to[KVMILL_MOST_RANK];
};

/* Restrict a window of `extent` from `start` on to [0, dim). */
static void clip(int64_t start, int64_t extent, int64_t dim, int64_t *from, int64_t *to) {
    *from = *to = 0;
    if (start >= dim || start <= -extent)
        return;
    *from = start < 0 ? -start : 0;
    *to = start > dim - extent ? dim - start : extent;
}

/* Restrict it to what this part owns. */
static void clip_to_own(const struct work *work, struct box *box) {
    int d = work->plan->split;
    int64_t first = work->own_first - box->base[d], last = work->own_last - box->base[d];
    if (box->from[d] < first)
        box->from[d] = first;
    if (box->to[d] > last)
        box->to[d] = last;
}

static int64_t start_of(const struct work *work, int d, const int64_t *turn,
                        const unsigned char *vector) {
    const struct kvmill_windows *windows = work->windows;
    if (windows->batch[d] != KVMILL_NOT_THERE)
        return turn[windows->space_axis[windows->batch[d]]];
    if (windows->component[d] == KVMILL_NOT_THERE)
        return 0;
    return kvmill_load_index(work->indices->dtype,
                             vector + windows->component[d] * work->component_step);
}

/* false if nothing of the window is applied.  turn: coordinates of the outer axes. */
static bool set_box(const struct work *work, const int64_t *turn, const unsigned char *vector,
                    struct box *box) {
    const struct kvmill_windows *windows = work->windows;
    for (int d = 0; d < windows->rank; d++) {
        int64_t extent = windows->window[d];
        box->base[d] = start_of(work, d, turn, vector);
        clip(box->base[d], extent, windows->dim[d], &box->from[d], &box->to[d]);
        if (box->from[d] >= box->to[d] ||
            (work->plan->skip_window && box->to[d] - box->from[d] < extent))
            return false;
    }
    if (work->plan->split != KVMILL_NOT_THERE)
        clip_to_own(work, box);
    return true;
}

/* For an outer axis of a window, the coordinate is given. */
static bool fix_outer(const struct work *work, const int64_t *turn, struct box *box) {
    const struct kvmill_windows *windows = work->windows;
    for (int d = 0; d < windows->rank; d++) {
        int axis = windows->axis[d];
        if (axis != KVMILL_NOT_THERE && axis < work->plan->outer) {
            if (turn[axis] < box->from[d] || turn[axis] >= box->to[d])
                return false;
            box->from[d] = turn[axis];
            box->to[d] = turn[axis] + 1;
        }
        if (box->from[d] >= box->to[d])
            return false;
    }
    return true;
}

/* Move `at` along operand axis d to where the box begins.  Returns the steps of a loop over it, if
 * there is one. */
static void walk_box(const struct work *work, const struct box *box, int d, int64_t *step,
                     unsigned char **at) {
    const struct scatter_plan *plan = work->plan;
    int axis = work->windows->axis[d];
    for (int i = 0; i < plan->count; i++) {
        int64_t result = kvmill_unpacked_step(work->call->tensors[scatter_result_at(plan, i)], d);
        const DLTensor *updates = work->call->tensors[scatter_update_at(plan, i)];
        int64_t update = axis == KVMILL_NOT_THERE ? 0 : kvmill_unpacked_step(updates, axis);
        bool is_inner = axis != KVMILL_NOT_THERE && axis >= plan->outer;
        if (step != NULL) {
            step[i] = result;
            step[plan->count + i] = update;
        }
        at[i] += (box->base[d] + box->from[d]) * result;
        if (is_inner)
            at[plan->count + i] += box->from[d] * update;
    }
}

/* A body: the region, element by element. */
static void apply_elements(const void *context, unsigned char *const *at, int64_t count,
                           const int64_t *step) {
    struct work *work = (struct work *)(uintptr_t)context;
    const struct scatter_plan *plan = work->plan;
    const struct kvmill_program *program = &plan->program;
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < plan->count; i++) {
            const kvmill_element_type *type = &program->type[i];
            int update = plan->count + i;
            work->values[i] = kvmill_scalar_load(type->dtype, at[i] + k * step[i]);
            work->values[update] = kvmill_scalar_convert(
                &plan->input[i], &program->type[update],
                kvmill_scalar_load(plan->input[i].dtype, at[update] + k * step[update]));
        }
        kvmill_program_run(program, work->values);
        for (int i = 0; i < plan->count; i++)
            kvmill_scalar_store(program->type[i].dtype, work->values[program->result[i]],
                                at[i] + k * step[i]);
    }
}

/* If updates of a slot just replace, results are side 1 of a copy. */
static void replace_elements(const void *context, unsigned char *const *at, int64_t count,
                             const int64_t *step) {
    unsigned char *const swapped[2] = {at[1], at[0]};
    const int64_t swapped_step[2] = {step[1], step[0]};
    kvmill_copy_elements(context, swapped, count, swapped_step);
}

static const unsigned char *vector_of(const struct work *work, const int64_t *turn) {
    const struct kvmill_windows *windows = work->windows;
    const unsigned char *vector = tensor_data(work->indices);
    bool overflow = false; /* never set: it is reachable */
    for (int j = 0; j < windows->space_rank; j++)
        vector +=
            kvmill_times(turn[windows->space_axis[j]],
                         kvmill_unpacked_step(work->indices, windows->index_axis[j]), &overflow);
    return vector;
}

/* Where results begin, and the updates of this turn. */
static void set_bases(const struct work *work, const int64_t *turn, unsigned char **at) {
    const struct scatter_plan *plan = work->plan;
    bool overflow = false; /* never set: it is reachable */
    for (int i = 0; i < plan->count; i++) {
        const DLTensor *updates = work->call->tensors[scatter_update_at(plan, i)];
        at[i] = tensor_data(work->call->tensors[scatter_result_at(plan, i)]);
        at[plan->count + i] = tensor_data(updates);
        for (int r = 0; r < plan->outer; r++)
            at[plan->count + i] +=
                kvmill_times(turn[r], kvmill_unpacked_step(updates, r), &overflow);
    }
}

/* Set the loops over axes inside the outer ones; `at` is moved to where they begin. */
static void set_loops(const struct work *work, const struct box *box, struct loops *loops,
                      unsigned char **at) {
    const struct kvmill_windows *windows = work->windows;
    for (int d = 0; d < windows->rank; d++) {
        bool is_inner =
            windows->axis[d] != KVMILL_NOT_THERE && windows->axis[d] >= work->plan->outer;
        int64_t *step = is_inner ? kvmill_loops_add(loops, box->to[d] - box->from[d]) : NULL;
        walk_box(work, box, d, step, at);
    }
    kvmill_loops_merge(loops);
}

/* One turn of the outer axes. */
static void apply_turn(struct work *work, const int64_t *turn) {
    const struct scatter_plan *plan = work->plan;
    unsigned char *at[KVMILL_MOST_SIDES];
    struct loops loops;
    struct box box;
    loops.count = 0;
    loops.sides = 2 * plan->count;
    if (!set_box(work, turn, vector_of(work, turn), &box) || !fix_outer(work, turn, &box))
        return;
    set_bases(work, turn, at);
    set_loops(work, &box, &loops, at);
    if (plan->replaces && plan->count == 1)
        kvmill_loops_walk(&loops, at, replace_elements, &work->element_bytes);
    else
        kvmill_loops_walk(&loops, at, apply_elements, work);
}

/* Set the first turn; false if there is none. */
static bool first_turn(struct work *work, int64_t *turn) {
    const struct scatter_plan *plan = work->plan;
    const DLTensor *updates = work->call->tensors[scatter_update_at(plan, 0)];
    bool some = true;
    for (int r = 0; r < plan->outer; r++) {
        bool all = r != plan->own_axis;
        work->first[r] = all ? 0 : work->own_first;
        work->last[r] =
            all || work->own_last > updates->shape[r] ? updates->shape[r] : work->own_last;
        turn[r] = work->first[r];
        some = some && work->first[r] < work->last[r];
    }
    return some;
}

/* Set the next turn, in row-major order; false after the last. */
static bool next_turn(const struct work *work, int64_t *turn) {
    for (int r = work->plan->outer - 1; r >= 0; r--) {
        if (++turn[r] < work->last[r])
            return true;
        turn[r] = work->first[r];
    }
    return false;
}

static void load_captures(struct work *work) {
    const struct scatter_plan *plan = work->plan;
    struct kvmill_scalar captures[KVMILL_MOST_CAPTURES];
    for (int i = 0; i < plan->captures; i++) {
        const DLTensor *capture = work->call->tensors[scatter_capture_at(plan, i)];
        captures[i] = kvmill_scalar_load(capture->dtype, tensor_data(capture));
    }
    kvmill_program_begin(&plan->program, captures, work->values);
}

static void run_scatter(const void *problem, int64_t first, int64_t last) {
    const struct scatter_part *part = problem;
    const struct scatter_call *call = part->call;
    const struct scatter_plan *plan = scatter_plan_of(call);
    int64_t turn[KVMILL_MOST_RANK] = {0};
    struct work work = {
        .plan = plan,
        .windows = &plan->windows,
        .call = call,
        .indices = call->tensors[scatter_indices_at(plan)],
        .own_first = part->own_first,
        .own_last = part->own_last,
        .element_bytes = kvmill_element_bytes(plan->input[0].dtype),
    };
    (void)first, (void)last;
    if (plan->windows.vector_axis != KVMILL_NOT_THERE)
        work.component_step = kvmill_unpacked_step(work.indices, plan->windows.vector_axis);
    load_captures(&work);
    if (!first_turn(&work, turn))
        return;
    do
        apply_turn(&work, turn);
    while (next_turn(&work, turn));
}

const struct kvmill_kernel kvmill_portable_scatter = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCATTER,
    .symbol = "kvmill_portable_scatter",
    .isa = "portable",
    .run = run_scatter,
};

const struct kvmill_kernel kvmill_portable_scatter_region = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCATTER_REGION,
    .symbol = "kvmill_portable_scatter_region",
    .isa = "portable",
    .run = run_scatter,
};
