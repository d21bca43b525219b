/* kvmill run for WriteRows.

   SPDX-License-Identifier: Apache-2.0 */
#include "run_op.h"

static bool prepare_write_rows(struct spec *spec, struct arrays *arrays, struct error *error) {
    const struct described described = described_by(spec);
    return described_require(&described, arrays, error) &&
           described_adopt(&described, arrays, error);
}

static kvmill_status plan_write_rows(const struct spec *spec, const struct arrays *arrays,
                                     const kvmill_plan_options *options, kvmill_plan **plan,
                                     kvmill_error *reason) {
    (void)arrays;
    return kvmill_plan_write_rows(&spec->write_rows, options, plan, reason);
}

const struct run_op write_rows_run = {
    .tensors = KVMILL_WRITE_ROWS_TENSORS,
    .prepare = prepare_write_rows,
    .plan = plan_write_rows,
};
