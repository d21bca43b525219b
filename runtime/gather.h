/* The gather plan: made by gather_plan.c, run by gather_run.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_GATHER_H
#define KVMILL_RUNTIME_GATHER_H

#include "../ops/element.h"
#include "../ops/gather.h"
#include "plan.h"
#include "shaped.h"

struct gather_plan {
    kvmill_plan base;
    struct kvmill_windows windows;
    struct shaped shaped[KVMILL_GATHER_TENSORS];
    bool fills;
    unsigned char fill[16];
    int64_t element_bytes;
    int64_t points, parts; /* windows; a part is a range of them */
};

struct gather_call {
    struct call base;
    const DLTensor *tensors[KVMILL_GATHER_TENSORS];
};

_Static_assert(sizeof(struct gather_call) <= sizeof(kvmill_call), "kvmill_call is too small");

kvmill_status kvmill_gather_begin(struct call *call, const DLTensor *const *tensors,
                                  kvmill_error *error);
int64_t kvmill_gather_parts(const struct call *call);
void kvmill_gather_part(const struct call *call, int64_t part);

#endif
