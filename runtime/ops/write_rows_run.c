/* Runs WriteRows.  A part is a number of rows.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "../../defs/format.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../attend/pages.h"
#include "../core/tensor.h"
#include "../core/write_tokens.h"
#include "write_rows_plan.h"

/* A part moves about this many bytes. */
enum { PART_BYTES = 32 << 10 };

struct rows_call {
    struct call base;
    struct kvmill_convert problem; /* of all rows */
    struct number_array slots;
    int64_t rows, part; /* rows of a part */
    bool done;
};

static const struct rows_plan *plan_of(const struct call *call) {
    return (const struct rows_plan *)(const void *)call->plan;
}

static const struct rows_call *call_of(const struct call *call) {
    return (const struct rows_call *)(const void *)call;
}

/* ---- Checks ---- */

static kvmill_status check_shapes(const struct given_tensors *given,
                                  const struct kvmill_format *format) {
    int64_t rows[] = {KVMILL_DYNAMIC, KVMILL_DYNAMIC, format->dim};
    kvmill_status status = kvmill_check_shape(given, KVMILL_WRITE_ROWS_ROWS, 3, rows);
    if (status != KVMILL_OK)
        return status;
    const int64_t *known = given->tensors[KVMILL_WRITE_ROWS_ROWS]->shape;
    int64_t cache[] = {KVMILL_DYNAMIC, known[1], kvmill_format_last_dim(format)};
    status = kvmill_check_shape(given, KVMILL_WRITE_ROWS_SLOTS, 1, known);
    if (status == KVMILL_OK)
        status = kvmill_check_shape(given, KVMILL_WRITE_ROWS_CACHE, 3, cache);
    if (status != KVMILL_OK || given->tensors[KVMILL_WRITE_ROWS_SCALE] == NULL)
        return status;
    cache[0] = given->tensors[KVMILL_WRITE_ROWS_CACHE]->shape[0];
    cache[2] = kvmill_format_scale_count(format);
    return kvmill_check_shape(given, KVMILL_WRITE_ROWS_SCALE, 3, cache);
}

/* Check all slots: whether each is above all before it, so that no two rows have the same slot; and
   whether every row has one. */
struct slots_seen {
    bool apart, whole;
};

static kvmill_status check_slots(const struct number_array *slots, int64_t count, int64_t capacity,
                                 struct slots_seen *seen, kvmill_error *error) {
    int64_t highest = -1, lowest = 0;
    bool apart = true;
    for (int64_t n = 0; n < count; n++) {
        int64_t slot = number_at(slots, n);
        if (slot < -1 || slot >= capacity)
            return kvmill_fail(error, KVMILL_E_INDEX_RANGE,
                               "slots[%" PRId64 "] is %" PRId64 "; accepted: -1 to %" PRId64, n,
                               slot, capacity - 1);
        apart &= (slot < 0 || slot > highest);
        lowest = kvmill_min(lowest, slot);
        highest = kvmill_max(highest, slot);
    }
    *seen = (struct slots_seen){.apart = apart, .whole = lowest == 0};
    return KVMILL_OK;
}

static kvmill_status check_tensors(const struct rows_plan *plan, const DLTensor *const *tensors,
                                   const DLTensor **known, kvmill_error *error) {
    const struct given_tensors given = {.rules = plan->rules,
                                        .count = KVMILL_WRITE_ROWS_TENSORS,
                                        .op = "WriteRows",
                                        .tensors = known,
                                        .error = error};
    kvmill_status status = kvmill_check_given(&given, tensors);
    if (status == KVMILL_OK)
        status = check_shapes(&given, &plan->shape.format);
    if (status == KVMILL_OK)
        status = kvmill_check_strides(&given);
    if (status == KVMILL_OK)
        status = kvmill_check_memory(&given);
    return status == KVMILL_OK ? kvmill_check_overlaps(&given) : status;
}

/* ---- A run ---- */

