/* A call of the library on memory between fences: what holds of it, whatever it is given; and what
   a caller gives who means no good: shapes, strides, offsets, types, pointers that are NULL, memory
   that others have.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_CALL_H
#define KVMILL_TESTS_FUZZ_CALL_H

#include "../fence.h"

struct call {
    const struct fenced_tensor *memory; /* all there is; those without pages are not there */
    int count;
    const DLTensor *const *tensors;
    kvmill_status (*plan)(void *context, const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error);
    void *context;
    struct dice *dice;
};

/* With packs, portable, capped, for many threads; NULL: refused with a reason. */
kvmill_plan *call_plan(const struct call *call);

/* As one, or in parts of any order: refused with a reason and nothing written, or done; no fence
   is touched. */
void call_run(const struct call *call, const kvmill_plan *plan);

/* ---- Bent tensors ---- */

/* A number that may be anything: mostly small, at times an end of its range. */
int64_t bend_number(struct dice *dice);

/* Another tensor than `from`; lists are the new one's own. Unless what it says of its memory is
   absurd (sizes beyond an address space, negative extents), all its elements are in the memory. */
void bend_tensor(struct fenced_tensor *bent, const struct fenced_tensor *from, struct dice *dice);

/* Integers of a tensor become any others. */
void bend_indices(const struct fenced_tensor *tensor, struct dice *dice);

#endif
