/* SET_ROWS as WriteRows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_STORE_H
#define KVMILL_GGML_STORE_H

#include <kvmill.h>

#include "ggml_api.h"

/* Like attend_plan and attend_run. */
const kvmill_plan *store_plan(const struct ggml_tensor *node);
kvmill_status store_run(const struct ggml_tensor *node, const kvmill_plan *plan, void *workspace,
                        kvmill_pool *pool, kvmill_error *error);

#endif
