/* A folded gather: loops over axes, and a window to copy, all in bytes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_GATHER_FOLD_H
#define KVMILL_OPS_GATHER_FOLD_H

#include <kvmill_kernel.h>

#include "windows.h"

/* Windows with longer contiguous pieces are cut, so that kernels need not know their size.  Loops
   that would make a window larger become axes, so that parts can share it. */
enum { KVMILL_MOST_KNOWN_BYTES = 64 << 10, KVMILL_MOST_WINDOW_BYTES = 256 << 10 };

/* The bytes from one index of each axis to the next. */
struct kvmill_gather_steps {
    int64_t operand[KVMILL_MOST_RANK], indices[KVMILL_MOST_RANK], result[KVMILL_MOST_RANK];
};

/* A checked op, reduced to what matters for moving bytes. */
struct kvmill_gather_facts {
    struct kvmill_windows windows;
    int64_t element_bytes;
    DLDataType index;
    bool fills;
};
void kvmill_gather_facts_set(const kvmill_gather *op, const struct kvmill_windows *windows,
                             struct kvmill_gather_facts *facts);

/* The steps of row-major tensors. */
void kvmill_gather_dense_steps(const struct kvmill_gather_facts *facts,
                               struct kvmill_gather_steps *steps);

/* Fill in everything except the fill value.  The geometry of an empty result has no units of work.
 */
void kvmill_gather_fold(const struct kvmill_gather_facts *facts,
                        const struct kvmill_gather_steps *steps,
                        struct kvmill_gather_geometry *geometry);

/* Units of work that a kernel can be asked for. */
int64_t kvmill_gather_units(const struct kvmill_gather_geometry *geometry);

#endif
