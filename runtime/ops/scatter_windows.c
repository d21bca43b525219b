/* A scatter as loops over points and windows, in the form that generated kernels take.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/extent.h"
#include "../core/loops_walk.h"
#include "../core/tensor.h"
#include "scatter_plan.h"

/* What is asked of everywhere. */
struct view {
    struct scatter_part *part;
    const struct scatter_plan *plan;
    const struct kvmill_windows *windows;
    const DLTensor *result, *updates, *indices;
};

static struct view view_of(struct scatter_part *part, int slot) {
    const struct scatter_call *call = part->call;
    const struct scatter_plan *plan = scatter_plan_of(call);
    return (struct view){.part = part,
                         .plan = plan,
                         .windows = &plan->windows,
                         .result = call->tensors[scatter_result_at(plan, slot)],
                         .updates = call->tensors[scatter_update_at(plan, slot)],
                         .indices = call->tensors[scatter_indices_at(plan)]};
}

static bool is_inner(const struct view *view, int d) {
    int axis = view->windows->axis[d];
    return axis != KVMILL_NOT_THERE && axis >= view->plan->outer;
}

static bool is_moved(const struct view *view, int d) {
    return view->windows->component[d] != KVMILL_NOT_THERE;
}

/* The loops of a window over adjacent elements. */
enum { RESULT, UPDATES, INDICES };

/* Restrict a loop to the coordinates [first, last); false if there are none. */
static bool begin_at(struct view *view, int64_t *step, int64_t first, int64_t last) {
    struct kvmill_scatter_windows *p = &view->part->slots.windows;
    p->result += first * step[RESULT];
    p->updates += first * step[UPDATES];
    p->indices += first * step[INDICES];
    return first < last;
}

static void copy_loops(const struct loops *loops, struct kvmill_scatter_loop *to, int32_t *count) {
    *count = loops->count;
    for (int i = 0; i < loops->count; i++)
        to[i] = (struct kvmill_scatter_loop){loops->extent[i], loops->step[i][RESULT],
                                             loops->step[i][UPDATES], loops->step[i][INDICES]};
}

/* ---- Points: the outer axes of updates ---- */

static int64_t index_step(const struct view *view, int axis) {
    const struct kvmill_windows *windows = view->windows;
    for (int j = 0; j < windows->space_rank; j++)
        if (windows->space_axis[j] == axis)
            return kvmill_unpacked_step(view->indices, windows->index_axis[j]);
    return 0;
}

/* The axis of the result that moves with an axis of updates: of the window, or of the batching
 * pair. */
static int64_t result_step(const struct view *view, int axis) {
    const struct kvmill_windows *windows = view->windows;
    for (int d = 0; d < windows->rank; d++)
        if (windows->axis[d] == axis || (windows->batch[d] != KVMILL_NOT_THERE &&
                                         windows->space_axis[windows->batch[d]] == axis))
            return kvmill_unpacked_step(view->result, d);
    return 0;
}

static bool add_point_loop(struct view *view, struct loops *loops, int axis) {
    int64_t first = 0, last = view->updates->shape[axis];
    if (axis == view->plan->own_axis) {
        first = view->part->own_first;
        last = kvmill_min(last, view->part->own_last);
    }
    int64_t *step = kvmill_loops_add(loops, last - first);
    step[RESULT] = result_step(view, axis);
    step[UPDATES] = kvmill_unpacked_step(view->updates, axis);
    step[INDICES] = index_step(view, axis);
    return begin_at(view, step, first, last);
}

/* Starts are added to the turns of outer window axes, whose loops do not change. */
static bool has_moved_points(const struct view *view) {
    for (int d = 0; d < view->windows->rank; d++)
        if (is_moved(view, d) && view->windows->axis[d] != KVMILL_NOT_THERE && !is_inner(view, d))
            return true;
    return false;
}

static bool set_points(struct view *view) {
    struct kvmill_scatter_windows *p = &view->part->slots.windows;
    struct loops loops;
    loops.count = 0;
    loops.sides = 3;
    for (int axis = 0; axis < view->plan->outer; axis++)
        if (!add_point_loop(view, &loops, axis))
            return false;
    if (!has_moved_points(view))
        kvmill_loops_merge(&loops);
    copy_loops(&loops, p->point, &p->point_loops);
    if (p->point_loops == 0)
        p->point[p->point_loops++] = (struct kvmill_scatter_loop){1, 0, 0, 0};
    return true;
}

/* ---- Windows ---- */

/* Axes that an index moves are clipped later. */
static bool add_window_loop(struct view *view, struct loops *loops, int d) {
    bool owns = view->plan->split == d && !is_moved(view, d);
    int64_t first = owns ? view->part->own_first : 0, last = view->windows->window[d];
    if (owns)
        last = kvmill_min(last, view->part->own_last);
    int64_t *step = kvmill_loops_add(loops, last - first);
    step[RESULT] = kvmill_unpacked_step(view->result, d);
    step[UPDATES] = kvmill_unpacked_step(view->updates, view->windows->axis[d]);
    step[INDICES] = 0;
    return begin_at(view, step, first, last);
}

static bool is_row(const struct kvmill_scatter_loop *loop, int64_t count, int64_t bytes) {
    return loop->count == count && loop->result_step == bytes && loop->update_step == bytes;
}