static struct kvmill_cache_rows cache_of(const DLTensor *cache, const DLTensor *scale) {
    struct kvmill_cache_rows rows = {.data = tensor_data(cache),
                                     .row_stride = kvmill_tensor_step(cache, 0),
                                     .head_stride = kvmill_tensor_step(cache, 1)};
    if (scale == NULL)
        return rows;
    rows.scale = tensor_data(scale);
    rows.scale_row_stride = kvmill_tensor_step(scale, 0);
    rows.scale_head_stride = kvmill_tensor_step(scale, 1);
    return rows;
}

static int64_t row_bytes(const struct rows_call *call) {
    return call->problem.heads * kvmill_format_row_bytes(&call->problem.shape->format);
}

/* The slots, if kernels can read them where they are; otherwise NULL. */
static const int64_t *slots_in_place(const struct number_array *slots, bool whole) {
    bool plain =
        slots->bits == 64 && slots->stride == 1 && (uintptr_t)slots->data % sizeof(int64_t) == 0;
    return plain && whole ? slots->data : NULL;
}

static void set_call(struct rows_call *call, const DLTensor *const *known,
                     const struct slots_seen *seen) {
    const DLTensor *rows = known[KVMILL_WRITE_ROWS_ROWS];
    call->problem = (struct kvmill_convert){
        .shape = &plan_of(&call->base)->shape,
        .activation = tensor_data(rows),
        .token_stride = kvmill_tensor_step(rows, 0),
        .head_stride = kvmill_tensor_step(rows, 1),
        .cache = cache_of(known[KVMILL_WRITE_ROWS_CACHE], known[KVMILL_WRITE_ROWS_SCALE]),
        .heads = rows->shape[1],
        .repeat = 1,
        .saturate = plan_of(&call->base)->saturates,
        .slot = slots_in_place(&call->slots, seen->whole),
    };
    call->rows = rows->shape[1] > 0 ? rows->shape[0] : 0;
    call->part = seen->apart && call->rows > 0 ? 1 + PART_BYTES / row_bytes(call) : call->rows;
}

kvmill_status kvmill_write_rows_begin(struct call *base, const DLTensor *const *tensors,
                                      kvmill_error *error) {
    struct rows_call *call = (struct rows_call *)(void *)base;
    const DLTensor *known[KVMILL_WRITE_ROWS_TENSORS];
    struct slots_seen seen = {0};
    *call = (struct rows_call){.base = *base};
    kvmill_status status = check_tensors(plan_of(base), tensors, known, error);
    if (status != KVMILL_OK)
        return status;
    const DLTensor *slots = known[KVMILL_WRITE_ROWS_SLOTS];
    call->slots = (struct number_array){tensor_data(slots), slots->dtype.bits,
                                        kvmill_tensor_stride(slots, 0)};
    status = check_slots(&call->slots, slots->shape[0], known[KVMILL_WRITE_ROWS_CACHE]->shape[0],
                         &seen, error);
    if (status == KVMILL_OK)
        set_call(call, known, &seen);
    return status;
}

int64_t kvmill_write_rows_parts(const struct call *base) {
    const struct rows_call *call = call_of(base);
    return call->rows == 0 || call->done ? 0 : (call->rows + call->part - 1) / call->part;
}

static int64_t slot_of(const void *context, int64_t n) {
    return number_at(context, n);
}

void kvmill_write_rows_part(const struct call *base, int64_t number) {
    const struct rows_call *call = call_of(base);
    const struct kvmill_call_size size = {1, call->rows, call->rows};
    const struct kvmill_kernel *kernel = kvmill_kernel_of_size(&plan_of(base)->kernel, &size);
    int64_t first = number * call->part, last = kvmill_min(call->rows, first + call->part);
    if (call->problem.slot != NULL)
        kernel->run(&call->problem, first, last);
    else
        kvmill_write_tokens(kernel, &call->problem, slot_of, &call->slots, first, last);
}

/* Converting an element takes a few operations. */
double kvmill_write_rows_work(const struct call *base) {
    const struct rows_call *call = call_of(base);
    double elements = (double)call->problem.heads * call->problem.shape->format.dim;
    return (double)call->rows * ((double)row_bytes(call) + 8 * elements);
}

bool kvmill_write_rows_next(struct call *base) {
    ((struct rows_call *)(void *)base)->done = true;
    return false;
}
