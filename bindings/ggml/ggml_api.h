/* The part of ggml's interface that is used here, as it is in versions 2 and 3 of the interface for
   backends.  No header of ggml is needed, and one library serves every release that has them.

   Names, numbers and positions are facts of that interface.  layout.c compares them with the ggml
   of the process, and tests/ggml/layout.c with ggml's own headers.  Ops have different
   numbers in different releases, so they have none here: see host_op.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_API_H
#define KVMILL_GGML_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Versions of the interface: 3 adds functions to buffer types, of which there are none here. */
enum { GGML_LEAST_API = 2, GGML_MOST_API = 3 };

enum { GGML_MAX_DIMS = 4, GGML_MAX_SRC = 10, GGML_MAX_NAME = 64, GGML_MAX_OP_PARAMS = 64 };

/* The types that are used; others have a name and a size (host.type_name). */
enum ggml_type {
    GGML_TYPE_F32 = 0,
    GGML_TYPE_F16 = 1,
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_I32 = 26,
    GGML_TYPE_I64 = 27,
    GGML_TYPE_BF16 = 30,
};

enum { GGML_TENSOR_FLAG_OUTPUT = 2, GGML_TENSOR_FLAG_COMPUTE = 16 };

enum ggml_status {
    GGML_STATUS_ALLOC_FAILED = -2,
    GGML_STATUS_FAILED = -1,
    GGML_STATUS_SUCCESS = 0,
    GGML_STATUS_ABORTED = 1,
};

enum ggml_backend_dev_type { GGML_BACKEND_DEVICE_TYPE_CPU = 0, GGML_BACKEND_DEVICE_TYPE_ACCEL = 3 };

typedef uint8_t ggml_guid[16];
typedef uint16_t ggml_fp16_t; /* the bits of a float16 */
typedef bool (*ggml_abort_callback)(void *data);
typedef struct ggml_backend_buffer_type *ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer *ggml_backend_buffer_t;
typedef struct ggml_backend *ggml_backend_t;
typedef struct ggml_backend_device *ggml_backend_dev_t;
typedef struct ggml_backend_reg *ggml_backend_reg_t;
struct ggml_cgraph;
struct ggml_context;

struct ggml_init_params {
    size_t size;
    void *memory;
    bool no_alloc;
};

struct ggml_tensor {
    enum ggml_type type;
    ggml_backend_buffer_t buffer;
    int64_t ne[GGML_MAX_DIMS]; /* elements */
    size_t nb[GGML_MAX_DIMS];  /* strides, in bytes */
    int op;
    int32_t op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];
    int32_t flags;
    struct ggml_tensor *src[GGML_MAX_SRC];
    struct ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[GGML_MAX_NAME];
    void *unused[2];
};

/* ---- A backend ---- */

/* tensors_2d is not there in releases before April 2026, whose version is 2, too: see
   host_arrange. */
struct ggml_backend_i {
    const char *(*get_name)(ggml_backend_t backend);
    void (*free)(ggml_backend_t backend);
    void *tensors[2], *tensors_2d[2], *copy, *synchronize, *plans[4];
    enum ggml_status (*graph_compute)(ggml_backend_t backend, struct ggml_cgraph *graph);
    void *events[2], *optimize;
};

struct ggml_backend {
    ggml_guid *guid;
    struct ggml_backend_i iface;
    ggml_backend_dev_t device;
    void *context;
};

/* ---- A device ---- */

struct ggml_backend_dev_caps {
    bool async, host_buffer, buffer_from_host_ptr, events, mmap_support;
};

struct ggml_backend_dev_props {
    const char *name, *description;
    size_t memory_free, memory_total;
    enum ggml_backend_dev_type type;
    const char *device_id;
    struct ggml_backend_dev_caps caps;
};

struct ggml_backend_device_i {
    const char *(*get_name)(ggml_backend_dev_t device);
    const char *(*get_description)(ggml_backend_dev_t device);
    void (*get_memory)(ggml_backend_dev_t device, size_t *free, size_t *total);
    enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t device);
    void (*get_props)(ggml_backend_dev_t device, struct ggml_backend_dev_props *props);
    ggml_backend_t (*init_backend)(ggml_backend_dev_t device, const char *params);
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t device);
    void *host_buffer_type;
    ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t device, void *data,
                                                  size_t size, size_t most);
    bool (*supports_op)(ggml_backend_dev_t device, const struct ggml_tensor *op);
    bool (*supports_buft)(ggml_backend_dev_t device, ggml_backend_buffer_type_t type);
    void *offload, *events[3];
};

struct ggml_backend_device {
    struct ggml_backend_device_i iface;
    ggml_backend_reg_t reg;
    void *context;
};

/* ---- A registration ---- */

struct ggml_backend_reg_i {
    const char *(*get_name)(ggml_backend_reg_t reg);
    size_t (*get_device_count)(ggml_backend_reg_t reg);
    ggml_backend_dev_t (*get_device)(ggml_backend_reg_t reg, size_t index);
    void *(*get_proc_address)(ggml_backend_reg_t reg, const char *name);
};

struct ggml_backend_reg {
    int api_version;
    struct ggml_backend_reg_i iface;
    void *context;
};

#endif
