/* A call of the library on memory between fences, with checks that hold for any arguments; and
   arguments of a hostile caller: shapes, strides, offsets, types, NULL pointers, foreign memory.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_CALL_H
#define KVMILL_TESTS_FUZZ_CALL_H

#include "../fence.h"

struct call {
    const struct fenced_tensor *memory; /* of the call; entries without pages are absent */
    int count;
    const DLTensor *const *tensors;
    kvmill_status (*plan)(void *context, const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error);
    void *context;
    struct dice *dice;
};

/* Plans with random options: packs, portable, an instruction set, threads.  Returns NULL if the
   plan is refused, which must have a reason. */
kvmill_plan *call_plan(const struct call *call);

/* Runs the plan at once or in parts of any order.  Either the run is done, or it is refused with a
   reason and nothing is written.  No fence may be touched. */
void call_run(const struct call *call, const kvmill_plan *plan);

/* ---- Bent tensors ---- */

/* Returns any number: mostly small, sometimes an end of its range. */
int64_t bend_number(struct dice *dice);

/* Makes a changed copy of `from` with its own lists.  Unless it describes absurd memory (sizes
   beyond an address space, negative extents), all its elements are in the memory. */
void bend_tensor(struct fenced_tensor *bent, const struct fenced_tensor *from, struct dice *dice);

/* Changes a few integers of a tensor to any others. */
void bend_indices(const struct fenced_tensor *tensor, struct dice *dice);

#endif
