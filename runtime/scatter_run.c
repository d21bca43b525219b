/* Running stablehlo.scatter.

   The outer axes of updates are walked in row-major order, windows inside them by loops without
   checks: what of a window lies inside is known before.  So every element of a result sees its
   updates in row-major order.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/fail.h"
#include "loops.h"
#include "scatter.h"
#include "tensor.h"

enum { COPY, APPLY };

static const struct scatter_call *call_of(const struct call *call) {
    return (const struct scatter_call *)(const void *)call;
}

static const struct scatter_plan *plan_of(const struct scatter_call *call) {
    return (const struct scatter_plan *)(const void *)call->base.plan;
}

/* ---- Beginning ---- */

static bool is_in_place(const struct scatter_plan *plan, const DLTensor *const *tensors, int i) {
    return kvmill_tensor_is_same_memory(tensors[i], tensors[scatter_result_at(plan, i)]);
}

/* All inputs or none. */
static kvmill_status check_in_place(const struct scatter_plan *plan, const DLTensor *const *tensors,
                                    kvmill_error *error) {
    for (int i = 1; plan->elements > 0 && i < plan->count; i++)
        if (is_in_place(plan, tensors, i) != is_in_place(plan, tensors, 0))
            return kvmill_fail(
                error, KVMILL_E_ALIAS,
                "results[%d] is %sin place and results[0] is not alike; accepted: all in "
                "place, or none",
                i, is_in_place(plan, tensors, i) ? "" : "not ");
    return KVMILL_OK;
}

kvmill_status kvmill_scatter_begin(struct call *base, const DLTensor *const *tensors,
                                   kvmill_error *error) {
    struct scatter_call *call = (struct scatter_call *)(void *)base;
    const struct scatter_plan *plan = plan_of(call);
    kvmill_status status = kvmill_shaped_check(plan->shaped, plan->tensors, tensors, error);
    if (status == KVMILL_OK)
        status = check_in_place(plan, tensors, error);
    if (status != KVMILL_OK)
        return status;
    memcpy(call->tensors, tensors, (size_t)plan->tensors * sizeof *tensors);
    call->phase = is_in_place(plan, tensors, 0) ? APPLY : COPY;
    return KVMILL_OK;
}

int64_t kvmill_scatter_parts(const struct call *base) {
    const struct scatter_call *call = call_of(base);
    return call->phase == COPY ? plan_of(call)->copy_parts : plan_of(call)->apply_parts;
}

bool kvmill_scatter_next(struct call *base) {
    struct scatter_call *call = (struct scatter_call *)(void *)base;
    return call->phase++ == COPY;
}

/* The part's share of `units`. */
static int64_t boundary(int64_t units, int64_t parts, int64_t part) {
    int64_t more = units % parts;
    return units / parts * part + (part < more ? part : more);
}

/* ---- Copying inputs to results ---- */

struct conversion {
    const kvmill_element_type *from, *to;
};

static void convert_elements(const void *context, unsigned char *const *at, int64_t count,
                             const int64_t *step) {
    const struct conversion *conversion = context;
    for (int64_t i = 0; i < count; i++) {
        struct kvmill_scalar value =
            kvmill_scalar_load(conversion->from->dtype, at[0] + i * step[0]);
        kvmill_scalar_store(conversion->to->dtype,
                            kvmill_scalar_convert(conversion->from, conversion->to, value),
                            at[1] + i * step[1]);
    }
}

/* Elements [first, last) in row-major order, the innermost axis in pieces. */
static void copy_elements(const struct scatter_plan *plan, const DLTensor *input,
                          const DLTensor *result, int slot, int64_t first, int64_t last) {
    int rank = input->ndim;
    int64_t row = rank ? input->shape[rank - 1] : 1;
    int64_t bytes = kvmill_element_bytes(input->dtype);
    struct conversion conversion = {&plan->input[slot],
                                    &plan->program.type[plan->program.result[slot]]};
    int64_t step[2] = {rank ? kvmill_shaped_step(input, rank - 1) : 0,
                       rank ? kvmill_shaped_step(result, rank - 1) : 0};
    while (first < last) {
        int64_t rest = first / (row ? row : 1), column = first % row;
        int64_t count = row - column < last - first ? row - column : last - first;
        unsigned char *at[2] = {tensor_data(input) + column * step[0],
                                tensor_data(result) + column * step[1]};
        for (int d = rank - 2; d >= 0; d--) {
            at[0] += rest % input->shape[d] * kvmill_shaped_step(input, d);
            at[1] += rest % input->shape[d] * kvmill_shaped_step(result, d);
            rest /= input->shape[d];
        }
        if (plan->converts)
            convert_elements(&conversion, at, count, step);
        else
            kvmill_copy_elements(&bytes, at, count, step);
        first += count;
    }
}

static void copy_part(const struct scatter_call *call, int64_t part) {
    const struct scatter_plan *plan = plan_of(call);
    for (int i = 0; i < plan->count; i++)
        copy_elements(plan, call->tensors[i], call->tensors[scatter_result_at(plan, i)], i,
                      boundary(plan->elements, plan->copy_parts, part),
                      boundary(plan->elements, plan->copy_parts, part + 1));
}

/* ---- Applying updates ---- */

/* A part at work.  Sides of loops: results, then updates. */
struct work {
    const struct scatter_plan *plan;
    const struct kvmill_windows *windows;
    const struct scatter_call *call;
    const DLTensor *indices;
    int64_t component_step;
    int64_t own_first, own_last;                             /* of axis plan->split */
    int64_t first[KVMILL_MOST_RANK], last[KVMILL_MOST_RANK]; /* of outer axes of updates */
    int64_t element_bytes;                                   /* where updates just replace */
    struct kvmill_scalar values[KVMILL_MOST_REGION_VALUES];
};

