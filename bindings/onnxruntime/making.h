/* Kernels that a session makes for nodes that no pack has fast ones for: `kvmill generate --keep`
   on these nodes, which keeps packs where it finds them the next time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_MAKING_H
#define KVMILL_ONNXRUNTIME_MAKING_H

#include "nodes_file.h"

/* A pack with kernels for the nodes becomes one of the session's.  false: why not. */
bool making_add_pack(const OrtGraph *graph, const OrtNode *const *nodes, size_t count,
                     const struct making *making, struct settings *settings, struct reason *reason);

#endif
