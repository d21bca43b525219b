/* Builds adjacent fields of a flow from separate arrays.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_FIELDS_H
#define KVMILL_TOOLS_RUN_FIELDS_H

#include "run_op.h"

/* Moves fields to one piece of memory if the flow says that they are adjacent.  The arrays for
   files stay as they are. */
bool fields_lay(const struct kvmill_flow_problem *problem, struct arrays *arrays,
                struct error *error);

#endif