static bool set_window(struct view *view, const struct kvmill_scatter_shape *shape) {
    struct kvmill_scatter_windows *p = &view->part->slots.windows;
    struct loops loops;
    loops.count = 0;
    loops.sides = 3;
    for (int d = 0; d < view->windows->rank; d++)
        if (is_inner(view, d) && !add_window_loop(view, &loops, d))
            return false;
    copy_loops(&loops, p->window, &p->window_loops);
    kvmill_loops_merge(&loops);
    copy_loops(&loops, p->rows, &p->row_loops);
    p->fits =
        shape != NULL && p->row_loops > 0 &&
        is_row(&p->rows[p->row_loops - 1], shape->row, kvmill_element_bytes(view->result->dtype));
    return true;
}

/* ---- Index components ---- */

static struct kvmill_scatter_start start_of(const struct view *view, int d, int32_t axis) {
    const struct kvmill_windows *windows = view->windows;
    bool owns = view->plan->split == d, inner = is_inner(view, d);
    int64_t component_step = windows->vector_axis == KVMILL_NOT_THERE
                                 ? 0
                                 : kvmill_unpacked_step(view->indices, windows->vector_axis);
    return (struct kvmill_scatter_start){
        .index_offset = windows->component[d] * component_step,
        .result_step = kvmill_unpacked_step(view->result, d),
        .low = owns ? view->part->own_first : 0,
        .high = owns ? view->part->own_last : windows->dim[d],
        .extent = inner ? windows->window[d] : 1,
        .most =
            view->plan->skip_window ? (uint64_t)(windows->dim[d] - windows->window[d]) : UINT64_MAX,
        .point = inner ? -1 : windows->axis[d],
        .axis = inner ? axis : -1,
    };
}

static void set_starts(const struct view *view) {
    struct kvmill_scatter_windows *p = &view->part->slots.windows;
    int32_t starts = 0, axis = 0;
    for (int d = 0; d < view->windows->rank; d++) {
        if (is_moved(view, d))
            p->start[starts++] = start_of(view, d, axis);
        axis += is_inner(view, d);
    }
}

/* Windows begin at 0 along an axis that they do not have. */
static bool owns_dropped(const struct view *view) {
    int d = view->plan->split;
    return d == KVMILL_NOT_THERE || is_moved(view, d) ||
           view->windows->batch[d] != KVMILL_NOT_THERE ||
           view->windows->axis[d] != KVMILL_NOT_THERE || view->part->own_first == 0;
}

bool kvmill_scatter_windows_set(struct scatter_part *part, int slot) {
    struct view view = view_of(part, slot);
    struct kvmill_scatter_windows *p = &part->slots.windows;
    const struct kvmill_kernel *kernel = view.plan->kernel[slot];
    p->shape = kernel->family == KVMILL_SCATTER ? kernel->shape : NULL;
    p->result = tensor_data(view.result);
    p->updates = tensor_data(view.updates);
    p->indices = tensor_data(view.indices);
    if (!owns_dropped(&view) || !set_points(&view) || !set_window(&view, p->shape))
        return false;
    set_starts(&view);
    return true;
}

/* ---- All inputs together ---- */

static bool lies_alike(const DLTensor *a, const DLTensor *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] > 1 && kvmill_tensor_stride(a, d) != kvmill_tensor_stride(b, d))
            return false;
    return true;
}

bool kvmill_scatter_slots_fit(const struct scatter_call *call) {
    const struct scatter_plan *plan = scatter_plan_of(call);
    const DLTensor *const *tensors = call->tensors;
    for (int i = 1; i < plan->count; i++)
        if (!lies_alike(tensors[scatter_result_at(plan, 0)], tensors[scatter_result_at(plan, i)]) ||
            !lies_alike(tensors[scatter_update_at(plan, 0)], tensors[scatter_update_at(plan, i)]))
            return false;
    return true;
}

/* The bytes in `other` that correspond to those from the first element of `first` to `at`. */
static int64_t along(const DLTensor *first, const unsigned char *at, const DLTensor *other) {
    return (at - tensor_data(first)) / kvmill_element_bytes(first->dtype) *
           kvmill_element_bytes(other->dtype);
}

bool kvmill_scatter_slots_set(struct scatter_part *part) {
    struct kvmill_scatter_slots *slots = &part->slots;
    const struct scatter_plan *plan = scatter_plan_of(part->call);
    const DLTensor *const *tensors = part->call->tensors;
    const DLTensor *result = tensors[scatter_result_at(plan, 0)];
    const DLTensor *update = tensors[scatter_update_at(plan, 0)];
    if (!kvmill_scatter_windows_set(part, 0))
        return false;
    for (int i = 0; i < plan->count; i++) {
        const DLTensor *to = tensors[scatter_result_at(plan, i)];
        const DLTensor *from = tensors[scatter_update_at(plan, i)];
        slots->result[i] = tensor_data(to) + along(result, slots->windows.result, to);
        slots->updates[i] = tensor_data(from) + along(update, slots->windows.updates, from);
    }
    for (int i = 0; i < plan->captures; i++)
        slots->capture[i] = tensor_data(tensors[scatter_capture_at(plan, i)]);
    return true;
}
