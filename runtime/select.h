/* Choice of a kernel for a problem: one walk over all kernels of all packs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_SELECT_H
#define KVMILL_RUNTIME_SELECT_H

#include <stdbool.h>

#include <kvmill.h>

struct selection {
    const struct kvmill_kernel *kernel;
    const char *origin; /* name of the pack, or why it is the portable kernel */
};

/* What is looked for. */
struct wanted {
    enum kvmill_family family;
    const void *shape; /* the family's shape struct; KVMILL_DYNAMIC where only the run knows */
    int kvmill_isa_cap;
    bool portable_only;
    const char *portable_reason;
    const struct kvmill_kernel *portable;
};

/* The best instruction set wins, then the kernel that fixes most of the shape, then the first. */
struct selection kvmill_select_kernel(const kvmill_pack *const *packs, size_t pack_count,
                                      const struct wanted *wanted);

/* Refuse packs of another ABI. */
kvmill_status kvmill_check_packs(const kvmill_pack *const *packs, size_t pack_count,
                                 kvmill_error *error);

#endif
