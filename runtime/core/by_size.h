/* A choice among kernels that compute the same.  It is one kernel; or several kernels of a pack,
   each the fastest for some size of call; and kernels in which certain numbers of a problem are
   constants.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_BY_SIZE_H
#define KVMILL_RUNTIME_CORE_BY_SIZE_H

#include <stdbool.h>

#include <kvmill_kernel.h>

enum { MOST_SPECIAL = 8 };

struct by_size {
    const struct kvmill_kernel *kernel;
    const struct kvmill_measured *measured; /* the records of the choice; */
    uint32_t count;                         /* 0: there is only one kernel */
    uint32_t special_count;
    const struct kvmill_kernel *special[MOST_SPECIAL]; /* with constants; in the order of packs */
};

/* Whether the kernel has numbers of its problems as constants. */
bool kvmill_has_constants(const struct kvmill_kernel *kernel);

/* A kernel with its choice in the pack. */
struct by_size kvmill_by_size_of(const struct kvmill_pack *pack,
                                 const struct kvmill_kernel *kernel);

/* The kernel of the nearest size, by the ratios of batches, tokens and positions; of equally near
   ones the first.  Nothing else counts, so that the same call gets the same kernel for any number
   of threads. */
const struct kvmill_kernel *kvmill_nearest_kernel(const struct by_size *by_size,
                                                  const struct kvmill_call_size *size);

/* The only kernel, or the one of the nearest size. */
static inline const struct kvmill_kernel *kvmill_kernel_of_size(
    const struct by_size *by_size, const struct kvmill_call_size *size) {
    return by_size->count == 0 ? by_size->kernel : kvmill_nearest_kernel(by_size, size);
}

/* The first kernel whose constants are the problem's numbers; NULL if there is none. */
const struct kvmill_kernel *kvmill_special_kernel(const struct by_size *by_size,
                                                  const void *problem);

/* That kernel, or the one for calls of this size. */
static inline const struct kvmill_kernel *kvmill_kernel_of_problem(
    const struct by_size *by_size, const struct kvmill_call_size *size, const void *problem) {
    const struct kvmill_kernel *special =
        by_size->special_count > 0 ? kvmill_special_kernel(by_size, problem) : NULL;
    return special != NULL ? special : kvmill_kernel_of_size(by_size, size);
}

/* Write "; by the nearest size: decode 1 on 512 with SYMBOL, ...; where heads 8, ...: SYMBOL" to
   `size` bytes of text, cut if it does not fit; nothing for a single kernel.  Returns the bytes
   used. */
size_t kvmill_by_size_words(const struct by_size *by_size, char *text, size_t size);

#endif
