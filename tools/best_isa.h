/* The instruction set that "native" stands for.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BEST_ISA_H
#define KVMILL_TOOLS_BEST_ISA_H

/* Returns the best instruction set of this CPU, or the one to which KVMILL_ISA limits it. */
const char *best_isa(void);

#endif
