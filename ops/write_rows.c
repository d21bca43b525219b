/* SPDX-License-Identifier: Apache-2.0 */
#include "write_rows.h"

#include "attributes.h"
#include "cache_attention.h"

static kvmill_status check_activation(const kvmill_write_rows *op, kvmill_error *error) {
    char accepted[KVMILL_WORDS_SIZE];
    return kvmill_is_activation(kvmill_element_of(op->T1))
               ? KVMILL_OK
               : kvmill_refuse_member_type("", "T1", op->T1, kvmill_list_activations(accepted),
                                           error);
}

bool kvmill_write_rows_saturates(const kvmill_write_rows *op) {
    return kvmill_saturates(op->scale_overflow, true);
}

kvmill_status kvmill_write_rows_check(const kvmill_write_rows *op,
                                      struct kvmill_convert_shape *shape, kvmill_error *error) {
    const struct kvmill_side side = {
        "", false, op->head_dim, op->quant_bit, op->quant_group, op->T2, op->T3, op->cache_format,
        0};
    struct kvmill_convert_shape found = {.activation = kvmill_element_of(op->T1)};
    kvmill_status status = kvmill_check_members(OP_WRITE_ROWS, 0, op, error);
    if (status == KVMILL_OK)
        status = check_activation(op, error);
    if (status == KVMILL_OK)
        status = kvmill_check_side(&side, &found.format, found.activation, error);
    if (status == KVMILL_OK && kvmill_saturates(op->scale_overflow, false) && op->quant_bit == 0)
        status = kvmill_refuse_saturation(error);
    if (status == KVMILL_OK)
        *shape = found;
    return status;
}
