/* The ggml of the process.  Its functions are looked up and not linked, because an engine may have
   loaded ggml with local symbols, as Python does.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_HOST_H
#define KVMILL_GGML_HOST_H

#include <stdbool.h>

#include "ggml_api.h"

/* What a node is here. */
enum host_op { HOST_OTHER, HOST_VIEW, HOST_ATTEND, HOST_STORE };

enum { HOST_VIEWS = 5 };

struct host {
    ggml_backend_buffer_type_t (*cpu_buffer_type)(void);
    ggml_backend_buffer_t (*cpu_buffer_from_ptr)(void *data, size_t size);
    bool (*is_host)(ggml_backend_buffer_type_t type);
    int (*n_nodes)(struct ggml_cgraph *graph);
    struct ggml_tensor *(*node)(struct ggml_cgraph *graph, int i);
    const char *(*type_name)(enum ggml_type type);
    int64_t (*block_size)(enum ggml_type type); /* elements */
    size_t (*type_size)(enum ggml_type type);   /* bytes of a block */

    const char *library; /* the path of ggml's library */
    int api_version;
    int attend, store, views[HOST_VIEWS]; /* numbers of ops */
    bool marks_nodes;    /* whether nodes that must be computed have GGML_TENSOR_FLAG_COMPUTE */
    bool has_tensors_2d; /* see ggml_backend_i */
};

/* Set by host_use and layout_read. */
extern struct host host;

/* Returns ggml's library, for dlsym: the one that the code at `caller` calls, or any.  NULL if
   there is none. */
void *host_library(const void *caller);

/* Returns a function of ggml's library, or NULL. */
void *host_find(void *library, const char *name);

struct host_function {
    const char *name;
    void *place; /* of a pointer to it */
};

/* Finds functions of ggml's library.  Returns false, with a notice, if one is missing. */
bool host_find_all(void *library, const struct host_function *functions, size_t count);

/* Finds the functions of this ggml.  Returns false, with a notice, if one is missing. */
bool host_use(void *library);

enum host_op host_op(const struct ggml_tensor *node);

/* Moves a backend's members to where this ggml has them.  The result must not be used here, except
   as an address. */
void host_arrange(struct ggml_backend *backend);

#endif
