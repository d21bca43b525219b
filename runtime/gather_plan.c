/* Planning stablehlo.gather.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../ops/fail.h"
#include "gather.h"
#include "select.h"

/* A part of a run is worth this much. */
enum { PART_BYTES = 256 << 10 };

static bool next(struct call *call) {
    (void)call;
    return false;
}

static void destroy(kvmill_plan *plan) {
    free(plan);
}

static const struct op gather_op = {
    .begin = kvmill_gather_begin,
    .parts = kvmill_gather_parts,
    .part = kvmill_gather_part,
    .next = next,
    .destroy = destroy,
};

static void set_shapes(struct gather_plan *plan, const kvmill_gather *op) {
    int64_t dims[KVMILL_MOST_RANK];
    const DLTensor *operand = op->operand, *indices = op->start_indices;
    kvmill_gather_result(&plan->windows, dims);
    kvmill_shaped_set(&plan->shaped[KVMILL_OPERAND], "operand", operand->dtype, operand->ndim,
                      operand->shape);
    kvmill_shaped_set(&plan->shaped[KVMILL_START_INDICES], "start_indices", indices->dtype,
                      indices->ndim, indices->shape);
    kvmill_shaped_set(&plan->shaped[KVMILL_RESULT], "result", operand->dtype,
                      plan->windows.windowed_rank, dims);
    plan->shaped[KVMILL_RESULT].is_output = true;
}

static void set_parts(struct gather_plan *plan) {
    int64_t count = kvmill_shaped_count(&plan->shaped[KVMILL_RESULT]);
    int64_t worth = count / (PART_BYTES / plan->element_bytes) + 1;
    plan->points = count > 0;
    for (int j = 0; count > 0 && j < plan->windows.space_rank; j++)
        plan->points *= plan->windows.space[j];
    plan->parts = worth < plan->points ? worth : plan->points;
}

static void set_fill(struct gather_plan *plan, const kvmill_gather *op) {
    DLDataType type = op->operand->dtype;
    plan->fills = op->mode != NULL && strcmp(op->mode, "fill") == 0;
    if (op->fill_value != NULL)
        memcpy(plan->fill, op->fill_value, (size_t)plan->element_bytes);
    else
        kvmill_scalar_store(type, kvmill_scalar_fill(type), plan->fill);
}

static void describe(struct gather_plan *plan, const kvmill_gather *op, const char *reason) {
    struct kvmill_shape_text operand, indices, slices;
    DLTensor sizes = {.ndim = (int)op->slice_sizes.count,
                      .shape = (int64_t *)(uintptr_t)op->slice_sizes.items};
    snprintf(
        plan->base.description, sizeof plan->base.description,
        "stablehlo.gather, %s, operand %s, start_indices %s of %s, slice_sizes %s, %s: %" PRId64
        " windows with the portable kernel (%s)",
        kvmill_element_word(op->operand->dtype), kvmill_shape_words(op->operand, &operand),
        kvmill_shape_words(op->start_indices, &indices),
        kvmill_element_word(op->start_indices->dtype), kvmill_shape_words(&sizes, &slices),
        plan->fills ? "fill" : "clip", plan->points, reason);
}

static struct gather_plan *make(const kvmill_gather *op, const struct kvmill_windows *windows,
                                const char *reason) {
    struct gather_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->base.op = &gather_op;
    plan->windows = *windows;
    plan->element_bytes = kvmill_element_bytes(op->operand->dtype);
    set_shapes(plan, op);
    set_parts(plan);
    set_fill(plan, op);
    describe(plan, op, reason);
    return plan;
}

kvmill_status kvmill_plan_gather(const kvmill_gather *op, const kvmill_plan_options *options,
                                 kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_windows windows;
    struct shelf shelf;
    if (plan == NULL || op == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL", plan == NULL ? "plan" : "op");
    *plan = NULL;
    kvmill_status status = kvmill_plan_check_sizes(op->struct_size, sizeof *op, options, error);
    if (status == KVMILL_OK)
        status = kvmill_gather_check(op, &windows, error);
    if (status == KVMILL_OK)
        status = kvmill_open_shelf(options, &shelf, error);
    if (status != KVMILL_OK)
        return status;
    struct gather_plan *made =
        make(op, &windows,
             shelf.portable_reason ? shelf.portable_reason : "no kernel is generated for it");
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    *plan = &made->base;
    kvmill_plan_announce(*plan);
    return kvmill_succeed(error);
}
