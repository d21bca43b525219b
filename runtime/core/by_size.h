/* A kernel; or several kernels of a pack that compute the same, each of which was the fastest for
   some size of call; and kernels that compute the same for problems with certain numbers, which are
   constants in them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_BY_SIZE_H
#define KVMILL_RUNTIME_CORE_BY_SIZE_H

#include <stdbool.h>

#include <kvmill_kernel.h>

enum { MOST_SPECIAL = 8 };

struct by_size {
    const struct kvmill_kernel *kernel;
    const struct kvmill_measured *measured; /* the records of its choice; */
    uint32_t count;                         /* 0: there is nothing to choose */
    uint32_t special_count;
    const struct kvmill_kernel *special[MOST_SPECIAL]; /* with constants; in the order of packs */
};

/* Whether the kernel has numbers of its problems as constants. */
bool kvmill_has_constants(const struct kvmill_kernel *kernel);

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

/* The first special kernel that has the problem's numbers; NULL: none has. */
const struct kvmill_kernel *kvmill_special_kernel(const struct by_size *by_size,
                                                  const void *problem);

/* That one, or the one for calls of that size. */
static inline const struct kvmill_kernel *kvmill_kernel_of_problem(
    const struct by_size *by_size, const struct kvmill_call_size *size, const void *problem) {
    const struct kvmill_kernel *special =
        by_size->special_count > 0 ? kvmill_special_kernel(by_size, problem) : NULL;
    return special != NULL ? special : kvmill_kernel_of_size(by_size, size);
}

/* "; by the nearest size: decode 1 on 512 with SYMBOL, ...; where heads 8, ...: SYMBOL" into `size`
   bytes of text, cut where it does not fit; nothing for a single kernel.  The bytes that are used.
 */
size_t kvmill_by_size_words(const struct by_size *by_size, char *text, size_t size);

#endif
