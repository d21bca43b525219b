/* A run of ONNX TensorScatter-24: validation, then two tasks: keep the rows of past that no update
   replaces (unless in place), store the rows of update.

   SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter_plan.h"

#include <inttypes.h>

#include "../../defs/dtype.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../../ops/refuse.h"
#include "../core/tensor.h"

/* A part moves about 2^18 bytes: enough to be worth a thread, and to amortise the start of a
 * kernel. */
enum { part_shift = 18 };

/* Rows in the middle of a cache are rarely in the processor's caches.  From a few rows on, most of
   the time would be spent on reading lines only to overwrite them (doc/design/tried.md). */
static const int64_t stream_store_bytes = 8 << 10;

static const struct tensor_scatter_plan *plan_of(const struct tensor_scatter_call *call) {
    return (const struct tensor_scatter_plan *)(const void *)call->base.plan;
}

/* ---- Views of tensors ---- */

/* write_indices has no view: it is one-dimensional. */
struct views {
    struct tensor_view past, update, present;
};

static void look(const DLTensor *const *tensors, int axis, struct views *views) {
    kvmill_tensor_look(tensors[KVMILL_TENSOR_SCATTER_PAST_CACHE], axis, &views->past);
    kvmill_tensor_look(tensors[KVMILL_TENSOR_SCATTER_UPDATE], axis, &views->update);
    kvmill_tensor_look(tensors[KVMILL_TENSOR_SCATTER_PRESENT_CACHE], axis, &views->present);
}

static kvmill_status check_views(const struct tensor_scatter_plan *plan, const struct views *views,
                                 kvmill_error *error) {
    bool any_strides = plan->store.kernel == &kvmill_portable_store_rows &&
                       plan->keep.kernel == &kvmill_portable_keep_rows;
    if (any_strides || (views->past.folds && views->update.folds && views->present.folds))
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_STRIDE,
        "the strides do not fold to [batch, heads, slot, row] with rows in one piece, "
        "as the planned kernels need; plan with these strides");
}

/* ---- The problem in kernel units ---- */

/* No division, because this runs a dozen times per call. */
static int64_t units_of(const struct tensor_scatter_plan *plan, int64_t elements) {
    return elements * plan->unit_factor >> plan->unit_shift;
}

static struct kvmill_row_strides strides_of(const struct tensor_scatter_plan *plan,
                                            const struct tensor_view *view) {
    return (struct kvmill_row_strides){
        .batch = units_of(plan, view->strides.batch),
        .head = units_of(plan, view->strides.head),
        .row = units_of(plan, view->strides.row),
    };
}

/* Everything except the addresses. */
static void set_rows(const struct tensor_scatter_plan *plan, const struct views *views,
                     struct kvmill_rows *rows) {
    const DLTensor *past = views->past.tensor, *update = views->update.tensor;
    rows->batch = past->shape[0];
    rows->heads = views->past.heads;
    rows->capacity = past->shape[plan->geometry.axis];
    rows->rows = update->shape[plan->geometry.axis];
    rows->row = units_of(plan, views->past.row);
    rows->past_stride = strides_of(plan, &views->past);
    rows->update_stride = strides_of(plan, &views->update);
    rows->present_stride = strides_of(plan, &views->present);
}

/* ---- Tasks ---- */

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* How many parts `units` kernel units are worth. */
static int64_t worth(const struct tensor_scatter_plan *plan, int64_t units) {
    int shift = plan->shape.unit_bits == 4 ? part_shift + 1 : part_shift;
    return units >> shift;
}

/* Rows of nibbles share bytes with their neighbours, so slabs go in pairs and are not cut. */
static void set_chunks(const struct tensor_scatter_plan *plan, struct kvmill_rows *rows,
                       int64_t slots) {
    rows->chunks =
        plan->shape.unit_bits == 4 ? 1 : clamp(worth(plan, slots * rows->row), 1, slots + !slots);
}

static const struct kvmill_kernel *kernel_for(const struct by_size *by_size,
                                              const struct kvmill_rows *rows) {
    const struct kvmill_call_size size = {rows->batch, rows->rows, rows->capacity};
    return kvmill_kernel_of_problem(by_size, &size, rows);
}

