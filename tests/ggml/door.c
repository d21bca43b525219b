/* What llama.cpp's programs do with ggml before and while they compute: llama_backend_init loads
   backends only if there is none, a model counts devices, and a context takes those that
   accelerate.

     door [off] [again]

   off: computes no attention, as without -fa.  again: loads plugins, too, as some programs do.
   Prints the devices, and which of them computes an attention node.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "ggml_engine.h"

static void begin(void) {
    if (ggml_backend_reg_count() == 0)
        ggml_backend_load_all();
}

static struct engine open_context(void) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        printf("device %s\n", ggml_backend_dev_name(device));
        if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_ACCEL)
            adapter = ggml_backend_dev_backend_reg(device);
    }
    return engine_open(adapter != NULL, 1);
}

static const char *attend(const struct engine *engine) {
    const struct shape shape = {
        .words = "one token",
        .key = GGML_TYPE_F16,
        .value = GGML_TYPE_F16,
        .key_dim = 64,
        .value_dim = 64,
        .heads = 8,
        .kv_heads = 2,
        .queries = 1,
        .cells = 100,
        .streams = 1,
        .mask = CAUSAL,
    };
    struct scene scene = scene_open(&shape, 1, ggml_backend_cpu_buffer_type());
    float result[64 * 8];
    ggml_backend_t backend = engine_run(engine, &scene, result, 1, NULL);
    scene_close(&scene);
    return backend != NULL ? ggml_backend_name(backend) : "nobody";
}

int main(int argc, char **argv) {
    const char *options[] = {argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""};
    begin();
    if (strcmp(options[0], "again") == 0 || strcmp(options[1], "again") == 0)
        ggml_backend_load_all();
    struct engine engine = open_context();
    if (strcmp(options[0], "off") != 0)
        printf("attention by %s\n", attend(&engine));
    engine_close(&engine);
    return 0;
}
