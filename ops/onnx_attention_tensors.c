/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "../defs/op.h"
#include "onnx_attention.h"

/* The members of the op's struct for its tensors. */
#define PLACE(index, member) [KVMILL_ATTENTION_##index] = offsetof(kvmill_attention, member)
static const size_t places[KVMILL_ATTENTION_TENSORS] = {
    PLACE(Q, Q),
    PLACE(K, K),
    PLACE(V, V),
    PLACE(ATTN_MASK, attn_mask),
    PLACE(PAST_KEY, past_key),
    PLACE(PAST_VALUE, past_value),
    PLACE(NONPAD_KV_SEQLEN, nonpad_kv_seqlen),
    PLACE(Y, Y),
    PLACE(PRESENT_KEY, present_key),
    PLACE(PRESENT_VALUE, present_value),
    PLACE(QK_MATMUL_OUTPUT, qk_matmul_output),
};

const char *kvmill_attention_name(int tensor) {
    return kvmill_op_tensor(kvmill_op_of(OP_ATTENTION, 1), tensor)->name;
}

void kvmill_attention_tensors(const kvmill_attention *op, const DLTensor **tensors) {
    for (int i = 0; i < KVMILL_ATTENTION_TENSORS; i++)
        memcpy(&tensors[i], (const char *)op + places[i], sizeof *tensors);
}

void kvmill_attention_set_tensors(const DLTensor *const *tensors, kvmill_attention *op) {
    for (int i = 0; i < KVMILL_ATTENTION_TENSORS; i++)
        memcpy((char *)op + places[i], &tensors[i], sizeof *tensors);
}
