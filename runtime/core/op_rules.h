/* The rules for tensors that an op's description states.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_OP_RULES_H
#define KVMILL_RUNTIME_CORE_OP_RULES_H

#include "../../defs/op.h"
#include "check.h"

/* Set rules[] of all tensors that the op's family has; the op's first struct is `attributes`. */
void kvmill_described_rules(const struct op *op, const void *attributes, struct tensor_rule *rules);

#endif
