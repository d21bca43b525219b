/* The ggml that has loaded this library.  Its functions are looked up in the process and not
   linked, because an engine may have loaded ggml with local symbols, as Python does.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_HOST_H
#define KVMILL_GGML_HOST_H

#include <stdbool.h>

#include "ggml-backend-impl.h"

#if GGML_BACKEND_API_VERSION != 2
#error                                                                                             \
    "this adapter is written for version 2 of ggml's backend API; the tree that GGML names has another"
#endif

struct host {
    ggml_backend_buffer_type_t (*cpu_buffer_type)(void);
    ggml_backend_buffer_t (*cpu_buffer_from_ptr)(void *data, size_t size);
    bool (*is_host)(ggml_backend_buffer_type_t type);
    int (*n_nodes)(struct ggml_cgraph *graph);
    struct ggml_tensor *(*node)(struct ggml_cgraph *graph, int i);
    const char *(*op_name)(enum ggml_op op);
    const char *(*type_name)(enum ggml_type type);
    int64_t (*block_size)(enum ggml_type type); /* elements */
    size_t (*type_size)(enum ggml_type type);   /* bytes of a block */
    size_t (*tensor_overhead)(void);
    bool marks_nodes; /* whether nodes that must be computed have GGML_TENSOR_FLAG_COMPUTE */
};

/* Set by host_open. */
extern struct host host;

/* Finds ggml, and checks that its tensors, ops and types are those of the headers that this library
   was compiled with; the version of the backend API, which ggml compares, does not cover them.
   Returns false, and prints the difference to standard error, if they are not. */
bool host_open(void);

#endif
