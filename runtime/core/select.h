/* Choice of kernels for a problem: one walk over all kernels of all packs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_SELECT_H
#define KVMILL_RUNTIME_CORE_SELECT_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

#include "by_size.h"

struct selection {
    struct by_size by_size; /* a kernel, or several where its pack has them */
    const char *origin;     /* name of the pack, or why it is the portable kernel */
};

/* The one of them for a call of that size. */
static inline const struct kvmill_kernel *kvmill_selected_kernel(
    const struct selection *selection, const struct kvmill_call_size *size) {
    return kvmill_kernel_of_size(&selection->by_size, size);
}

/* Where and how far to look: the same for all kernels of a plan. */
struct kernel_search {
    const kvmill_pack *const *packs;
    size_t pack_count;
    int isa_cap;
    const char *least_isa;       /* of defs/isa.c; NULL: portable kernels will do */
    const char *portable_reason; /* why no pack will do, or NULL */
};

/* Refuse packs of another ABI and instruction sets of no name. */
kvmill_status kvmill_open_search(const kvmill_plan_options *options, struct kernel_search *search,
                                 kvmill_error *error);

/* Why such a search ends at a portable kernel. */
const char *kvmill_why_portable(const struct kernel_search *search);

/* What is looked for: a problem's shape, KVMILL_DYNAMIC where only the run knows. */
struct wanted {
    enum kvmill_family family;
    const void *shape; /* the family's shape struct */
    const struct kvmill_kernel *portable;
};

/* The best instruction set wins, then the kernel that fixes most of the shape, then the first. */
struct selection kvmill_select_kernel(const struct kernel_search *search,
                                      const struct wanted *wanted);

/* Such a kernel can do what such a problem needs. */
bool kvmill_gather_shapes_equal(const struct kvmill_gather_shape *a,
                                const struct kvmill_gather_shape *b);

/* Kernels that attend, one for each size of tile. */
enum { MOST_TILES = 16 };
struct attend_selection {
    int count;
    struct by_size tiles[MOST_TILES]; /* shape.rows ascending */
    const char *origin;
    bool portable; /* one kernel, whose shape does not tell its rows */
};

/* Arithmetic as wanted before the best instruction set; an exact kernel will do where a fast one is
   wanted, and a kernel of more terms than the problem has. */
struct attend_selection kvmill_select_attend(const struct kernel_search *search,
                                             const struct kvmill_attend_shape *wanted);

#endif
