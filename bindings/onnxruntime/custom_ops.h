/* Custom ops: names that the runtime learns, and kernels for them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_CUSTOM_OPS_H
#define KVMILL_ONNXRUNTIME_CUSTOM_OPS_H

#include "pmx.h"

/* PMX's and kvmill's own. */
enum { CLAIMED_DOMAINS = PMX_DOMAINS + 1 };

/* The first `count` of them, whose nodes the provider takes; a session with a node that it has left
   ends with a message.  They last as long as the library. */
OrtStatus *custom_ops_claimed(OrtCustomOpDomain **domains, size_t count);

#endif
