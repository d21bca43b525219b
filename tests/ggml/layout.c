/* Whether bindings/ggml/ggml_api.h says of ggml's structs what ggml's own headers say.  Each is
   compiled in a file of its own (-DOURS), because both have the same names.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#ifdef OURS
#include "ggml_api.h"
#else
#include "ggml-backend-impl.h"
#endif

#define NUMBER(name) printf("%s %lld\n", #name, (long long)(name))
#define SIZE(type)   printf("%s has %zu bytes\n", #type, sizeof(type))
#define MEMBER(type, member)                                                                       \
    printf("%s.%s is at %zu, has %zu bytes\n", #type, #member, offsetof(type, member),             \
           sizeof((*(type *)0).member))

static void print_numbers(void) {
    NUMBER(GGML_MAX_DIMS);
    NUMBER(GGML_MAX_SRC);
    NUMBER(GGML_MAX_NAME);
    NUMBER(GGML_MAX_OP_PARAMS);
    NUMBER(GGML_TYPE_F32);
    NUMBER(GGML_TYPE_F16);
    NUMBER(GGML_TYPE_Q8_0);
    NUMBER(GGML_TYPE_I32);
    NUMBER(GGML_TYPE_I64);
    NUMBER(GGML_TYPE_BF16);
    NUMBER(GGML_TENSOR_FLAG_OUTPUT);
    NUMBER(GGML_TENSOR_FLAG_COMPUTE);
    NUMBER(GGML_STATUS_ALLOC_FAILED);
    NUMBER(GGML_STATUS_FAILED);
    NUMBER(GGML_STATUS_SUCCESS);
    NUMBER(GGML_STATUS_ABORTED);
    NUMBER(GGML_BACKEND_DEVICE_TYPE_CPU);
    NUMBER(GGML_BACKEND_DEVICE_TYPE_ACCEL);
}

static void print_tensor(void) {
    SIZE(struct ggml_tensor);
    MEMBER(struct ggml_tensor, type);
    MEMBER(struct ggml_tensor, buffer);
    MEMBER(struct ggml_tensor, ne);
    MEMBER(struct ggml_tensor, nb);
    MEMBER(struct ggml_tensor, op);
    MEMBER(struct ggml_tensor, op_params);
    MEMBER(struct ggml_tensor, flags);
    MEMBER(struct ggml_tensor, src);
    MEMBER(struct ggml_tensor, view_src);
    MEMBER(struct ggml_tensor, view_offs);
    MEMBER(struct ggml_tensor, data);
    MEMBER(struct ggml_tensor, name);
    SIZE(struct ggml_init_params);
    SIZE(ggml_guid);
}

static void print_backend(void) {
    SIZE(struct ggml_backend);
    MEMBER(struct ggml_backend, guid);
    MEMBER(struct ggml_backend, iface.get_name);
    MEMBER(struct ggml_backend, iface.free);
    MEMBER(struct ggml_backend, iface.graph_compute);
    MEMBER(struct ggml_backend, device);
    MEMBER(struct ggml_backend, context);
    SIZE(struct ggml_backend_reg);
    MEMBER(struct ggml_backend_reg, api_version);
    MEMBER(struct ggml_backend_reg, iface.get_name);
    MEMBER(struct ggml_backend_reg, iface.get_device_count);
    MEMBER(struct ggml_backend_reg, iface.get_device);
    MEMBER(struct ggml_backend_reg, iface.get_proc_address);
}

static void print_device(void) {
    SIZE(struct ggml_backend_device);
    MEMBER(struct ggml_backend_device, iface.get_name);
    MEMBER(struct ggml_backend_device, iface.get_description);
    MEMBER(struct ggml_backend_device, iface.get_memory);
    MEMBER(struct ggml_backend_device, iface.get_type);
    MEMBER(struct ggml_backend_device, iface.get_props);
    MEMBER(struct ggml_backend_device, iface.init_backend);
    MEMBER(struct ggml_backend_device, iface.get_buffer_type);
    MEMBER(struct ggml_backend_device, iface.buffer_from_host_ptr);
    MEMBER(struct ggml_backend_device, iface.supports_op);
    MEMBER(struct ggml_backend_device, iface.supports_buft);
    MEMBER(struct ggml_backend_device, reg);
    SIZE(struct ggml_backend_dev_props);
    MEMBER(struct ggml_backend_dev_props, name);
    MEMBER(struct ggml_backend_dev_props, description);
    MEMBER(struct ggml_backend_dev_props, type);
    MEMBER(struct ggml_backend_dev_props, device_id);
    MEMBER(struct ggml_backend_dev_props, caps.buffer_from_host_ptr);
    MEMBER(struct ggml_backend_dev_props, caps.mmap_support);
}

int main(void) {
    print_numbers();
    print_tensor();
    print_backend();
    print_device();
    return 0;
}
