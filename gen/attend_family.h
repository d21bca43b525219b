/* The family of attention kernels: ATTEND.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_ATTEND_FAMILY_H
#define KVMILL_GEN_ATTEND_FAMILY_H

#include "kernel.h"

#include <kvmill_kernel.h>

extern const struct family attend_family;

/* The kernels that attend with `ratio` query heads per kv head, for one instruction set: for
   decode, for short chunks and for prefill; and those with `constants`, if there are any.
   shape.rows and shape.workspace are ignored. */
bool attend_kernels(const struct kvmill_attend_shape *shape, int64_t ratio,
                    const struct constants *constants, const struct isa *isa,
                    struct kernel_list *list, struct error *error);

/* Whether its arithmetic has larger errors than "f32". */
bool attend_is_approximate(const struct kernel *kernel);

#endif
