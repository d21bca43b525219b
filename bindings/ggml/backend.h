/* A backend of ggml: threads and memory for the nodes it is given.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_BACKEND_H
#define KVMILL_GGML_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "ggml-backend-impl.h"

/* NULL: out of memory.  ggml frees it. */
ggml_backend_t backend_new(ggml_backend_dev_t device);

/* As ggml's function of this name for other backends. */
void backend_set_n_threads(ggml_backend_t backend, int threads);

/* Nodes of attention that the backend has computed. */
int64_t backend_nodes(ggml_backend_t backend);

/* Whether a node is one of those that are computed here, and has kernels.  Any thread. */
bool backend_takes(const struct ggml_tensor *node);

/* Whether a node is no work: its tensor is another's. */
bool backend_is_view(enum ggml_op op);

#endif
