/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_calls.h"

#include "host.h"

struct calls ggml;

bool calls_find(void *library) {
    const struct host_function functions[] = {
        {"ggml_tensor_overhead", &ggml.tensor_overhead},
        {"ggml_graph_overhead", &ggml.graph_overhead},
        {"ggml_init", &ggml.init},
        {"ggml_free", &ggml.free},
        {"ggml_new_tensor_4d", &ggml.new_tensor},
        {"ggml_get_data", &ggml.get_data},
        {"ggml_get_name", &ggml.get_name},
        {"ggml_set_output", &ggml.set_output},
        {"ggml_scale", &ggml.scale},
        {"ggml_flash_attn_ext", &ggml.flash_attn},
        {"ggml_set_rows", &ggml.set_rows},
        {"ggml_reshape_1d", &ggml.reshape},
        {"ggml_view_1d", &ggml.view},
        {"ggml_permute", &ggml.permute},
        {"ggml_transpose", &ggml.transpose},
        {"ggml_new_graph", &ggml.new_graph},
        {"ggml_build_forward_expand", &ggml.expand},
        {"ggml_backend_alloc_ctx_tensors_from_buft", &ggml.alloc},
        {"ggml_backend_buffer_free", &ggml.free_buffer},
        {"ggml_backend_dev_by_type", &ggml.device_by_type},
        {"ggml_backend_dev_backend_reg", &ggml.reg_of},
        {"ggml_backend_dev_name", &ggml.device_name},
        {"ggml_backend_dev_init", &ggml.init_device},
        {"ggml_backend_free", &ggml.free_backend},
        {"ggml_backend_sched_new", &ggml.new_sched},
        {"ggml_backend_sched_free", &ggml.free_sched},
        {"ggml_backend_sched_graph_compute", &ggml.compute},
    };
    return host_find_all(library, functions, sizeof functions / sizeof *functions);
}
