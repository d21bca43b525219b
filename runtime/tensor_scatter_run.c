/* A run of ONNX TensorScatter-24: validation, then two tasks: keep the rows of past that no update
   replaces (unless in place), store the rows of update.

   SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter.h"

#include <inttypes.h>

#include "../ops/dtype.h"
#include "../ops/fail.h"
#include "tensor.h"

/* A part moves about this much: enough to be worth handing to a thread. */
static const int64_t part_bytes = 128 << 10;

/* From here on the destination will not stay in the second-level cache anyway, and stores that
   bypass it spare the read for ownership: measured 1.4 to 2 times as fast (doc/performance.md). */
static const int64_t stream_bytes = 4 << 20;

static const struct tensor_scatter_plan *plan_of(const struct call *call) {
    return (const struct tensor_scatter_plan *)(const void *)call->plan;
}

static const int64_t *past_dims(const struct tensor_scatter_plan *plan) {
    return plan->dims;
}

static const int64_t *update_dims(const struct tensor_scatter_plan *plan) {
    return plan->dims + plan->rank;
}

/* ---- Does a run fit the plan? ---- */

static bool fits_dims(const DLTensor *tensor, const int64_t *planned) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0 ||
            (planned[d] != KVMILL_DYNAMIC && tensor->shape[d] != planned[d]))
            return false;
    return true;
}

static bool equal_dims_but(const DLTensor *a, const DLTensor *b, int except) {
    for (int d = 0; d < a->ndim; d++)
        if (d != except && a->shape[d] != b->shape[d])
            return false;
    return true;
}

static bool fits_type(const struct tensor_scatter_plan *plan, const DLTensor *tensor) {
    return tensor->ndim == plan->rank && kvmill_dtype_equal(tensor->dtype, plan->dtype);
}

static bool fits_indices(const struct tensor_scatter_plan *plan, const DLTensor *indices,
                         int64_t batch) {
    if (indices == NULL || !plan->has_indices)
        return indices == NULL && !plan->has_indices;
    return indices->ndim == 1 && indices->shape[0] == batch &&
           kvmill_dtype_equal(indices->dtype, (DLDataType){kDLInt, 64, 1});
}

/* All that kvmill_tensor_scatter_check and the plan demand of shapes and types, for one look. */
static bool fits(const struct tensor_scatter_plan *plan, const DLTensor *const *tensors) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE], *update = tensors[KVMILL_UPDATE];
    const DLTensor *present = tensors[KVMILL_PRESENT_CACHE];
    int axis = plan->geometry.axis;
    return fits_type(plan, past) && fits_type(plan, update) && fits_type(plan, present) &&
           fits_dims(past, past_dims(plan)) && fits_dims(update, update_dims(plan)) &&
           equal_dims_but(update, past, axis) && equal_dims_but(present, past, -1) &&
           update->shape[axis] <= past->shape[axis] &&
           fits_indices(plan, tensors[KVMILL_WRITE_INDICES], past->shape[0]);
}

static kvmill_status refuse_dims(const struct tensor_scatter_plan *plan, const DLTensor *tensor,
                                 const int64_t *planned, const char *name, kvmill_error *error) {
    struct kvmill_shape_text have, want;
    DLTensor wanted = {.ndim = plan->rank, .shape = (int64_t *)planned};
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has shape %s; the plan was made for %s", name,
                       kvmill_shape_words(tensor, &have), kvmill_shape_words(&wanted, &want));
}

