/* Kernels that run a program of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FLOW_PROGRAM_FAMILY_H
#define KVMILL_GEN_FLOW_PROGRAM_FAMILY_H

#include "../ops/flow.h"
#include "kernel.h"

extern const struct family flow_program_family;

/* Add the kernels for the programs of a flow. */
bool flow_program_kernels(const struct kvmill_flow_problem *problem, const struct isa *isa,
                          struct kernel_list *list, struct error *error);

#endif
