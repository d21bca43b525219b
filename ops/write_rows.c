/* SPDX-License-Identifier: Apache-2.0 */
#include "write_rows.h"

#include "../defs/arithmetic.h"
#include "attributes.h"
#include "cache_format.h"

bool kvmill_write_rows_saturates(const kvmill_write_rows *op) {
    return kvmill_saturates(op->scale_overflow, true);
}

kvmill_status kvmill_write_rows_check(const kvmill_write_rows *op,
                                      struct kvmill_convert_shape *shape, kvmill_error *error) {
    const struct kvmill_side side = {
        .prefix = "",
        .dim = op->head_dim,
        .attributes = {op->quant_bit, op->quant_group, op->T2, op->T3, op->cache_format},
        .T1 = op->T1};
    struct kvmill_convert_shape found;
    kvmill_status status = kvmill_check_members(OP_WRITE_ROWS, 0, op, error);
    if (status == KVMILL_OK)
        status = kvmill_check_side(&side, &found, error);
    if (status == KVMILL_OK && kvmill_saturates(op->scale_overflow, false) &&
        found.format.scale == 0)
        status = kvmill_refuse_saturation(error);
    if (status == KVMILL_OK)
        *shape = found;
    return status;
}
