/* Functions of ggml that make tensors, graphs and backends: for layout.c and measure.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_GGML_GGML_CALLS_H
#define KVMILL_BINDINGS_GGML_GGML_CALLS_H

#include "ggml_api.h"

typedef struct ggml_backend_sched *ggml_backend_sched_t;

struct calls {
    size_t (*tensor_overhead)(void);
    size_t (*graph_overhead)(void);
    struct ggml_context *(*init)(struct ggml_init_params params);
    void (*free)(struct ggml_context *context);
    struct ggml_tensor *(*new_tensor)(struct ggml_context *context, enum ggml_type type, int64_t n0,
                                      int64_t n1, int64_t n2, int64_t n3);
    void *(*get_data)(const struct ggml_tensor *tensor);
    const char *(*get_name)(const struct ggml_tensor *tensor);
    void (*set_output)(struct ggml_tensor *tensor);
    struct ggml_tensor *(*scale)(struct ggml_context *context, struct ggml_tensor *tensor,
                                 float factor);
    struct ggml_tensor *(*flash_attn)(struct ggml_context *context, struct ggml_tensor *query,
                                      struct ggml_tensor *key, struct ggml_tensor *value,
                                      struct ggml_tensor *mask, float scale, float max_bias,
                                      float softcap);
    struct ggml_tensor *(*set_rows)(struct ggml_context *context, struct ggml_tensor *cache,
                                    struct ggml_tensor *rows, struct ggml_tensor *slots);
    struct ggml_tensor *(*reshape)(struct ggml_context *context, struct ggml_tensor *tensor,
                                   int64_t n0);
    struct ggml_tensor *(*view)(struct ggml_context *context, struct ggml_tensor *tensor,
                                int64_t n0, size_t offset);
    struct ggml_tensor *(*permute)(struct ggml_context *context, struct ggml_tensor *tensor, int a,
                                   int b, int c, int d);
    struct ggml_tensor *(*transpose)(struct ggml_context *context, struct ggml_tensor *tensor);
    struct ggml_cgraph *(*new_graph)(struct ggml_context *context);
    void (*expand)(struct ggml_cgraph *graph, struct ggml_tensor *node);
    ggml_backend_buffer_t (*alloc)(struct ggml_context *context, ggml_backend_buffer_type_t type);
    void (*free_buffer)(ggml_backend_buffer_t buffer);
    ggml_backend_dev_t (*device_by_type)(enum ggml_backend_dev_type type);
    ggml_backend_reg_t (*reg_of)(ggml_backend_dev_t device);
    const char *(*device_name)(ggml_backend_dev_t device);
    ggml_backend_t (*init_device)(ggml_backend_dev_t device, const char *params);
    void (*free_backend)(ggml_backend_t backend);
    ggml_backend_sched_t (*new_sched)(ggml_backend_t *backends, ggml_backend_buffer_type_t *types,
                                      int count, size_t graph_size, bool parallel, bool offloads);
    void (*free_sched)(ggml_backend_sched_t sched);
    enum ggml_status (*compute)(ggml_backend_sched_t sched, struct ggml_cgraph *graph);
};

/* Set by calls_find. */
extern struct calls ggml;

/* Finds the functions of this ggml.  Returns false, with a notice, if one is missing. */
bool calls_find(void *library);

#endif