/* Say why fits() said no: first what the op itself forbids, then what the plan did not foresee. */
static kvmill_status refuse(const struct tensor_scatter_plan *plan, const DLTensor *const *tensors,
                            kvmill_error *error) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE], *indices = tensors[KVMILL_WRITE_INDICES];
    kvmill_tensor_scatter op = {
        .axis = plan->geometry.axis,
        .past_cache = past,
        .update = tensors[KVMILL_UPDATE],
        .write_indices = indices,
        .present_cache = tensors[KVMILL_PRESENT_CACHE],
    };
    struct kvmill_row_geometry ignored;
    kvmill_status status = past->ndim != plan->rank
                               ? refuse_dims(plan, past, past_dims(plan), "past_cache", error)
                               : kvmill_tensor_scatter_check(&op, &ignored, error);
    if (status != KVMILL_OK)
        return status;
    if (!kvmill_dtype_equal(past->dtype, plan->dtype))
        return kvmill_fail(error, KVMILL_E_DTYPE,
                           "the tensors have type %s; the plan was made for %s",
                           kvmill_dtype_name(past->dtype), kvmill_dtype_name(plan->dtype));
    if ((indices != NULL) != plan->has_indices)
        return kvmill_fail(error, KVMILL_E_SHAPE, "write_indices is %s; the plan was made %s it",
                           indices ? "given" : "NULL", indices ? "without" : "with");
    if (!fits_dims(past, past_dims(plan)))
        return refuse_dims(plan, past, past_dims(plan), "past_cache", error);
    return refuse_dims(plan, tensors[KVMILL_UPDATE], update_dims(plan), "update", error);
}

/* ---- Memory ---- */

static const char *const tensor_names[] = {"past_cache", "update", "write_indices",
                                           "present_cache"};

static kvmill_status check_memory(const DLTensor *tensor, const char *name, kvmill_error *error) {
    if (tensor->device.device_type != kDLCPU)
        return kvmill_fail(error, KVMILL_E_DEVICE, "%s is on device type %d; accepted: kDLCPU (%d)",
                           name, (int)tensor->device.device_type, (int)kDLCPU);
    if (tensor->data == NULL && tensor_count(tensor) != 0)
        return kvmill_fail(error, KVMILL_E_NULL,
                           "the data of %s is NULL; it has %" PRId64 " elements", name,
                           tensor_count(tensor));
    if (kvmill_dtype_bits(tensor->dtype) == 4 && !tensor_is_dense_from(tensor, 0))
        return kvmill_fail(error, KVMILL_E_STRIDE,
                           "%s has strides; accepted for 4-bit types: row-major without gaps",
                           name);
    return KVMILL_OK;
}

static kvmill_status check_all_memory(const DLTensor *const *tensors, kvmill_error *error) {
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++) {
        kvmill_status status =
            tensors[i] ? check_memory(tensors[i], tensor_names[i], error) : KVMILL_OK;
        if (status != KVMILL_OK)
            return status;
    }
    if (!tensor_is_injective(tensors[KVMILL_PRESENT_CACHE]))
        return kvmill_fail(
            error, KVMILL_E_STRIDE,
            "the strides of present_cache let elements overlap; accepted: one place each");
    return KVMILL_OK;
}

static kvmill_status check_overlap(const DLTensor *const *tensors, int i, kvmill_error *error) {
    if (tensors[i] == NULL || !tensor_overlaps(tensors[i], tensors[KVMILL_PRESENT_CACHE]))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ALIAS, "%s overlaps present_cache; accepted: %s",
                       tensor_names[i],
                       i == KVMILL_PAST_CACHE ? "apart, or the same memory and strides (in place)"
                                              : "memory of its own");
}

static kvmill_status check_aliases(const DLTensor *const *tensors, bool in_place,
                                   kvmill_error *error) {
    kvmill_status status = in_place ? KVMILL_OK : check_overlap(tensors, KVMILL_PAST_CACHE, error);
    if (status == KVMILL_OK)
        status = check_overlap(tensors, KVMILL_UPDATE, error);
    return status == KVMILL_OK ? check_overlap(tensors, KVMILL_WRITE_INDICES, error) : status;
}

/* ---- Indices ---- */

static kvmill_status check_starts(const struct kvmill_rows *rows, bool circular,
                                  kvmill_error *error) {
    int64_t most = circular ? INT64_MAX : rows->capacity - rows->rows;
    for (int64_t b = 0; rows->starts != NULL && b < rows->batch; b++) {
        int64_t start = rows->starts[b * rows->starts_stride];
        if (start < 0)
            return kvmill_fail(error, KVMILL_E_INDEX_NEGATIVE,
                               "write_indices[%" PRId64 "] is %" PRId64 "; accepted: 0 to %" PRId64,
                               b, start, most);
        if (start > most)
            return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                               "write_indices[%" PRId64 "] is %" PRId64 "; accepted: 0 to %" PRId64
                               " (capacity %" PRId64 ", %" PRId64 " rows)",
                               b, start, most, rows->capacity, rows->rows);
    }
    return KVMILL_OK;
}

