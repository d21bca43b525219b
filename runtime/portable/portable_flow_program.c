/* Runs a program of a flow by interpreting it.

   SPDX-License-Identifier: Apache-2.0 */
#include "../flow/flow_run.h"
#include "portable.h"

static void run_flow_program(const void *problem, int64_t first, int64_t last) {
    const struct flow_interpreted *interpreted;
    memcpy(&interpreted, problem, sizeof interpreted);
    interpreted->run(interpreted, problem, first, last);
}

const struct kvmill_kernel kvmill_portable_flow_program = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_FLOW_PROGRAM,
    .symbol = "kvmill_flow_program__portable",
    .isa = "portable",
    .run = run_flow_program,
};
