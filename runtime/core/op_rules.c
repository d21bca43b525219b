/* SPDX-License-Identifier: Apache-2.0 */
#include "op_rules.h"

static const enum presence presences[] = {[OP_ABSENT] = ABSENT,
                                          [OP_REQUIRED] = REQUIRED,
                                          [OP_OPTIONAL] = OPTIONAL,
                                          [OP_IGNORED] = IGNORED};

void kvmill_described_rules(const struct op *op, const void *attributes,
                            struct tensor_rule *rules) {
    for (int i = 0; i < op->tensor_count; i++) {
        const struct op_tensor *tensor = &op->tensors[i];
        rules[tensor->index] = (struct tensor_rule){
            .name = tensor->name,
            .presence = presences[kvmill_op_presence(op, attributes, tensor)],
            .type = kvmill_op_type(op, attributes, attributes, tensor),
            .or_type = kvmill_op_other_type(op, attributes, tensor),
            .output = kvmill_op_gives(op, attributes, tensor),
            .rows = tensor->rows,
            .empty_is_absent = tensor->empty_is_absent,
        };
    }
}
