/* A backend of ggml: threads and memory for the nodes it is given.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_BACKEND_H
#define KVMILL_GGML_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "ggml_api.h"
#include "notice.h"

/* Returns NULL if out of memory.  ggml frees the backend. */
ggml_backend_t backend_new(ggml_backend_dev_t device);

/* Sets the number of threads, like ggml's function for other backends. */
void backend_set_n_threads(ggml_backend_t backend, int threads);

/* Sets a function that is called after each node; if it returns true, the graph ends with
   GGML_STATUS_ABORTED.  NULL: none. */
void backend_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void *data);

/* Returns how many attention nodes the backend has computed. */
int64_t backend_nodes(ggml_backend_t backend);

/* Whether the backend takes a node.  Any thread. */
enum verdict backend_judge(const struct ggml_tensor *node);

#endif
