/* FLASH_ATTN_EXT as CacheAttend.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_GGML_GGML_ATTEND_H
#define KVMILL_BINDINGS_GGML_GGML_ATTEND_H

#include <stdbool.h>

#include <kvmill.h>

#include "ggml_api.h"

/* Returns the plan that computes a node, or NULL if ggml must compute it.  Does not read data.  Any
   thread. */
const kvmill_plan *attend_plan(const struct ggml_tensor *node);

/* Computes a node that has a plan.  workspace: of the size that the plan requires.  pool: NULL for
   one thread. */
kvmill_status attend_run(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                         kvmill_pool *pool, kvmill_error *error);

#endif
