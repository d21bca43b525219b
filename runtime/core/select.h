/* Selection of kernels for a problem, by one walk over all kernels of all packs.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_SELECT_H
#define KVMILL_RUNTIME_CORE_SELECT_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

#include "by_size.h"

struct selection {
    struct by_size by_size; /* one kernel, or several if its pack has them */
    const char *origin;     /* name of the pack, or why it is the portable kernel */
};

/* The kernel for a call of this size. */
static inline const struct kvmill_kernel *kvmill_selected_kernel(
    const struct selection *selection, const struct kvmill_call_size *size) {
    return kvmill_kernel_of_size(&selection->by_size, size);
}

/* The search: the same for all kernels of a plan. */
struct kernel_search {
    const kvmill_pack *const *packs;
    size_t pack_count;
    int isa_cap;
    uint32_t abi;                /* of the oldest kernels that are accepted */
    const char *least_isa;       /* of defs/isa.c; NULL: portable kernels are accepted, too */
    const char *portable_reason; /* why no pack is searched, or NULL */
};

/* Refuse packs with another ABI, and instruction sets with unknown names. */
kvmill_status kvmill_open_search(const kvmill_plan_options *options, struct kernel_search *search,
                                 kvmill_error *error);

/* Why a search ends with a portable kernel. */
const char *kvmill_why_portable(const struct kernel_search *search);

/* What to look for: a problem's shape, with KVMILL_DYNAMIC for what only a run knows. */
struct wanted {
    enum kvmill_family family;
    const void *shape; /* the family's shape struct */
    const struct kvmill_kernel *portable;
};

/* The search for a kernel that writes rows of this shape, and saturates scales if that is wanted
   and ever needed.  Older kernels make such scales infinite. */
struct kernel_search kvmill_search_of_writer(const struct kernel_search *search,
                                             const struct kvmill_convert_shape *shape,
                                             bool saturates);

/* The best instruction set wins, then the kernel that fixes most of the shape, then the first. */
struct selection kvmill_select_kernel(const struct kernel_search *search,
                                      const struct wanted *wanted);

/* Whether a kernel of one shape can do what a problem of another shape needs. */
bool kvmill_gather_shapes_equal(const struct kvmill_gather_shape *a,
                                const struct kvmill_gather_shape *b);

/* Kernels that attend, one for each size of tile. */
enum { MOST_TILES = 16 };
struct attend_selection {
    int count;
    struct by_size tiles[MOST_TILES]; /* shape.rows ascending */
    const char *origin;
    bool portable; /* a single kernel, whose shape does not state its rows */
};

/* The wanted arithmetic counts more than the best instruction set.  An exact kernel may serve a
   plan for fast arithmetic, and a kernel with more terms may serve a problem with fewer. */
struct attend_selection kvmill_select_attend(const struct kernel_search *search,
                                             const struct kvmill_attend_shape *wanted);

#endif
