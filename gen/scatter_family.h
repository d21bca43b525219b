/* The family that combines windows of updates with results: SCATTER.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SCATTER_FAMILY_H
#define KVMILL_GEN_SCATTER_FAMILY_H

#include "kernel.h"

#include "../ops/scatter_shape.h"

extern const struct family scatter_family;

/* The words of index types, ending with NULL; and the most components of an index vector in all
   families that scatter. */
extern const char *const scatter_index_types[];
enum { MOST_SCATTER_COMPONENTS = 8 };

/* The element type of a word of such a list; and the index of a type in it, or that of the final
 * NULL. */
DLDataType scatter_type_of(const char *word);
int64_t scatter_place_of(const char *const *words, int32_t code, int32_t bits);

/* The kernels that a problem of this shape needs, for one instruction set. */
bool scatter_kernels(const struct kvmill_scatter_shape *shape, const struct isa *isa,
                     struct kernel_list *list, struct error *error);

#endif
