/* Several kernels of a pack that do the same, each of which was the fastest at some size.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_BY_SIZE_H
#define KVMILL_RUNTIME_BY_SIZE_H

#include <kvmill_kernel.h>

/* The records of one choice; none: there is nothing to choose. */
struct by_size {
    const struct kvmill_measured *measured;
    uint32_t count;
};

/* That of the pack in which the kernel is. */
struct by_size kvmill_by_size_of(const kvmill_pack *pack, const struct kvmill_kernel *kernel);

/* The kernel whose size is nearest: by the ratios of batches, tokens and positions; of equally near
   ones the first.  A size of its own is all that counts, so that the same call gets the same kernel
   on any number of threads. */
const struct kvmill_kernel *kvmill_nearest_kernel(const struct by_size *by_size,
                                                  const struct kvmill_call_size *size);

#endif
