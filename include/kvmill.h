/* kvmill: kernels for the key/value cache of language models.

   Plan once, run many: creating a plan validates the problem and selects a kernel; running checks
   what only the data can tell, then copies or computes.  Running allocates nothing, takes no lock
   (except to wake threads of a pool), prints nothing, and is re-entrant: one plan may run in any
   number of threads at a time.

   On any error nothing has been written: every tensor is bit-identical to before the call.

   This header is all that programs include.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_H
#define KVMILL_H

#include <kvmill_attention.h>
#include <kvmill_core.h>
#include <kvmill_flow.h>
#include <kvmill_pool.h>
#include <kvmill_stablehlo.h>

#endif
