/* TensorScatter for kernels with constants.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_SPECIAL_SCATTER_H
#define KVMILL_TESTS_SPECIAL_SCATTER_H

#include <kvmill.h>
#include <kvmill_kernel.h>

#include "fence.h"

/* The update that the kernel is for, of a cache with `more` slots, by a plan with these options, is
   as the oracle says. */
bool special_scatter_is_right(const struct kvmill_kernel *kernel, int64_t more,
                              const kvmill_plan_options *options, struct dice *dice);

#endif
