/* Running stablehlo.scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "../../ops/fail.h"
#include "../core/loops_walk.h"
#include "../core/tensor.h"
#include "../portable/rows.h"
#include "scatter_plan.h"

enum { COPY, APPLY };

static const struct scatter_call *call_of(const struct call *call) {
    return (const struct scatter_call *)(const void *)call;
}

/* ---- Beginning ---- */

static bool is_in_place(const struct scatter_plan *plan, const DLTensor *const *tensors, int i) {
    return kvmill_tensor_is_same_memory(tensors[i], tensors[scatter_result_at(plan, i)]);
}

/* Either all inputs are in place, or none. */
static kvmill_status check_in_place(const struct scatter_plan *plan, const DLTensor *const *tensors,
                                    kvmill_error *error) {
    for (int i = 1; plan->elements > 0 && i < plan->count; i++)
        if (is_in_place(plan, tensors, i) != is_in_place(plan, tensors, 0))
            return kvmill_fail(
                error, KVMILL_E_ALIAS,
                "results[%d] is %sin place, unlike results[0]; accepted: all in place, or none", i,
                is_in_place(plan, tensors, i) ? "" : "not ");
    return KVMILL_OK;
}

kvmill_status kvmill_scatter_begin(struct call *base, const DLTensor *const *tensors,
                                   kvmill_error *error) {
    struct scatter_call *call = (struct scatter_call *)(void *)base;
    const struct scatter_plan *plan = scatter_plan_of(call);
    const struct given_tensors given = {.rules = plan->rules,
                                        .count = (int)plan->base.tensor_count,
                                        .op = "scatter",
                                        .tensors = call->tensors,
                                        .error = error};
    kvmill_status status = kvmill_check_given(&given, tensors);
    if (status == KVMILL_OK)
        status = kvmill_check_overlaps(&given);
    if (status == KVMILL_OK)
        status = check_in_place(plan, tensors, error);
    if (status != KVMILL_OK)
        return status;
    call->phase = is_in_place(plan, tensors, 0) ? APPLY : COPY;
    return call->phase == COPY ? kvmill_check_some_runs(&plan->base, error) : KVMILL_OK;
}

int64_t kvmill_scatter_parts(const struct call *base) {
    const struct scatter_call *call = call_of(base);
    return call->phase == COPY ? scatter_plan_of(call)->copy_parts
                               : scatter_plan_of(call)->apply_parts;
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
    int rank = input->ndim, outer = rank > 0 ? rank - 1 : 0;
    int64_t row = rank ? input->shape[outer] : 1;
    int64_t bytes = kvmill_element_bytes(input->dtype);
    int64_t result_bytes = kvmill_element_bytes(result->dtype);
    struct conversion conversion = {&plan->input[slot],
                                    &plan->program.type[plan->program.result[slot]]};
    int64_t step[2] = {rank ? kvmill_unpacked_step(input, outer) : 0,
                       rank ? kvmill_unpacked_step(result, outer) : 0};
    while (first < last) {
        int64_t rest = first / (row ? row : 1), column = first % row;
        int64_t count = row - column < last - first ? row - column : last - first;
        unsigned char *at[2] = {
            tensor_data(input) + kvmill_tensor_offset(input, 0, outer, rest) * bytes +
                column * step[0],
            tensor_data(result) + kvmill_tensor_offset(result, 0, outer, rest) * result_bytes +
                column * step[1]};
        if (plan->converts)
            convert_elements(&conversion, at, count, step);
        else
            kvmill_copy_elements(&bytes, at, count, step);
        first += count;
    }
}

/* The kernel that keeps rows copies a whole cache if there are no new rows. */
static void keep_dense(const struct scatter_plan *plan, int slot, const DLTensor *input,
                       const DLTensor *result, int64_t part) {
    int64_t row = kvmill_element_bytes(input->dtype);
    const struct kvmill_rows rows = {
        .past = tensor_data(input),
        .present = tensor_data(result),
        .batch = 1,
        .heads = 1,
        .capacity = plan->elements,
        .row = row,
        .past_stride.row = row,
        .present_stride.row = row,
        .chunks = plan->copy_parts,
        .stream_keep = plan->elements * row >= plan->around ? plan->copy_streams : 0,
    };
    plan->copy[slot]->run(&rows, part, part + 1);
}