static void add_task(const struct tensor_scatter_plan *plan, struct tensor_scatter_call *call,
                     const struct by_size *by_size, int64_t slots) {
    const struct kvmill_rows *rows = &call->problem.rows;
    const struct kvmill_kernel *kernel = kernel_for(by_size, rows);
    int64_t slabs = rows->batch * rows->heads;
    int64_t units = kernel->whole_batch ? rows->batch : slabs * rows->chunks;
    if (slots == 0)
        return;
    call->tasks[call->task_count++] = (struct task){
        .kernel = kernel,
        .units = units,
        .parts = clamp(worth(plan, slabs * slots * rows->row), 1, units),
        .granule = plan->shape.unit_bits == 4 ? 2 : 1,
    };
}

static bool is_nothing(const struct kvmill_rows *rows) {
    return rows->batch == 0 || rows->heads == 0 || rows->capacity == 0 || rows->row == 0;
}

static void set_tasks(const struct tensor_scatter_plan *plan, struct tensor_scatter_call *call,
                      bool in_place) {
    struct kvmill_rows *rows = &call->problem.rows;
    call->task_count = 0;
    call->serial = plan->shape.unit_bits == 4 && !in_place;
    if (is_nothing(rows))
        return;
    int64_t slot_units = rows->batch * rows->heads * rows->row;
    set_chunks(plan, rows, in_place ? rows->rows : rows->capacity);
    /* Rows that are kept go to a new cache.  From `around` bytes on it will not stay in the
       second-level cache anyway, and stores that bypass the cache save the read for ownership. */
    bool keeps = slot_units * rows->capacity >= plan->around;
    bool stores = slot_units * rows->rows >= stream_store_bytes;
    rows->stream_keep = keeps ? plan->copy_streams : 0;
    rows->stream_store = stores ? plan->copy_streams : 0;
    if (!in_place)
        add_task(plan, call, &plan->keep, rows->capacity - rows->rows);
    add_task(plan, call, &plan->store, rows->rows);
}

static void prepare(const struct tensor_scatter_plan *plan, const struct views *views,
                    bool in_place, struct tensor_scatter_call *call) {
    call->base.plan = &plan->base;
    call->problem.axis = plan->geometry.axis;
    call->problem.in_place = in_place;
    call->problem.count = views->present.count;
    set_rows(plan, views, &call->problem.rows);
    set_tasks(plan, call, in_place);
}

/* Set where tensors end, so that a run need not compute it. */
static void set_ends(struct tensor_rule *rule, const DLTensor *tensor) {
    DLTensor at_zero = *tensor;
    at_zero.data = NULL;
    at_zero.byte_offset = 0;
    struct tensor_span span = kvmill_tensor_span_of(&at_zero);
    rule->begin = (ptrdiff_t)span.begin;
    rule->end = (ptrdiff_t)span.end;
}

/* Only for known dims without 0, because empty tensors overlap nothing.  present_cache has the
   layout of past_cache, so elements of past_cache must not overlap either. */
static bool can_prepare(const kvmill_tensor_scatter *op) {
    return kvmill_element_count(op->past_cache) > 0 && kvmill_element_count(op->update) > 0 &&
           kvmill_tensor_is_injective(op->past_cache);
}

void kvmill_tensor_scatter_prepare(struct tensor_scatter_plan *plan,
                                   const kvmill_tensor_scatter *op) {
    const DLTensor *tensors[] = {op->past_cache, op->update, NULL, op->past_cache};
    DLTensor indices = {.ndim = 1, .dtype = kvmill_int64, .shape = op->past_cache->shape};
    plan->is_prepared = can_prepare(op);
    if (!plan->is_prepared)
        return;
    struct views views;
    look(tensors, plan->geometry.axis, &views);
    prepare(plan, &views, false, &plan->prepared[0]);
    prepare(plan, &views, true, &plan->prepared[1]);
    tensors[KVMILL_TENSOR_SCATTER_WRITE_INDICES] = &indices;
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++)
        set_ends(&plan->rules[i], tensors[i]);
}

/* ---- Addresses ---- */