/* What of a window is applied: for each operand axis, window coordinates [from, to). */
struct box {
    int64_t base[KVMILL_MOST_RANK]; /* operand coordinate of window coordinate 0 */
    int64_t from[KVMILL_MOST_RANK], to[KVMILL_MOST_RANK];
};

/* The part of a window of `extent` from `start` on that lies in [0, dim). */
static void clip(int64_t start, int64_t extent, int64_t dim, int64_t *from, int64_t *to) {
    *from = *to = 0;
    if (start >= dim || start <= -extent)
        return;
    *from = start < 0 ? -start : 0;
    *to = start > dim - extent ? dim - start : extent;
}

/* Only what this part owns. */
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

/* false: nothing of the window is applied.  turn: coordinates of the outer axes. */
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
    if (work->plan->apply_parts > 1)
        clip_to_own(work, box);
    return true;
}

/* An outer axis of a window: its coordinate is given. */
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

/* Move `at` along operand axis d to where the box begins; the steps of a loop over it, if there is
 * one. */
static void walk_box(const struct work *work, const struct box *box, int d, int64_t *step,
                     unsigned char **at) {
    const struct scatter_plan *plan = work->plan;
    int axis = work->windows->axis[d];
    for (int i = 0; i < plan->count; i++) {
        int64_t result = kvmill_shaped_step(work->call->tensors[scatter_result_at(plan, i)], d);
        const DLTensor *updates = work->call->tensors[scatter_update_at(plan, i)];
        int64_t update = axis == KVMILL_NOT_THERE ? 0 : kvmill_shaped_step(updates, axis);
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

/* Where one slot's updates just replace, results take the place of a copy's side 1. */
static void replace_elements(const void *context, unsigned char *const *at, int64_t count,
                             const int64_t *step) {
    unsigned char *const swapped[2] = {at[1], at[0]};
    const int64_t swapped_step[2] = {step[1], step[0]};
    kvmill_copy_elements(context, swapped, count, swapped_step);
}

static const unsigned char *vector_of(const struct work *work, const int64_t *turn) {
    const struct kvmill_windows *windows = work->windows;
    const unsigned char *vector = tensor_data(work->indices);
    for (int j = 0; j < windows->space_rank; j++)
        vector += turn[windows->space_axis[j]] *
                  kvmill_shaped_step(work->indices, windows->index_axis[j]);
    return vector;
}

/* Where results begin, and the updates of this turn. */
static void set_bases(const struct work *work, const int64_t *turn, unsigned char **at) {
    const struct scatter_plan *plan = work->plan;
    for (int i = 0; i < plan->count; i++) {
        const DLTensor *updates = work->call->tensors[scatter_update_at(plan, i)];
        at[i] = tensor_data(work->call->tensors[scatter_result_at(plan, i)]);
        at[plan->count + i] = tensor_data(updates);
        for (int r = 0; r < plan->outer; r++)
            at[plan->count + i] += turn[r] * kvmill_shaped_step(updates, r);
    }
}

/* Loops over what is inside the outer axes; `at` is moved to where they begin. */
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

/* The axis of updates along which the part's own targets lie, if there is one among the outer axes.
 */
static int own_axis(const struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    int d = plan->split, axis = KVMILL_NOT_THERE;
    if (plan->apply_parts > 1 && windows->batch[d] != KVMILL_NOT_THERE)
        axis = windows->space_axis[windows->batch[d]];
    else if (plan->apply_parts > 1 && windows->component[d] == KVMILL_NOT_THERE)
        axis = windows->axis[d];
    return axis < plan->outer ? axis : KVMILL_NOT_THERE;
}

/* The first turn; false: there is none. */
static bool first_turn(struct work *work, int64_t *turn) {
    const struct scatter_plan *plan = work->plan;
    const DLTensor *updates = work->call->tensors[scatter_update_at(plan, 0)];
    int own = own_axis(plan);
    bool some = true;
    for (int r = 0; r < plan->outer; r++) {
        bool all = r != own;
        work->first[r] = all ? 0 : work->own_first;
        work->last[r] =
            all || work->own_last > updates->shape[r] ? updates->shape[r] : work->own_last;
        turn[r] = work->first[r];
        some = some && work->first[r] < work->last[r];
    }
    return some;
}

/* In row-major order; false behind the last. */
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

static void apply_part(const struct scatter_call *call, int64_t part) {
    const struct scatter_plan *plan = plan_of(call);
    int64_t turn[KVMILL_MOST_RANK] = {0};
    struct work work = {
        .plan = plan,
        .windows = &plan->windows,
        .call = call,
        .indices = call->tensors[scatter_indices_at(plan)],
        .element_bytes = kvmill_element_bytes(plan->input[0].dtype),
    };
    if (plan->windows.vector_axis != KVMILL_NOT_THERE)
        work.component_step = kvmill_shaped_step(work.indices, plan->windows.vector_axis);
    if (plan->apply_parts > 1) {
        int64_t dim = plan->windows.dim[plan->split];
        work.own_first = boundary(dim, plan->apply_parts, part);
        work.own_last = boundary(dim, plan->apply_parts, part + 1);
    }
    load_captures(&work);
    if (!first_turn(&work, turn))
        return;
    do
        apply_turn(&work, turn);
    while (next_turn(&work, turn));
}

void kvmill_scatter_part(const struct call *base, int64_t part) {
    const struct scatter_call *call = call_of(base);
    if (call->phase == COPY)
        copy_part(call, part);
    else
        apply_part(call, part);
}
