/* Generates kernels when a session starts, for nodes that no pack has fast kernels for: runs
   `kvmill generate --keep` on these nodes, which keeps the packs for the next time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_MAKING_H
#define KVMILL_ONNXRUNTIME_MAKING_H

#include "nodes_file.h"

/* Where nodes of the graph lack kernels, a pack of such becomes one of the session's.  Where that
   fails a warning says why, the session goes on as if it had not been asked to, and making.allowed
   becomes false. */
void making_kernels(struct making *making, struct settings *settings, const OrtLogger *logger,
                    const OrtGraph *graph, const OrtNode *const *all, size_t count);

#endif
