/* Tests of which nodes the adapter takes by their size, because a split of the graph has its price.
    pays   GGML_BACKEND_PATH names the adapter

   SPDX-License-Identifier: Apache-2.0 */
#include "../tap.h"
#include "ggml_engine.h"

struct case_of_size {
    const char *words;
    int threads;
    int64_t heads, queries, cells;
    bool taken;
};

static const struct case_of_size attentions[] = {
    {"a token of a small model, one block of cells", 1, 16, 1, 256, false},
    {"  two blocks", 1, 16, 1, 512, true},
    {"  two blocks, two threads", 2, 16, 1, 512, false},
    {"  three blocks, two threads", 2, 16, 1, 1024, true},
    {"a token of a larger model, one block", 1, 32, 1, 256, true},
    {"a token of a larger model, few cells", 1, 32, 1, 64, false},
    {"four tokens at the beginning", 1, 16, 4, 256, false},
    {"sixteen tokens at the beginning", 1, 16, 16, 256, true},
};

static bool takes(const struct engine *engine, struct ggml_context *context,
                  struct ggml_tensor *node) {
    bool taken = ggml_backend_supports_op(engine->backends[0], node);
    ggml_free(context);
    return taken;
}

static void try_attention(const struct case_of_size *one) {
    const struct shape shape = {.words = "",
                                .key = GGML_TYPE_F16,
                                .value = GGML_TYPE_F16,
                                .key_dim = 64,
                                .value_dim = 64,
                                .heads = one->heads,
                                .kv_heads = 2,
                                .queries = one->queries,
                                .cells = one->cells,
                                .streams = 1,
                                .mask = CAUSAL};
    OWN(engine_close) struct engine engine = engine_open(true, one->threads);
    OWN(scene_close) struct scene scene = scene_open(&shape, 1, ggml_backend_cpu_buffer_type());
    struct ggml_context *context = engine_context();
    ok(takes(&engine, context, scene_node(&scene, context)) == one->taken, "%s: %s", one->words,
       one->taken ? "taken" : "left to ggml");
}

static void try_store(enum ggml_type type, int64_t elements, int64_t rows, bool taken) {
    OWN(engine_close) struct engine engine = engine_open(true, 1);
    struct ggml_context *context = engine_context();
    struct ggml_tensor *node =
        ggml_set_rows(context, ggml_new_tensor_2d(context, type, elements, 64),
                      ggml_new_tensor_2d(context, GGML_TYPE_F32, elements, rows),
                      ggml_new_tensor_1d(context, GGML_TYPE_I64, rows));
    ok(takes(&engine, context, node) == taken, "%lld rows of %lld in %s: %s", (long long)rows,
       (long long)elements, ggml_type_name(type), taken ? "taken" : "left to ggml");
}

int main(void) {
    if (!ok(engine_load() != NULL, "loaded for sizes"))
        return done_testing();
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
        try_attention(&attentions[i]);
    try_store(GGML_TYPE_Q8_0, 512, 8, false);
    try_store(GGML_TYPE_Q8_0, 512, 16, true);
    try_store(GGML_TYPE_IQ4_NL, 256, 1, false);
    try_store(GGML_TYPE_IQ4_NL, 512, 1, true);
    return done_testing();
}