/* One point without an index, whose window is the elements [first, last). */
static void convert_dense(const struct kvmill_kernel *kernel, const DLTensor *input,
                          const DLTensor *result, int64_t first, int64_t last) {
    int64_t from = kvmill_element_bytes(input->dtype), to = kvmill_element_bytes(result->dtype);
    struct kvmill_scatter_slots slots;
    struct kvmill_scatter_windows *p = &slots.windows;
    p->shape = NULL;
    p->indices = NULL;
    p->result = slots.result[0] = tensor_data(result) + first * to;
    p->updates = slots.updates[0] = tensor_data(input) + first * from;
    p->point_loops = p->window_loops = p->row_loops = 1;
    p->fits = 0;
    p->point[0] = (struct kvmill_scatter_loop){1, 0, 0, 0};
    p->window[0] = p->rows[0] = (struct kvmill_scatter_loop){last - first, to, from, 0};
    kernel->run(&slots, 0, 1);
}

static bool is_dense(const DLTensor *tensor) {
    return kvmill_tensor_is_dense_from(tensor, 0);
}

static void copy_slot(const struct scatter_call *call, int slot, int64_t part) {
    const struct scatter_plan *plan = scatter_plan_of(call);
    const DLTensor *input = call->tensors[slot];
    const DLTensor *result = call->tensors[scatter_result_at(plan, slot)];
    int64_t first = boundary(plan->elements, plan->copy_parts, part);
    int64_t last = boundary(plan->elements, plan->copy_parts, part + 1);
    if (plan->copy[slot] == NULL || !is_dense(input) || !is_dense(result))
        copy_elements(plan, input, result, slot, first, last);
    else if (plan->copy[slot]->family == KVMILL_KEEP_ROWS)
        keep_dense(plan, slot, input, result, part);
    else
        convert_dense(plan->copy[slot], input, result, first, last);
}

static void copy_part(const struct scatter_call *call, int64_t part) {
    const struct scatter_plan *plan = scatter_plan_of(call);
    for (int i = 0; i < plan->count; i++)
        copy_slot(call, i, part);
}

/* ---- Applying updates ---- */

/* All inputs at once. */
static void apply_region(struct scatter_part *part) {
    if (!kvmill_scatter_slots_fit(part->call))
        kvmill_portable_scatter.run(part, 0, 1);
    else if (kvmill_scatter_slots_set(part))
        scatter_plan_of(part->call)->kernel[0]->run(part, 0, 1);
}

/* The targets with coordinates [first, last) along the axis that is split. */
static void apply_range(const struct scatter_call *call, int64_t first, int64_t last) {
    const struct scatter_plan *plan = scatter_plan_of(call);
    struct scatter_part part;
    part.call = call;
    part.own_first = first;
    part.own_last = last;
    if (plan->kernel[0] == &kvmill_portable_scatter) {
        plan->kernel[0]->run(&part, 0, 1);
        return;
    }
    if (plan->kernel[0]->family == KVMILL_SCATTER_REGION) {
        apply_region(&part);
        return;
    }
    for (int i = 0; i < plan->count; i++)
        if (kvmill_scatter_windows_set(&part, i))
            plan->kernel[i]->run(&part, 0, 1);
}

static void apply_part(const struct scatter_call *call, int64_t part) {
    const struct scatter_plan *plan = scatter_plan_of(call);
    apply_range(call, boundary(plan->extent, plan->apply_parts, part),
                boundary(plan->extent, plan->apply_parts, part + 1));
}

void kvmill_scatter_part(const struct call *base, int64_t part) {
    const struct scatter_call *call = call_of(base);
    if (call->phase == COPY)
        copy_part(call, part);
    else
        apply_part(call, part);
}

/* With one thread, a single part avoids examining the indices once for each part. */
void kvmill_scatter_all(const struct call *base) {
    const struct scatter_call *call = call_of(base);
    const struct scatter_plan *plan = scatter_plan_of(call);
    for (int64_t part = 0; call->phase == COPY && part < plan->copy_parts; part++)
        copy_part(call, part);
    if (call->phase == APPLY && plan->apply_parts > 0)
        apply_range(call, 0, plan->extent);
}
