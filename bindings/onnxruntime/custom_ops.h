/* Custom ops: names that the runtime learns, and kernels for them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_CUSTOM_OPS_H
#define KVMILL_ONNXRUNTIME_CUSTOM_OPS_H

#include "pmx.h"

/* PMX's domains, and kvmill's. */
enum { CLAIMED_DOMAINS = PMX_DOMAINS + 1 };

/* Sets the first `count` domains, whose nodes the provider takes.  If it leaves a node, the session
   fails with a message.  Domains last as long as the library. */
OrtStatus *custom_ops_claimed(OrtCustomOpDomain **domains, size_t count);

#endif