static void set_addresses(struct rows_problem *problem, const DLTensor *const *tensors) {
    const DLTensor *indices = tensors[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
    problem->past = tensors[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    problem->update = tensors[KVMILL_TENSOR_SCATTER_UPDATE];
    problem->present = tensors[KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
    problem->rows.past = tensor_data(problem->past);
    problem->rows.update = tensor_data(problem->update);
    problem->rows.present = tensor_data(problem->present);
    problem->rows.starts =
        indices ? (const kvmill_index *)(const void *)tensor_data(indices) : NULL;
    problem->rows.starts_stride = indices && indices->strides ? indices->strides[0] : 1;
}

/* ---- Indices ---- */

static kvmill_status check_starts(const struct kvmill_rows *rows,
                                  const struct kvmill_row_geometry *geometry, kvmill_error *error) {
    int64_t most = geometry->circular ? INT64_MAX : rows->capacity - rows->rows;
    for (int64_t b = 0; rows->starts != NULL && !geometry->floored && b < rows->batch; b++) {
        int64_t start = rows->starts[b * rows->starts_stride];
        if (start < 0)
            return kvmill_refuse_element(KVMILL_E_INDEX_NEGATIVE, "write_indices", b, start,
                                         (struct kvmill_range){0, most}, error);
        if (start > most)
            return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                               "write_indices[%" PRId64 "] is %" PRId64 "; accepted: 0 to %" PRId64
                               " (capacity %" PRId64 ", %" PRId64 " rows)",
                               b, start, most, rows->capacity, rows->rows);
    }
    return KVMILL_OK;
}

/* ---- The op ---- */

/* For the few numbers that there are, this is faster than a call of memcmp. */
static bool are_equal(const int64_t *a, const int64_t *b, int count) {
    bool equal = true;
    for (int i = 0; i < count; i++)
        equal &= a[i] == b[i];
    return equal;
}

static bool is_laid_out(const struct tensor_scatter_plan *plan, const DLTensor *tensor,
                        const int64_t *dims, const int64_t *strides) {
    return tensor != NULL && tensor->ndim == plan->rank &&
           kvmill_dtype_equal(tensor->dtype, plan->dtype) && tensor->shape != NULL &&
           (tensor->strides == NULL) == (strides == NULL) &&
           are_equal(tensor->shape, dims, plan->rank) &&
           (strides == NULL || are_equal(tensor->strides, strides, plan->rank));
}

static bool is_dense_vector(const DLTensor *tensor, int64_t count) {
    return tensor->ndim == 1 && tensor->shape != NULL && tensor->shape[0] == count &&
           tensor->strides == NULL && kvmill_dtype_equal(tensor->dtype, kvmill_int64);
}

/* Whether the tensors are exactly the prototypes of a prepared plan, with data, as in most runs. */
static bool is_as_prepared(const struct tensor_scatter_plan *plan, const DLTensor *const *tensors) {
    const DLTensor *past = tensors[KVMILL_TENSOR_SCATTER_PAST_CACHE],
                   *present = tensors[KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
    const DLTensor *indices = tensors[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
    const int64_t *dims = plan->numbers;
    return plan->is_prepared && is_laid_out(plan, past, dims, plan->past_strides) &&
           is_laid_out(plan, tensors[KVMILL_TENSOR_SCATTER_UPDATE], dims + plan->rank,
                       plan->update_strides) &&
           (past == present || is_laid_out(plan, present, dims, plan->past_strides)) &&
           (indices != NULL) == plan->has_indices &&
           (indices == NULL || is_dense_vector(indices, dims[0]));
}

/* All other runs. */
static kvmill_status shape_call(struct tensor_scatter_call *call, const struct given_tensors *given,
                                const DLTensor *const *tensors) {
    const struct tensor_scatter_plan *plan = plan_of(call);
    const DLTensor *past = tensors[KVMILL_TENSOR_SCATTER_PAST_CACHE],
                   *update = tensors[KVMILL_TENSOR_SCATTER_UPDATE];
    int axis = plan->geometry.axis;
    kvmill_status status = kvmill_check_given(given, tensors);
    if (status == KVMILL_OK)
        status = kvmill_tensor_scatter_check_rows(past, update, axis, given->error);
    if (status != KVMILL_OK)
        return status;
    struct views views;
    look(tensors, axis, &views);
    status = check_views(plan, &views, given->error);
    if (status == KVMILL_OK)
        prepare(plan, &views,
                kvmill_tensor_is_same_memory(past, tensors[KVMILL_TENSOR_SCATTER_PRESENT_CACHE]),
                call);
    return status;
}

/* Copied in two pieces: compilers copy one piece with string instructions, which take 30 cycles to
 * start. */
static void take_prepared(const struct tensor_scatter_call *prepared,
                          struct tensor_scatter_call *call) {
    call->task_count = prepared->task_count;
    call->serial = prepared->serial;
    memcpy(call->tasks, prepared->tasks, sizeof call->tasks);
    call->problem = prepared->problem;
}

static bool keeps_rows(const struct rows_problem *problem) {
    return !problem->in_place && problem->rows.capacity > problem->rows.rows;
}

static kvmill_status begin(struct tensor_scatter_call *call, const DLTensor *const *tensors,
                           kvmill_error *error) {
    const struct tensor_scatter_plan *plan = plan_of(call);
    const DLTensor *known[KVMILL_TENSOR_SCATTER_TENSORS];
    const struct given_tensors given = {
        plan->rules, KVMILL_TENSOR_SCATTER_TENSORS, "TensorScatter", known, error,
        NULL,        is_as_prepared(plan, tensors),
    };
    kvmill_status status;
    memcpy(known, tensors, sizeof known);
    if (given.as_planned) {
        take_prepared(&plan->prepared[tensor_data(known[KVMILL_TENSOR_SCATTER_PAST_CACHE]) ==
                                      tensor_data(known[KVMILL_TENSOR_SCATTER_PRESENT_CACHE])],
                      call);
        status = kvmill_check_memory(&given);
    } else {
        status = shape_call(call, &given, tensors);
    }
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&given);
    if (status != KVMILL_OK)
        return status;
    set_addresses(&call->problem, tensors);
    status = check_starts(&call->problem.rows, &plan->geometry, error);
    return status == KVMILL_OK && keeps_rows(&call->problem)
               ? kvmill_check_some_runs(&plan->base, error)
               : status;
}

kvmill_status kvmill_tensor_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                          kvmill_error *error) {
    return begin((struct tensor_scatter_call *)(void *)call, tensors, error);
}

/* ---- Parts ---- */

static const struct tensor_scatter_call *const_call_of(const struct call *call) {
    return (const struct tensor_scatter_call *)(const void *)call;
}

static void run_task(const struct tensor_scatter_call *call, const struct task *task, int64_t first,
                     int64_t last) {
    if (first < last)
        task->kernel->run(&call->problem, first, last);
}

void kvmill_tensor_scatter_all(const struct call *base) {
    const struct tensor_scatter_call *call = const_call_of(base);
    for (int t = 0; t < call->task_count; t++)
        run_task(call, &call->tasks[t], 0, call->tasks[t].units);
}

int64_t kvmill_tensor_scatter_parts(const struct call *base) {
    const struct tensor_scatter_call *call = const_call_of(base);
    int64_t parts = 0;
    for (int t = 0; t < call->task_count; t++)
        parts += call->tasks[t].parts;
    return call->serial && parts > 0 ? 1 : parts;
}

/* A task with a single part may have next to no work. */
double kvmill_tensor_scatter_work(const struct call *base) {
    int64_t parts = kvmill_tensor_scatter_parts(base);
    return parts > const_call_of(base)->task_count ? (double)(parts << part_shift) : 0;
}

/* The first unit of a part of a task. */
static int64_t boundary(const struct task *task, int64_t part) {
    if (part == task->parts)
        return task->units;
    return task->units * part / task->parts / task->granule * task->granule;
}

void kvmill_tensor_scatter_part(const struct call *base, int64_t part) {
    const struct tensor_scatter_call *call = const_call_of(base);
    if (call->serial) {
        kvmill_tensor_scatter_all(base);
        return;
    }
    const struct task *task = call->tasks;
    while (part >= task->parts)
        part -= task++->parts;
    run_task(call, task, boundary(task, part), boundary(task, part + 1));
}

/* End the only phase.  The unused half of the last byte of a new 4-bit cache is set to 0. */
bool kvmill_tensor_scatter_next(struct call *base) {
    const struct rows_problem *problem = &const_call_of(base)->problem;
    if (kvmill_dtype_bits(problem->present->dtype) == 4 && !problem->in_place &&
        problem->count % 2 != 0)
        tensor_data(problem->present)[problem->count / 2] &= 0x0f;
    return false;
}
