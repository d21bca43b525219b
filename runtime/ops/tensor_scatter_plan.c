/* Planning ONNX TensorScatter-24.

   SPDX-License-Identifier: Apache-2.0 */
#include "tensor_scatter_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/fail.h"
#include "../core/calibration.h"
#include "../core/select.h"
#include "../core/tensor.h"

static void destroy_tensor_scatter(kvmill_plan *plan) {
    free(plan);
}

static const struct plan_op tensor_scatter_op = {
    .begin = kvmill_tensor_scatter_begin,
    .parts = kvmill_tensor_scatter_parts,
    .work = kvmill_tensor_scatter_work,
    .part = kvmill_tensor_scatter_part,
    .all = kvmill_tensor_scatter_all,
    .next = kvmill_tensor_scatter_next,
    .destroy = destroy_tensor_scatter,
};

/* Counts that only a run knows do not matter here. */
static bool prototype_folds(const DLTensor *tensor, int axis) {
    struct tensor_view view = {.folds = true};
    if (tensor != NULL)
        kvmill_tensor_look(tensor, axis, &view);
    return view.folds;
}

static bool prototypes_fold(const kvmill_tensor_scatter *op, int axis) {
    return prototype_folds(op->past_cache, axis) && prototype_folds(op->update, axis) &&
           prototype_folds(op->present_cache, axis);
}

/* The bytes of an element, as factor and shift: kernel units may be bytes or nibbles. */
static void set_units(struct tensor_scatter_plan *plan) {
    int bits = kvmill_dtype_bits(plan->dtype);
    plan->unit_factor = bits == 4 ? 1 : bits / 8;
    plan->unit_shift = bits < plan->shape.unit_bits;
}

/* What one prototype leaves open, another may state; otherwise past_cache states it in a run. */
static void set_dims(struct tensor_scatter_plan *plan, const kvmill_tensor_scatter *op) {
    int axis = plan->geometry.axis, rank = plan->rank;
    int64_t *past = plan->numbers, *update = past + rank, *present = update + rank;
    for (int d = 0; d < rank; d++) {
        past[d] = kvmill_tensor_scatter_dim(op, axis, d);
        present[d] = past[d] == KVMILL_DYNAMIC ? kvmill_dim_of(KVMILL_TENSOR_SCATTER_PAST_CACHE, d)
                                               : past[d];
        update[d] = d == axis ? op->update->shape[d] : present[d];
    }
    present[rank] = present[0]; /* for write_indices: the batch */
}

