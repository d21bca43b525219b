/* The device that ggml loads: of type ACCEL, working in the CPU's memory.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "backend.h"
#include "device.h"
#include "ggml_calls.h"
#include "host.h"
#include "layout.h"
#include "notice.h"

static struct ggml_backend_reg registration;
static struct ggml_backend_device device;

/* ---- The device ---- */

static const char *device_name(ggml_backend_dev_t dev) {
    (void)dev;
    return "kvmill";
}

static const char *device_description(ggml_backend_dev_t dev) {
    (void)dev;
    return "attention by kvmill's kernels";
}

static void device_memory(ggml_backend_dev_t dev, size_t *free, size_t *total) {
    (void)dev;
    *free = *total = 0;
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t dev) {
    (void)dev;
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

/* Sets nothing else: ggml has set all to 0, and its struct may be another one. */
static void device_props(ggml_backend_dev_t dev, struct ggml_backend_dev_props *props) {
    props->name = device_name(dev);
    props->description = device_description(dev);
    props->type = device_type(dev);
    props->caps.buffer_from_host_ptr = props->caps.mmap_support = true;
}

static ggml_backend_t init_backend(ggml_backend_dev_t dev, const char *params) {
    (void)params;
    return backend_new(dev);
}

static ggml_backend_buffer_type_t buffer_type(ggml_backend_dev_t dev) {
    (void)dev;
    return host.cpu_buffer_type();
}

static ggml_backend_buffer_t buffer_from_host_ptr(ggml_backend_dev_t dev, void *data, size_t size,
                                                  size_t most) {
    (void)dev, (void)most;
    return host.cpu_buffer_from_ptr(data, size);
}

static bool supports_op(ggml_backend_dev_t dev, const struct ggml_tensor *op) {
    (void)dev;
    enum host_op kind = host_op(op);
    if (kind == HOST_VIEW)
        return true;
    enum verdict verdict = backend_judge(op);
    if (kind == HOST_ATTEND)
        notice_attention(verdict);
    return verdict == IS_TAKEN;
}

static bool supports_buft(ggml_backend_dev_t dev, ggml_backend_buffer_type_t type) {
    (void)dev;
    return host.is_host(type);
}

static struct ggml_backend_device device = {
    .iface = {.get_name = device_name,
              .get_description = device_description,
              .get_memory = device_memory,
              .get_type = device_type,
              .get_props = device_props,
              .init_backend = init_backend,
              .get_buffer_type = buffer_type,
              .buffer_from_host_ptr = buffer_from_host_ptr,
              .supports_op = supports_op,
              .supports_buft = supports_buft},
    .reg = &registration,
};

/* ---- The registration ---- */

static const char *reg_name(ggml_backend_reg_t reg) {
    (void)reg;
    return "kvmill";
}

static size_t device_count(ggml_backend_reg_t reg) {
    (void)reg;
    return 1;
}

static ggml_backend_dev_t get_device(ggml_backend_reg_t reg, size_t index) {
    (void)reg;
    return index == 0 ? &device : NULL;
}

static void *get_proc_address(ggml_backend_reg_t reg, const char *name) {
    (void)reg;
    if (strcmp(name, "ggml_backend_set_n_threads") == 0)
        return (void *)backend_set_n_threads;
    if (strcmp(name, "ggml_backend_set_abort_callback") == 0)
        return (void *)backend_set_abort_callback;
    return strcmp(name, "kvmill_nodes") == 0 ? (void *)backend_nodes : NULL;
}

static struct ggml_backend_reg registration = {
    .iface = {.get_name = reg_name,
              .get_device_count = device_count,
              .get_device = get_device,
              .get_proc_address = get_proc_address},
};

static void *user;

ggml_backend_dev_t device_own(void) {
    return user != NULL ? &device : NULL;
}

/* Only one ggml of the process can use kvmill; it may ask several times. */
ggml_backend_reg_t device_open(void *library) {
    if (user == NULL && host_use(library) && calls_find(library) && layout_read()) {
        user = library;
        registration.api_version = host.api_version;
        notice_use(host.api_version, host.library);
    }
    if (user != NULL && user != library)
        notice_refusal("another ggml of this process uses kvmill: %s", host.library);
    return user != NULL && user == library ? &registration : NULL;
}

/* The function that ggml looks for in a library that it loads.  Returns NULL if this ggml cannot
   use this library. */
__attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void);

ggml_backend_reg_t ggml_backend_init(void) {
    return device_open(host_library(__builtin_return_address(0)));
}
