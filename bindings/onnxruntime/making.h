/* Generates kernels when a session starts, for nodes that no pack has fast kernels for: runs
   `kvmill generate --keep` on these nodes, which keeps the packs for the next time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_MAKING_H
#define KVMILL_ONNXRUNTIME_MAKING_H

#include "nodes_file.h"

/* If nodes of the graph lack kernels, generates a pack and adds it to the session's.  On failure it
   logs a warning, sets making.allowed to false, and the session continues without the pack. */
void making_kernels(struct making *making, struct settings *settings, const OrtLogger *logger,
                    const OrtGraph *graph, const OrtNode *const *all, size_t count);

#endif
