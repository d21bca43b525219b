/* A folded gather: loops over axes, and a window to copy, all in bytes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_GATHER_FOLD_H
#define KVMILL_OPS_GATHER_FOLD_H

#include <kvmill_kernel.h>

#include "windows.h"

/* Windows that are longer in one piece are cut, and a kernel need not know their size; loops that
   would make a window larger are walked as axes, so that parts can share it. */
enum { KVMILL_MOST_KNOWN_BYTES = 64 << 10, KVMILL_MOST_WINDOW_BYTES = 256 << 10 };

/* Bytes from one index of each axis to the next. */
struct kvmill_gather_steps {
    int64_t operand[KVMILL_MOST_RANK], indices[KVMILL_MOST_RANK], result[KVMILL_MOST_RANK];
};

/* A checked op: all of it that matters to who moves bytes. */
struct kvmill_gather_facts {
    struct kvmill_windows windows;
    int64_t element_bytes;
    DLDataType index;
    bool fills;
};
void kvmill_gather_facts_set(const kvmill_gather *op, const struct kvmill_windows *windows,
                             struct kvmill_gather_facts *facts);

/* Those of row-major tensors. */
void kvmill_gather_dense_steps(const struct kvmill_gather_facts *facts,
                               struct kvmill_gather_steps *steps);

/* Fill in all but the fill value.  The geometry of an empty result has no units of work. */
void kvmill_gather_fold(const struct kvmill_gather_facts *facts,
                        const struct kvmill_gather_steps *steps,
                        struct kvmill_gather_geometry *geometry);

/* Units of work that a kernel can be asked for. */
int64_t kvmill_gather_units(const struct kvmill_gather_geometry *geometry);

#endif
