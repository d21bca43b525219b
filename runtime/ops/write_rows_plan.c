/* Planning WriteRows.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../../defs/dtype.h"
#include "../../defs/format.h"
#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "../core/op_rules.h"
#include "../core/plan_words.h"
#include "../core/select.h"
#include "../portable/portable.h"
#include "write_rows_plan.h"

static void destroy_write_rows(kvmill_plan *plan) {
    free(plan);
}

static const struct plan_op write_rows = {
    .begin = kvmill_write_rows_begin,
    .parts = kvmill_write_rows_parts,
    .part = kvmill_write_rows_part,
    .work = kvmill_write_rows_work,
    .next = kvmill_write_rows_next,
    .destroy = destroy_write_rows,
};

static void select_kernel(struct rows_plan *plan, const kvmill_write_rows *op,
                          const struct kernel_search *search) {
    const struct wanted wanted = {KVMILL_WRITE_ROWS, &plan->shape, &kvmill_portable_write_rows};
    const struct kernel_search writers =
        kvmill_search_of_writer(search, &plan->shape, plan->saturates);
    struct selection selection = kvmill_select_kernel(&writers, &wanted);
    struct words words = {plan->base.description, sizeof plan->base.description};
    plan->kernel = selection.by_size;
    kvmill_need(&plan->base.needs, search, EVERY_RUN, "write rows", plan->kernel.kernel);
    kvmill_words_add(
        &words, "WriteRows, rows %s of %d, cache %s; write with %s (%s%s)",
        kvmill_dtype_name(op->T1), plan->shape.format.dim,
        kvmill_format_parts(plan->shape.format.element)->word, plan->kernel.kernel->symbol,
        plan->kernel.kernel == &kvmill_portable_write_rows ? "" : "pack ", selection.origin);
}

static kvmill_status make_plan(const kvmill_write_rows *op, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    struct kvmill_convert_shape shape;
    struct kernel_search search;
    kvmill_status status = kvmill_write_rows_check(op, &shape, error);
    if (status == KVMILL_OK)
        status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    struct rows_plan *made = calloc(1, sizeof *made);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    made->base.op = &write_rows;
    made->base.tensor_count = KVMILL_WRITE_ROWS_TENSORS;
    made->shape = shape;
    made->saturates = kvmill_write_rows_saturates(op);
    kvmill_described_rules(&kvmill_write_rows_op, op, made->rules);
    select_kernel(made, op, &search);
    return kvmill_plan_finish(&made->base, plan, error);
}

kvmill_status kvmill_plan_write_rows(const kvmill_write_rows *given,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *error) {
    kvmill_write_rows op;
    struct plan_call call = {
        .part = kvmill_write_rows_op.parts[0], .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    return status == KVMILL_OK ? make_plan(&op, &call.options, plan, error) : status;
}