/* ---- The problem in kernel units ---- */

static int64_t product(const DLTensor *tensor, int from, int to, bool *overflow) {
    int64_t count = 1;
    for (int d = from; d < to; d++)
        *overflow |= __builtin_mul_overflow(count, tensor->shape[d], &count);
    return count;
}

/* Counts of the folded problem; rows in units of the kernel. */
static kvmill_status fold_counts(const struct tensor_scatter_plan *plan,
                                 const DLTensor *const *tensors, struct kvmill_rows *rows,
                                 kvmill_error *error) {
    const DLTensor *past = tensors[KVMILL_PAST_CACHE];
    int axis = plan->geometry.axis, bits = kvmill_dtype_bits(plan->dtype);
    bool overflow = false;
    int64_t bytes;
    rows->batch = past->shape[0];
    rows->heads = product(past, 1, axis, &overflow);
    rows->capacity = past->shape[axis];
    rows->rows = tensors[KVMILL_UPDATE]->shape[axis];
    rows->row = product(past, axis + 1, past->ndim, &overflow);
    overflow |= __builtin_mul_overflow(product(past, 0, past->ndim, &overflow), 16, &bytes);
    if (overflow && tensor_count(past) != 0)
        return kvmill_fail(error, KVMILL_E_OVERFLOW,
                           "past_cache is too large; accepted: at most PTRDIFF_MAX bytes");
    rows->row = rows->row * bits / plan->shape.unit_bits;
    return KVMILL_OK;
}

/* Steps of one tensor in kernel units; false when only the portable kernels can walk it. */
static bool fold_tensor(const struct tensor_scatter_plan *plan, const DLTensor *tensor,
                        struct kvmill_row_strides *strides) {
    int bits = kvmill_dtype_bits(plan->dtype), unit = plan->shape.unit_bits;
    if (!tensor_fold_strides(tensor, plan->geometry.axis, strides))
        return false;
    strides->batch = strides->batch * bits / unit;
    strides->head = strides->head * bits / unit;
    strides->row = strides->row * bits / unit;
    return true;
}

static bool fold_all_strides(const struct tensor_scatter_plan *plan, const DLTensor *const *tensors,
                             struct kvmill_rows *rows) {
    return fold_tensor(plan, tensors[KVMILL_PAST_CACHE], &rows->past_stride) &&
           fold_tensor(plan, tensors[KVMILL_UPDATE], &rows->update_stride) &&
           fold_tensor(plan, tensors[KVMILL_PRESENT_CACHE], &rows->present_stride);
}

static void set_pointers(const DLTensor *const *tensors, struct kvmill_rows *rows) {
    const DLTensor *indices = tensors[KVMILL_WRITE_INDICES];
    rows->past = tensor_data(tensors[KVMILL_PAST_CACHE]);
    rows->update = tensor_data(tensors[KVMILL_UPDATE]);
    rows->present = tensor_data(tensors[KVMILL_PRESENT_CACHE]);
    rows->starts = indices ? (const kvmill_index *)(const void *)tensor_data(indices) : NULL;
    rows->starts_stride = indices ? tensor_stride(indices, 0) : 0;
}

static kvmill_status check_strides(const struct tensor_scatter_plan *plan,
                                   const DLTensor *const *tensors, struct kvmill_rows *rows,
                                   kvmill_error *error) {
    bool any_strides = plan->store == &portable_store_rows && plan->keep == &portable_keep_rows;
    if (fold_all_strides(plan, tensors, rows) || any_strides)
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_STRIDE,
        "the strides do not fold to [batch, heads, slot, row] with rows in one piece, as "
        "the planned kernels need; plan with these strides");
}