static void set_rules(struct tensor_scatter_plan *plan) {
    const struct tensor_rule rows = {.presence = REQUIRED, .type = plan->dtype, .rank = plan->rank};
    struct tensor_rule *past = &plan->rules[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    struct tensor_rule *update = &plan->rules[KVMILL_TENSOR_SCATTER_UPDATE];
    struct tensor_rule *present = &plan->rules[KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
    *past = *update = *present = rows;
    past->name = "past_cache";
    past->dims = plan->numbers;
    update->name = "update";
    update->dims = past->dims + plan->rank;
    present->name = "present_cache";
    present->dims = update->dims + plan->rank;
    present->output = present->in_place = true;
    present->replaces = KVMILL_TENSOR_SCATTER_PAST_CACHE;
    plan->rules[KVMILL_TENSOR_SCATTER_WRITE_INDICES] = (struct tensor_rule){
        .name = "write_indices",
        .presence = plan->has_indices ? PLANNED : ABSENT,
        .type = kvmill_int64,
        .rank = 1,
        .dims = present->dims + plan->rank,
    };
}

static const int64_t *keep_strides(const DLTensor *tensor, int64_t *to) {
    if (tensor->strides == NULL)
        return NULL;
    return memcpy(to, tensor->strides, (size_t)tensor->ndim * sizeof *to);
}

static struct tensor_scatter_plan *allocate(const kvmill_tensor_scatter *op,
                                            const struct kvmill_row_geometry *geometry) {
    int rank = op->past_cache->ndim;
    size_t dims = sizeof(int64_t) * (size_t)rank;
    struct tensor_scatter_plan *plan = calloc(1, sizeof *plan + 5 * dims + sizeof(int64_t));
    if (plan == NULL)
        return NULL;
    plan->base.op = &tensor_scatter_op;
    plan->base.tensor_count = KVMILL_TENSOR_SCATTER_TENSORS;
    plan->geometry = *geometry;
    plan->dtype = op->past_cache->dtype;
    plan->shape = kvmill_rows_shape_of(geometry, plan->dtype);
    set_units(plan);
    plan->has_indices = op->write_indices != NULL;
    plan->copy_streams = kvmill_calibration()->copy_streams;
    plan->around = kvmill_calibration()->around;
    plan->rank = rank;
    set_dims(plan, op);
    set_rules(plan);
    int64_t *strides = plan->numbers + 3 * rank + 1;
    plan->past_strides = keep_strides(op->past_cache, strides);
    plan->update_strides = keep_strides(op->update, strides + rank);
    return plan;
}

static const char *pack_word(const struct selection *selection,
                             const struct kvmill_kernel *portable) {
    return selection->by_size.kernel == portable ? "" : "pack ";
}

static void describe(struct tensor_scatter_plan *plan, const kvmill_tensor_scatter *op,
                     const struct selection *store, const struct selection *keep) {
    struct kvmill_shape_text past, update;
    char *text = plan->base.description;
    size_t size = sizeof plan->base.description;
    snprintf(text, size,
             "TensorScatter %s, %s, past_cache %s, update %s, axis %d: store with %s (%s%s), keep "
             "with %s (%s%s)",
             plan->geometry.circular ? "circular" : "linear", kvmill_dtype_name(plan->dtype),
             kvmill_shape_words(op->past_cache, &past), kvmill_shape_words(op->update, &update),
             plan->geometry.axis, store->by_size.kernel->symbol,
             pack_word(store, &kvmill_portable_store_rows), store->origin,
             keep->by_size.kernel->symbol, pack_word(keep, &kvmill_portable_keep_rows),
             keep->origin);
    size_t used = strlen(text);
    used += kvmill_by_size_words(&store->by_size, text + used, size - used);
    kvmill_by_size_words(&keep->by_size, text + used, size - used);
}

static kvmill_status check_strides(const struct tensor_scatter_plan *plan,
                                   const kvmill_tensor_scatter *op, kvmill_error *error) {
    const DLTensor *tensors[] = {op->past_cache, op->update, op->write_indices, op->present_cache};
    const struct given_tensors given = {.rules = plan->rules,
                                        .count = KVMILL_TENSOR_SCATTER_TENSORS,
                                        .tensors = tensors,
                                        .error = error};
    return kvmill_check_strides(&given);
}

static kvmill_status select_kernels(struct tensor_scatter_plan *plan,
                                    const kvmill_tensor_scatter *op,
                                    const kvmill_plan_options *options, kvmill_error *error) {
    struct kernel_search search;
    kvmill_status status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    if (search.portable_reason == NULL && !prototypes_fold(op, plan->geometry.axis))
        search.portable_reason = "the strides do not fold to [batch, heads, slot, row]";
    struct selection store = kvmill_select_kernel(
        &search, &(struct wanted){KVMILL_STORE_ROWS, &plan->shape, &kvmill_portable_store_rows});
    struct selection keep = kvmill_select_kernel(
        &search, &(struct wanted){KVMILL_KEEP_ROWS, &plan->shape, &kvmill_portable_keep_rows});
    plan->store = store.by_size;
    plan->keep = keep.by_size;
    kvmill_need(&plan->base.needs, &search, EVERY_RUN, "store rows", store.by_size.kernel);
    kvmill_need(&plan->base.needs, &search, SOME_RUNS, "keep rows", keep.by_size.kernel);
    kvmill_tensor_scatter_prepare(plan, op);
    describe(plan, op, &store, &keep);
    return KVMILL_OK;
}

kvmill_status kvmill_plan_tensor_scatter(const kvmill_tensor_scatter *given,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *error) {
    struct kvmill_row_geometry geometry;
    kvmill_tensor_scatter op;
    struct plan_call call = {.part = kvmill_op_of(OP_TENSOR_SCATTER, 0)->parts[0],
                             .given = given,
                             .op = &op,
                             .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status == KVMILL_OK)
        status = kvmill_tensor_scatter_check(&op, &geometry, error);
    if (status != KVMILL_OK)
        return status;
    struct tensor_scatter_plan *made = allocate(&op, &geometry);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    status = check_strides(made, &op, error);
    if (status == KVMILL_OK)
        status = select_kernels(made, &op, &call.options, error);
    if (status != KVMILL_OK) {
        free(made);
        return status;
    }
    return kvmill_plan_finish(&made->base, plan, error);
}
