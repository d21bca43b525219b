/* SPDX-License-Identifier: Apache-2.0 */
#include "config_class.h"

#include <string.h>

#include "../../base/text.h"

/* Defaults of the Hugging Face configuration classes.  Nested configs are saved without the values
   that equal these, so the head counts of Gemma 3 or LLaVA are written nowhere else. */
static const struct model_class classes[] = {
    {"llama", .hidden = 4096, .layers = 32, .heads = 32, .positions = 2048},
    {"mistral", .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .positions = 131072,
     .window = 4096},
    {"mixtral", .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .positions = 131072},
    {"qwen2", .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 32, .positions = 32768,
     .window = 4096, .window_off = true, .first_sliding = 28},
    {"qwen2_moe", .hidden = 2048, .layers = 24, .heads = 16, .kv_heads = 16, .positions = 32768,
     .window = 4096, .window_off = true, .first_sliding = 28},
    {"qwen2_vl", .hidden = 8192, .layers = 80, .heads = 64, .kv_heads = 8, .positions = 32768,
     .window = 4096, .window_off = true, .first_sliding = 80},
    {"qwen2_5_vl", .hidden = 8192, .layers = 80, .heads = 64, .kv_heads = 8, .positions = 32768,
     .window = 4096, .window_off = true, .first_sliding = 80},
    {"qwen3", .hidden = 4096, .layers = 32, .heads = 32, .kv_heads = 32, .head_dim = 128,
     .positions = 32768, .window = 4096, .window_off = true, .first_sliding = 28},
    {"qwen3_moe", .hidden = 2048, .layers = 24, .heads = 32, .kv_heads = 4, .positions = 32768,
     .window = 4096, .window_off = true},
    {"qwen3_next", .hidden = 2048, .layers = 48, .heads = 16, .kv_heads = 2, .head_dim = 256,
     .positions = 32768, .full_interval = 4},
    {"gemma", .hidden = 3072, .layers = 28, .heads = 16, .kv_heads = 16, .head_dim = 256,
     .positions = 8192},
    {"gemma2", .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256,
     .positions = 8192, .window = 4096, .pattern = 2, .query_pre_attn_scalar = 256, .softcap = 50},
    {"gemma3", .hidden = 2304, .layers = 26, .heads = 8, .kv_heads = 4, .head_dim = 256,
     .positions = 131072, .window = 4096, .pattern = 6, .query_pre_attn_scalar = 256},
    {"gemma3n", .hidden = 2048, .layers = 35, .heads = 8, .kv_heads = 2, .head_dim = 256,
     .positions = 32768, .window = 512, .pattern = 5, .kv_shared_layers = 15, .scale = 1},
    {"gemma4", .hidden = 2304, .layers = 30, .heads = 8, .kv_heads = 4, .head_dim = 256,
     .positions = 131072, .window = 512, .pattern = 6, .last_full = true, .global_head_dim = 512,
     .scale = 1},
    {"cohere2", .hidden = 8192, .layers = 40, .heads = 64, .positions = 8192, .window = 4096,
     .pattern = 4},
    {"gpt_oss", .hidden = 2880, .layers = 36, .heads = 64, .kv_heads = 8, .head_dim = 64,
     .positions = 131072, .window = 128, .pattern = 2, .sinks = SINKS_EVERYWHERE},
    {"phi3", .hidden = 3072, .layers = 32, .heads = 32, .positions = 4096},
    {"starcoder2", .hidden = 3072, .layers = 30, .heads = 24, .kv_heads = 2, .positions = 4096},
    {"gpt2", .hidden = 768, .layers = 12, .heads = 12, .positions = 1024},
    {"gpt_bigcode", .hidden = 768, .layers = 12, .heads = 12, .positions = 1024,
     .multi_query = true},
    {"falcon", .hidden = 4544, .layers = 32, .heads = 71, .positions = 2048, .multi_query = true,
     .alibi_scaled = true},
    {"gpt_neo", .window_key = "window_size", .scale = 1},
    {"RefinedWeb", .alibi_scaled = true},
    {"RefinedWebModel", .alibi_scaled = true, .multi_query = true},
    {"bloom", .alibi = true},
    {"mpt", .hidden = 2048, .layers = 24, .heads = 16, .positions = 2048, .alibi = true},
    {"deepseek_v2", .hidden = 4096, .layers = 32, .heads = 32, .positions = 2048,
     .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
    {"deepseek_v3", .hidden = 7168, .layers = 61, .heads = 128, .positions = 4096,
     .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
    {"jamba", .attention_offset = 4},
    {"bamba", .attends_if_listed = true},
    {"zamba", .scale_of_half = true},
    {"zamba2", .scale_of_half = true},
    {"modernbert-decoder", .pattern = 3, .full_first = true, .window_key = "local_attention",
     .window_halved = true},
    {"granite_swa", .hidden = 2560, .layers = 24, .heads = 20, .kv_heads = 4, .positions = 8192,
     .window = 128, .pattern = 4, .full_first = true, .sinks = SINKS_EVERYWHERE},
    {"granitemoe_swa", .hidden = 4096, .layers = 32, .heads = 32, .positions = 2048, .window = 128,
     .pattern = 4, .full_first = true, .sinks = SINKS_EVERYWHERE},
    {"embedding_gemma2", .scale = 1},
    {"gemma4_unified", .scale = 1},
    {"diffusion_gemma", .scale = 1},
    {"hy_v4", .sinks = SINKS_EVERYWHERE},
    {"flint", .sinks = SINKS_EVERYWHERE},
    {"inkling2", .sinks = SINKS_EVERYWHERE},
    {"inkling2_loop", .sinks = SINKS_EVERYWHERE},
    {"mimo_v2_flash", .kv_heads = 4, .head_dim = 192, .sliding_kv_times = 2,
     .window_key = "sliding_window_size", .window_more = 1, .sinks = SINKS_SLIDING},
    {"longcat_flash", .hidden = 6144, .layers = 28, .heads = 64, .positions = 131072,
     .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .caches = 2},
    {"llama4", .hidden = 5120, .layers = 48, .heads = 40, .kv_heads = 8, .head_dim = 128,
     .positions = 131072, .chunked = true},
    {"mamba", .stateful = true},
    {"mamba2", .stateful = true},
    {"falcon_mamba", .stateful = true},
    {"rwkv", .stateful = true},
    {"rwkv5", .stateful = true},
    {"rwkv6", .stateful = true},
    {"rwkv7", .stateful = true},
    {"xlstm", .stateful = true},
    {"deepseek_v4", .hidden = 4096, .layers = 43, .heads = 64, .kv_heads = 1, .head_dim = 512,
     .positions = 1048576, .window = 128, .sinks = SINKS_EVERYWHERE, .value_is_key = true},
};

static const struct model_class none = {.type = ""};

static size_t length_without(const char *text, const char *ending) {
    size_t length = strlen(text);
    return name_has_ending(text, ending) ? length - strlen(ending) : length;
}

const struct model_class *model_class_of(const char *type) {
    size_t length = length_without(type, "_text");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].type) == length && memcmp(classes[i].type, type, length) == 0)
            return &classes[i];
    return &none;
}

/* Whether two names are equal except for "-" and "_". */
static bool same_letters(const char *a, const char *b) {
    static const char joins[] = "-_";
    for (;;) {
        a += strspn(a, joins);
        b += strspn(b, joins);
        if (*a != *b || *a == '\0')
            return *a == *b;
        a++;
        b++;
    }
}

const struct model_class *model_class_like(const char *name) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (same_letters(classes[i].type, name))
            return &classes[i];
    return &none;
}

bool class_has_sinks(const struct model_class *class, bool slides) {
    return class->sinks == SINKS_EVERYWHERE || (slides && class->sinks == SINKS_SLIDING);
}