/* ---- Tasks ---- */

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Nibble rows share bytes with their neighbours: slabs go in pairs and are not cut. */
static void set_chunks(const struct tensor_scatter_plan *plan, struct kvmill_rows *rows,
                       bool in_place) {
    int64_t longest = in_place ? rows->rows : rows->capacity;
    int64_t slab_bytes = longest * rows->row * plan->shape.unit_bits / 8;
    rows->chunks =
        plan->shape.unit_bits == 4 ? 1 : clamp(slab_bytes / part_bytes, 1, longest + !longest);
}

static void add_task(struct call *call, const struct kvmill_kernel *kernel, int64_t slot_count) {
    const struct kvmill_rows *rows = &call->problem.rows;
    int64_t bits = plan_of(call)->shape.unit_bits;
    int64_t bytes = rows->batch * rows->heads * slot_count * rows->row * bits / 8;
    int64_t units = kernel->whole_batch ? rows->batch : rows->batch * rows->heads * rows->chunks;
    if (bytes + bits < 8 || slot_count == 0)
        return;
    call->tasks[call->task_count++] = (struct task){
        .kernel = kernel,
        .units = units,
        .parts = clamp(bytes / part_bytes, 1, units),
        .granule = bits == 4 ? 2 : 1,
    };
}

static bool is_nothing(const struct kvmill_rows *rows) {
    return rows->batch == 0 || rows->heads == 0 || rows->capacity == 0 || rows->row == 0;
}

static void set_tasks(struct call *call, bool in_place) {
    const struct tensor_scatter_plan *plan = plan_of(call);
    struct kvmill_rows *rows = &call->problem.rows;
    int64_t moved = in_place ? rows->rows : rows->capacity;
    if (is_nothing(rows))
        return;
    set_chunks(plan, rows, in_place);
    rows->stream = rows->batch * rows->heads * moved * rows->row >= stream_bytes;
    call->serial = plan->shape.unit_bits == 4 && !in_place;
    if (!in_place)
        add_task(call, plan->keep, rows->capacity - rows->rows);
    add_task(call, plan->store, rows->rows);
}

/* ---- The op ---- */

static kvmill_status check_given(const DLTensor *const *tensors, kvmill_error *error) {
    for (int i = 0; i < KVMILL_TENSOR_SCATTER_TENSORS; i++)
        if (tensors[i] == NULL && i != KVMILL_WRITE_INDICES)
            return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL; a tensor is required",
                               tensor_names[i]);
    return KVMILL_OK;
}

kvmill_status tensor_scatter_begin(struct call *call, const DLTensor *const *tensors,
                                   kvmill_error *error) {
    const struct tensor_scatter_plan *plan = plan_of(call);
    struct kvmill_rows *rows = &call->problem.rows;
    kvmill_status status = check_given(tensors, error);
    if (status == KVMILL_OK && !fits(plan, tensors))
        status = refuse(plan, tensors, error);
    if (status == KVMILL_OK)
        status = fold_counts(plan, tensors, rows, error);
    if (status == KVMILL_OK)
        status = check_all_memory(tensors, error);
    if (status == KVMILL_OK)
        status = check_strides(plan, tensors, rows, error);
    if (status != KVMILL_OK)
        return status;
    bool in_place =
        tensor_is_same_memory(tensors[KVMILL_PAST_CACHE], tensors[KVMILL_PRESENT_CACHE]);
    set_pointers(tensors, rows);
    status = check_aliases(tensors, in_place, error);
    if (status == KVMILL_OK)
        status = check_starts(rows, plan->geometry.circular, error);
    if (status != KVMILL_OK)
        return status;
    call->problem.past = tensors[KVMILL_PAST_CACHE];
    call->problem.update = tensors[KVMILL_UPDATE];
    call->problem.present = tensors[KVMILL_PRESENT_CACHE];
    call->problem.axis = plan->geometry.axis;
    set_tasks(call, in_place);
    return KVMILL_OK;
}

/* The unused half of the last byte of a fresh 4-bit cache is 0. */
void tensor_scatter_merge(const struct call *call) {
    const DLTensor *present = call->problem.present;
    if (kvmill_dtype_bits(present->dtype) != 4 ||
        tensor_is_same_memory(call->problem.past, present))
        return;
    int64_t count = tensor_count(present);
    if (count % 2 != 0)
        tensor_data(present)[count / 2] &= 0x0f;
}
