/* CacheAttend, which ops of several nodes run over their caches.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_ATTEND_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_ATTEND_H

#include "node.h"

/* Runs a plan of CacheAttend on its tensors. */
OrtStatus *node_run_attend(const struct node_run *run, const kvmill_plan *plan,
                           const DLTensor *const *tensors);

#endif
