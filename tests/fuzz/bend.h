/* Tensors of a caller who means no good: shapes, strides, offsets, types, pointers that are NULL,
   memory that others have.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FUZZ_BEND_H
#define KVMILL_TESTS_FUZZ_BEND_H

#include "../fence.h"

/* A number that may be anything: mostly small, at times an end of its range. */
int64_t bend_number(struct dice *dice);

/* Another tensor than `from`; lists are the new one's own. Unless what it says of its memory is
   absurd (sizes beyond an address space, negative extents), all its elements are in the memory. */
void bend_tensor(struct fenced_tensor *bent, const struct fenced_tensor *from, struct dice *dice);

/* Integers of a tensor become any others. */
void bend_indices(const struct fenced_tensor *tensor, struct dice *dice);

#endif
