/* SPDX-License-Identifier: Apache-2.0 */
#include "phase.h"

static const struct phase *present(const struct call *call) {
    return *((const struct phased_call *)(const void *)call)->phase;
}

int64_t kvmill_phase_parts(const struct call *call) {
    return present(call)->parts(call);
}

void kvmill_phase_part(const struct call *call, int64_t part) {
    present(call)->part(call, part);
}

double kvmill_phase_work(const struct call *call) {
    return present(call)->work(call);
}

bool kvmill_phase_next(struct call *call) {
    struct phased_call *phased = (struct phased_call *)(void *)call;
    do
        phased->phase++;
    while (*phased->phase != NULL && (*phased->phase)->parts(call) == 0);
    return *phased->phase != NULL;
}
