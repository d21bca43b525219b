/* A kernel, or several of a pack that do the same, each of which was the fastest at some size.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_BY_SIZE_H
#define KVMILL_RUNTIME_CORE_BY_SIZE_H

#include <kvmill_kernel.h>

struct by_size {
    const struct kvmill_kernel *kernel;
    const struct kvmill_measured *measured; /* the records of its choice; */
    uint32_t count;                         /* 0: there is nothing to choose */
};

/* The kernel with its choice in the pack. */
struct by_size kvmill_by_size_of(const struct kvmill_pack *pack,
                                 const struct kvmill_kernel *kernel);

/* The kernel whose size is nearest: by the ratios of batches, tokens and positions; of equally near
   ones the first.  The size is all that counts, so that the same call gets the same kernel on any
   number of threads. */
const struct kvmill_kernel *kvmill_nearest_kernel(const struct by_size *by_size,
                                                  const struct kvmill_call_size *size);

/* The only one, or the nearest. */
static inline const struct kvmill_kernel *kvmill_kernel_of_size(
    const struct by_size *by_size, const struct kvmill_call_size *size) {
    return by_size->count == 0 ? by_size->kernel : kvmill_nearest_kernel(by_size, size);
}

/* "; by the nearest size: decode 1 on 512 with SYMBOL, ..." into `size` bytes of text, cut where it
   does not fit; nothing for a single kernel.  The bytes that are used. */
size_t kvmill_by_size_words(const struct by_size *by_size, char *text, size_t size);

#endif
