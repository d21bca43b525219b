/* WriteRows. write_rows_plan.c creates plans, write_rows_run.c runs them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_OPS_WRITE_ROWS_PLAN_H
#define KVMILL_RUNTIME_OPS_WRITE_ROWS_PLAN_H

#include "../../ops/write_rows.h"
#include "../core/check.h"
#include "../core/plan.h"

struct rows_plan {
    kvmill_plan base;
    struct kvmill_convert_shape shape;
    bool saturates; /* scales that their type cannot hold become its largest number */
    struct by_size kernel;
    struct tensor_rule rules[KVMILL_WRITE_ROWS_TENSORS];
};

/* The hooks of a plan's runs. */
kvmill_status kvmill_write_rows_begin(struct call *base, const DLTensor *const *tensors,
                                      kvmill_error *error);
int64_t kvmill_write_rows_parts(const struct call *base);
void kvmill_write_rows_part(const struct call *base, int64_t number);
double kvmill_write_rows_work(const struct call *base);
bool kvmill_write_rows_next(struct call *base);

#endif
