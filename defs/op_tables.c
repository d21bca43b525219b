/* SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

#include <string.h>

/* ---- The registry ---- */

const struct op *const kvmill_ops[] = {
    &kvmill_tensor_scatter_op,
    &kvmill_cache_attention_ops[0],
    &kvmill_cache_attention_ops[1],
    &kvmill_cache_attention_ops[2],
    &kvmill_cache_attention_ops[3],
    &kvmill_cache_attention_ops[4],
    &kvmill_cache_attention_ops[5],
    &kvmill_gather_op,
    &kvmill_scatter_op,
    &kvmill_flow_op_def,
    &kvmill_attention_ops[0],
    &kvmill_attention_ops[1],
    &kvmill_cache_attend_op,
    &kvmill_write_rows_op,
    NULL,
};

const struct op *kvmill_op_by_name(const char *name) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (strcmp(kvmill_ops[i]->name, name) == 0)
            return kvmill_ops[i];
    return NULL;
}

const struct op *kvmill_op_of(enum op_family family, int number) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family == family && kvmill_ops[i]->number == number)
            return kvmill_ops[i];
    return NULL;
}
