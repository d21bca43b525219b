/* Which kernel runs a program of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/flow_text.h"
#include "flow.h"
#include "portable.h"

/* The text of no program is that of no kernel. */
static struct selection select_program(const struct shelf *shelf,
                                       const struct kvmill_flow_problem *problem,
                                       enum kvmill_flow_part part) {
    struct kvmill_flow_text text;
    kvmill_flow_text_make(problem, part, &text);
    const struct kvmill_flow_program_shape shape = {text.text};
    const struct wanted wanted = {KVMILL_FLOW_PROGRAM, &shape, &kvmill_portable_flow_program};
    return kvmill_select_kernel(shelf, &wanted);
}

void kvmill_flow_select_programs(const struct shelf *shelf,
                                 const struct kvmill_flow_problem *problem,
                                 struct flow_kernels *kernels) {
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kernels->program[part] = select_program(shelf, problem, (enum kvmill_flow_part)part);
}
