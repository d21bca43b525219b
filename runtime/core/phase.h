/* The hooks of ops whose calls have several phases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_PHASE_H
#define KVMILL_RUNTIME_CORE_PHASE_H

#include "plan.h"

/* The parts of a phase may run in any order. */
struct phase {
    int64_t (*parts)(const struct call *call);
    void (*part)(const struct call *call, int64_t part);
    double (*work)(const struct call *call); /* as of a plan_op */
};

/* A call with phases begins with this. */
struct phased_call {
    struct call base;
    const struct phase *const *phase; /* the present phase and those after it; ends with NULL */
};

int64_t kvmill_phase_parts(const struct call *call);
void kvmill_phase_part(const struct call *call, int64_t part);
double kvmill_phase_work(const struct call *call);

/* Phases without parts are skipped. */
bool kvmill_phase_next(struct call *call);

#endif
