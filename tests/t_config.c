/* The reader of config.json: the shipped configs, the rules of model classes, and bad input.

   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../import/hf/config.h"
#include "../base/json.h"
#include "tap.h"

static char folder[] = "/tmp/t_config.XXXXXX";
static char scratch[64];

/* ---- Files ---- */

static void write_scratch(const char *text, size_t length) {
    FILE *stream = fopen(scratch, "wb");
    if (stream == NULL || fwrite(text, 1, length, stream) != length || fclose(stream) != 0)
        bail_out("cannot write %s: %s", scratch, strerror(errno));
}

static bool read_text(const char *text, struct model *model, struct error *error) {
    write_scratch(text, strlen(text));
    return model_read(scratch, model, error);
}

static const char *models_folder(void) {
    static char path[512];
    const char *srcdir = getenv("srcdir");
    snprintf(path, sizeof path, "%s/configs/models", srcdir != NULL ? srcdir : ".");
    return path;
}

/* ---- A model in words: runs of equal layers, "3*sliding 8:4 64+64 w128 s0.125" ---- */

static bool same_layer(const struct layer *a, const struct layer *b) {
    return a->kind == b->kind && a->query_heads == b->query_heads && a->kv_heads == b->kv_heads &&
           a->key_dim == b->key_dim && a->value_dim == b->value_dim && a->window == b->window &&
           a->scale == b->scale && a->softcap == b->softcap && a->sinks == b->sinks;
}

static int describe_run(char *text, size_t size, const struct layer *layer, int count) {
    static const char *const kinds[] = {"full", "sliding", "latent", "none"};
    if (layer->kind == LAYER_NONE)
        return snprintf(text, size, "%d*none; ", count);
    int at = snprintf(text, size, "%d*%s %" PRId64 ":%" PRId64 " %" PRId64 "+%" PRId64, count,
                      kinds[layer->kind], layer->query_heads, layer->kv_heads, layer->key_dim,
                      layer->value_dim);
    if (layer->window != 0)
        at += snprintf(text + at, size - (size_t)at, " w%" PRId64, layer->window);
    at += snprintf(text + at, size - (size_t)at, " s%.4g", layer->scale);
    if (layer->softcap != 0)
        at += snprintf(text + at, size - (size_t)at, " c%g", layer->softcap);
    return at + snprintf(text + at, size - (size_t)at, "%s; ", layer->sinks ? " sinks" : "");
}

static const char *describe(const struct model *model) {
    static char text[4096];
    size_t at = 0;
    for (int i = 0, end; i < model->layer_count && at < sizeof text - 256; i = end) {
        for (end = i; end < model->layer_count; end++)
            if (!same_layer(&model->layers[i], &model->layers[end]))
                break;
        at += (size_t)describe_run(text + at, sizeof text - at, &model->layers[i], end - i);
    }
    snprintf(text + at, sizeof text - at, "%s p%" PRId64 "%s%s", model->dtype->name,
             model->max_positions, model->alibi_bias_max != 0 ? " alibi" : "",
             model->alibi_scaled ? " scaled" : "");
    return text;
}

/* ---- The shipped configs ---- */

static const struct layer *first_full(const struct model *model) {
    for (int i = 0; i < model->layer_count; i++)
        if (model->layers[i].kind == LAYER_FULL || model->layers[i].kind == LAYER_LATENT)
            return &model->layers[i];
    return NULL;
}

static int count_sliding(const struct model *model, int64_t *window, double *softcap) {
    int count = 0;
    *window = 0;
    *softcap = 0;
    for (int i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        count += layer->kind == LAYER_SLIDING;
        *window = layer->window != 0 ? layer->window : *window;
        *softcap = layer->softcap;
    }
    return count;
}

/* The row of expected.tsv that this model would have. */
static const char *row_of(const char *file, const struct model *model) {
    static char row[512];
    char full_row[64] = "-\t-\t-";
    const struct layer *first = &model->layers[0], *full = first_full(model);
    int64_t window;
    double softcap;
    int sliding = count_sliding(model, &window, &softcap);
    if (full != NULL)
        snprintf(full_row, sizeof full_row, "%" PRId64 "\t%" PRId64 "\t%" PRId64, full->kv_heads,
                 full->key_dim, full->value_dim);
    snprintf(row, sizeof row,
             "%s\t%d\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRId64 "\t%" PRId64
             "\t%d\t%g\t%g\t%s\t%" PRId64,
             file, model->layer_count, first->query_heads, first->kv_heads, first->key_dim,
             first->value_dim, full_row, model->max_positions, window, sliding, softcap,
             model->alibi_bias_max, model->dtype->name, model_bytes_per_token(model));
    return row;
}

static void test_row(const char *line) {
    char file[128], path[1024];
    struct model model;
    struct error error = {0};
    snprintf(file, sizeof file, "%.*s", (int)strcspn(line, "\t"), line);
    snprintf(path, sizeof path, "%s/%s", models_folder(), file);
    if (!ok(model_read(path, &model, &error), "%s is read", file)) {
        diag("%s", error.text);
        return;
    }
    if (!ok(strcmp(row_of(file, &model), line) == 0, "%s has the expected row", file)) {
        diag("found    %s", row_of(file, &model));
        diag("expected %s", line);
    }
    model_free(&model);
}

static int test_rows(void) {
    char path[1024], line[512];
    int rows = -1; /* the line of headings */
    snprintf(path, sizeof path, "%s/expected.tsv", models_folder());
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        bail_out("cannot read %s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, stream) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '#' && ++rows > 0)
            test_row(line);
    }
    fclose(stream);
    return rows;
}

static bool is_json(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".json") == 0;
}

static void test_shipped(void) {
    int rows = test_rows(), files = 0;
    DIR *directory = opendir(models_folder());
    if (directory == NULL)
        bail_out("cannot open %s", models_folder());
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        files += is_json(entry->d_name);
    closedir(directory);
    ok(files == rows, "each of %d configs has its row (%d)", files, rows);
}

/* ---- Rules ---- */

static const struct good {
    const char *name, *config, *description;
} goods[] = {
    {"KV heads default to heads, dtype to bfloat16",
     "{\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 256}",
     "2*full 4:4 64+64 s0.125; bfloat16 p0"},
    {"GPT-2's names",
     "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 256, "
     "\"n_positions\": 99, \"torch_dtype\": \"torch.float16\"}",
     "2*full 4:4 64+64 s0.125; float16 p99"},
    {"the first name that is not null",
     "{\"num_hidden_layers\": null, \"n_layers\": 1, \"n_heads\": 4, \"d_model\": 256, "
     "\"max_seq_len\": 7, \"max_position_embeddings\": null}",
     "1*full 4:4 64+64 s0.125; bfloat16 p7"},
    {"dtype beside torch_dtype",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"torch_dtype\": \"float16\", \"dtype\": \"float32\"}",
     "1*full 4:4 64+64 s0.125; float32 p0"},
    {"head_dim * heads differs from hidden",
     "{\"model_type\": \"qwen3\", \"num_hidden_layers\": 1, \"num_attention_heads\": 16, "
     "\"num_key_value_heads\": 8, \"hidden_size\": 1024, \"head_dim\": 128}",
     "1*full 16:8 128+128 s0.08839; bfloat16 p32768"},
    {"a null head_dim is derived",
     "{\"model_type\": \"mistral\", \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
     "\"num_key_value_heads\": null, \"hidden_size\": 256, \"head_dim\": null, "
     "\"sliding_window\": null}",
     "1*full 4:4 64+64 s0.125; bfloat16 p131072"},
    {"Mistral's class slides by 4096 and has 8 KV heads",
     "{\"model_type\": \"mistral\", \"num_hidden_layers\": 1}",
     "1*sliding 32:8 128+128 w4096 s0.08839; bfloat16 p131072"},
    {"a nested class of nothing but defaults",
     "{\"model_type\": \"llava\", \"torch_dtype\": \"float16\", "
     "\"text_config\": {\"model_type\": \"llama\", \"max_position_embeddings\": 4096}}",
     "32*full 32:32 128+128 s0.08839; float16 p4096"},
    {"a nested part falls back to the outer type",
     "{\"model_type\": \"gemma3\", \"text_config\": {\"num_hidden_layers\": 2, "
     "\"sliding_window_pattern\": 2}}",
     "1*sliding 8:4 256+256 w4096 s0.0625; 1*full 8:4 256+256 s0.0625; bfloat16 p131072"},
    {"an empty text_config beside the decoder's keys",
     "{\"text_config\": {}, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
     "\"hidden_size\": 256}",
     "1*full 4:4 64+64 s0.125; bfloat16 p0"},
    {"a null text_config",
     "{\"text_config\": null, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
     "\"hidden_size\": 256}",
     "1*full 4:4 64+64 s0.125; bfloat16 p0"},
    {"Gemma 2: even layers slide, soft-cap 50",
     "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3}",
     "1*sliding 8:4 256+256 w4096 s0.0625 c50; 1*full 8:4 256+256 s0.0625 c50; "
     "1*sliding 8:4 256+256 w4096 s0.0625 c50; bfloat16 p8192"},
    {"Gemma 2 27B: the scale is not of the head size, the soft-cap null",
     "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"num_attention_heads\": 32, "
     "\"num_key_value_heads\": 16, \"head_dim\": 128, \"query_pre_attn_scalar\": 144, "
     "\"sliding_window\": null, \"attn_logit_softcapping\": null}",
     "1*full 32:16 128+128 s0.08333; bfloat16 p8192"},
    {"Granite's multiplier is the scale",
     "{\"model_type\": \"granite\", \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
     "\"hidden_size\": 256, \"attention_multiplier\": 0.0078125}",
     "1*full 4:4 64+64 s0.007812; bfloat16 p0"},
    {"Gemma 3n: the last layers share a cache, the scale is 1",
     "{\"model_type\": \"gemma3n_text\", \"num_hidden_layers\": 10, "
     "\"num_kv_shared_layers\": 5}",
     "4*sliding 8:2 256+256 w512 s1; 1*full 8:2 256+256 s1; 5*none; bfloat16 p32768"},
    {"Gemma 4 without layer_types: the last layer is full",
     "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 7}",
     "5*sliding 8:4 256+256 w512 s1; 2*full 8:4 512+512 s1; bfloat16 p131072"},
    {"Gemma 4: null KV heads of full layers",
     "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 1, \"attention_k_eq_v\": true, "
     "\"num_global_key_value_heads\": null, \"global_head_dim\": null}",
     "1*full 8:4 256+256 s1; bfloat16 p131072"},
    {"Gemma 4: KV heads of full layers need attention_k_eq_v",
     "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 1, \"attention_k_eq_v\": false, "
     "\"num_global_key_value_heads\": 2}",
     "1*full 8:4 512+512 s1; bfloat16 p131072"},
    {"Gemma 4: per_layer_config",
     "{\"model_type\": \"gemma4_text\", \"num_hidden_layers\": 6, "
     "\"per_layer_config\": {\"05\": {\"head_dim\": 512, \"num_key_value_heads\": 2}}}",
     "5*sliding 8:4 256+256 w512 s1; 1*full 8:2 512+512 s1; bfloat16 p131072"},
    {"gpt-oss without layer_types", "{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 2}",
     "1*sliding 64:8 64+64 w128 s0.125 sinks; 1*full 64:8 64+64 s0.125 sinks; bfloat16 p131072"},
    {"Qwen 2: layers from max_window_layers on slide",
     "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 3, \"use_sliding_window\": true, "
     "\"max_window_layers\": 2}",
     "2*full 32:32 128+128 s0.08839; 1*sliding 32:32 128+128 w4096 s0.08839; bfloat16 p32768"},
    {"Qwen 2: no window unless it is switched on",
     "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 1, \"max_window_layers\": 0}",
     "1*full 32:32 128+128 s0.08839; bfloat16 p32768"},
    {"use_sliding_window false beats layer_types",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"use_sliding_window\": false, \"layer_types\": [\"sliding_attention\"]}",
     "1*full 4:4 64+64 s0.125; bfloat16 p0"},
    {"a window of all positions is none",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"max_position_embeddings\": 64, \"sliding_window\": 64, "
     "\"layer_types\": [\"sliding_attention\"]}",
     "1*full 4:4 64+64 s0.125; bfloat16 p64"},
    {"a window one short of all positions",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"max_position_embeddings\": 64, \"sliding_window\": 63}",
     "1*sliding 4:4 64+64 w63 s0.125; bfloat16 p64"},
    {"layers without a cache",
     "{\"num_hidden_layers\": 6, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"layer_types\": [\"linear_attention\", \"mamba\", \"recurrent\", \"conv\", "
     "\"attention\", \"full_attention\"]}",
     "4*none; 2*full 4:4 64+64 s0.125; bfloat16 p0"},
    {"every fourth layer of Qwen 3 Next",
     "{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 5}",
     "3*none; 1*full 16:2 256+256 s0.0625; 1*none; bfloat16 p32768"},
    {"Falcon 7B: multi_query beats the count",
     "{\"model_type\": \"falcon\", \"num_hidden_layers\": 1, \"n_head_kv\": 71}",
     "1*full 71:1 64+64 s0.125; bfloat16 p2048"},
    {"Falcon 40B: the new architecture",
     "{\"model_type\": \"falcon\", \"num_hidden_layers\": 1, \"hidden_size\": 8192, "
     "\"num_attention_heads\": 128, \"num_kv_heads\": 8, \"multi_query\": true, "
     "\"new_decoder_architecture\": true}",
     "1*full 128:8 64+64 s0.125; bfloat16 p2048"},
    {"Falcon RW: ALiBi before the scale",
     "{\"model_type\": \"falcon\", \"num_hidden_layers\": 1, \"hidden_size\": 2048, "
     "\"num_attention_heads\": 32, \"multi_query\": false, \"alibi\": true}",
     "1*full 32:32 64+64 s0.125; bfloat16 p2048 alibi scaled"},
    {"ChatGLM's names",
     "{\"model_type\": \"chatglm\", \"num_layers\": 1, \"num_attention_heads\": 32, "
     "\"hidden_size\": 4096, \"kv_channels\": 64, \"multi_query_attention\": true, "
     "\"multi_query_group_num\": 2, \"seq_length\": 8192}",
     "1*full 32:2 64+64 s0.125; bfloat16 p8192"},
    {"ChatGLM's groups without the flag",
     "{\"model_type\": \"chatglm\", \"num_layers\": 1, \"num_attention_heads\": 32, "
     "\"hidden_size\": 2048, \"multi_query_attention\": false, \"multi_query_group_num\": 1}",
     "1*full 32:32 64+64 s0.125; bfloat16 p0"},
    {"MPT by class", "{\"model_type\": \"mpt\", \"n_layers\": 1}",
     "1*full 16:16 128+128 s0.08839; bfloat16 p2048 alibi"},
    {"MPT without ALiBi, with KV heads and a scale",
     "{\"model_type\": \"mpt\", \"n_layers\": 1, \"attn_config\": {\"alibi\": false, "
     "\"kv_n_heads\": 4, \"softmax_scale\": 0.5}}",
     "1*full 16:4 128+128 s0.5; bfloat16 p2048"},
    {"MPT multi-query",
     "{\"model_type\": \"mpt\", \"n_layers\": 1, "
     "\"attn_config\": {\"attn_type\": \"multiquery_attention\"}}",
     "1*full 16:1 128+128 s0.08839; bfloat16 p2048 alibi"},
    {"latent attention",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 16, \"hidden_size\": 2048, "
     "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
     "\"num_key_value_heads\": 7, \"head_dim\": 64}",
     "1*latent 16:1 576+512 s0.07217; bfloat16 p0"},
    {"latent attention with yarn's mscale_all_dim",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 16, \"hidden_size\": 2048, "
     "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
     "\"rope_scaling\": {\"factor\": 40, \"mscale_all_dim\": 0.707}}",
     "1*latent 16:1 576+512 s0.1147; bfloat16 p0"},
    {"latent attention switched off by null",
     "{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 1, \"num_attention_heads\": 10, "
     "\"num_key_value_heads\": 10, \"hidden_size\": 1280, \"kv_lora_rank\": null, "
     "\"qk_nope_head_dim\": 0, \"v_head_dim\": 0}",
     "1*full 10:10 128+128 s0.08839; bfloat16 p2048"},
    {"V rows of another size",
     "{\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"hidden_size\": 256, "
     "\"head_dim\": 192, \"v_head_dim\": 128}",
     "1*full 4:4 192+128 s0.07217; bfloat16 p0"},
};

static void test_good(const struct good *good) {
    struct model model;
    struct error error = {0};
    if (!ok(read_text(good->config, &model, &error), "read: %s", good->name)) {
        diag("%s", error.text);
        return;
    }
    if (!ok(strcmp(describe(&model), good->description) == 0, "%s", good->name)) {
        diag("found    %s", describe(&model));
        diag("expected %s", good->description);
    }
    model_free(&model);
}

static void test_rules(void) {
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++)
        test_good(&goods[i]);
}

/* ---- Refusals ---- */

#define BASE   "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 256"
#define LATENT BASE ", \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8"

static const struct bad {
    const char *config;
    const char *words[4]; /* all in the message */
} bads[] = {
    {"{\"metadata\": {}, \"weight_map\": {}}", {": /weight_map: ", "index", "config.json"}},
    {"{}", {": /num_hidden_layers: ", "missing", "n_layer"}},
    {"{\"model_type\": \"new\", \"num_hidden_layers\": 2, \"hidden_size\": 256}",
     {": /num_attention_heads: ", "missing", "n_heads", "model_type"}},
    {"{\"num_hidden_layers\": 2, \"num_attention_heads\": null, \"hidden_size\": 256}",
     {": /num_attention_heads: ", "null"}},
    {"{\"num_hidden_layers\": 2, \"num_attention_heads\": 4}", {": /hidden_size: ", "n_embd"}},
    {"{\"text_config\": {\"num_hidden_layers\": 2}}",
     {": /text_config/num_attention_heads: ", "missing"}},
    {"{\"text_config\": \"x\"}", {": /text_config: ", "a string", "an object"}},
    {"{\"num_hidden_layers\": 0, \"num_attention_heads\": 4, \"hidden_size\": 256}",
     {": /num_hidden_layers: ", "is 0", "1 to 4096"}},
    {"{\"num_hidden_layers\": 4097, \"num_attention_heads\": 4, \"hidden_size\": 256}",
     {": /num_hidden_layers: ", "4097", "4096"}},
    {"{\"n_layer\": 2, \"n_head\": 0, \"n_embd\": 256}", {": /n_head: ", "is 0", "65536"}},
    {"{\"n_layer\": 2, \"n_head\": -3, \"n_embd\": 256}", {": /n_head: ", "is -3"}},
    {"{\"n_layer\": 2, \"n_head\": \"4\", \"n_embd\": 256}", {": /n_head: ", "a string"}},
    {"{\"n_layer\": 2, \"n_head\": 4.0, \"n_embd\": 256}", {": /n_head: ", "a real number"}},
    {"{\"n_layer\": 2, \"n_head\": [4, 4], \"n_embd\": 256}", {": /n_head: ", "an array"}},
    {"{\"n_layer\": 2, \"n_head\": 4, \"n_embd\": 9223372036854775807}",
     {": /n_embd: ", "9223372036854775807", "2147483648"}},
    {"{\"n_layer\": 2, \"n_head\": 4, \"n_embd\": 258}",
     {": /head_dim: ", "258", "4 heads", "multiple"}},
    {"{\"n_layer\": 2, \"n_head\": 1, \"n_embd\": 2147483648}",
     {": /head_dim: ", "2147483648", "65536"}},
    {"{" BASE ", \"head_dim\": 0}", {": /head_dim: ", "is 0"}},
    {"{" BASE ", \"head_dim\": 65537}", {": /head_dim: ", "65537", "65536"}},
    {"{" BASE ", \"max_position_embeddings\": 1099511627777}",
     {": /max_position_embeddings: ", "1099511627776"}},
    {"{" BASE ", \"num_key_value_heads\": 3}",
     {": /num_key_value_heads: ", "3 KV heads", "4 query heads", "divisor"}},
    {"{" BASE ", \"num_key_value_heads\": 8}", {": /num_key_value_heads: ", "8 KV", "4 query"}},
    {"{" BASE ", \"num_key_value_heads\": 0}", {": /num_key_value_heads: ", "is 0"}},
    {"{" BASE ", \"num_kv_heads\": [1, 2]}", {": /num_kv_heads: ", "an array"}},
    {"{" BASE ", \"attn_config\": {\"kv_n_heads\": 3}}",
     {": /attn_config/kv_n_heads: ", "3 KV heads"}},
    {"{" BASE ", \"attn_config\": 3}", {": /attn_config: ", "an object"}},
    {"{" BASE ", \"attn_config\": {\"alibi\": 1}}", {": /attn_config/alibi: ", "boolean"}},
    {"{" BASE ", \"multi_query\": \"yes\"}", {": /multi_query: ", "boolean", "true, false"}},
    {"{" BASE ", \"new_decoder_architecture\": 1}", {": /new_decoder_architecture: ", "boolean"}},
    {"{" BASE ", \"multi_query_attention\": 1}", {": /multi_query_attention: ", "boolean"}},
    {"{" BASE ", \"multi_query_attention\": true, \"multi_query_group_num\": 3}",
     {": /multi_query_group_num: ", "3 KV heads"}},
    {"{" BASE ", \"v_head_dim\": -1}", {": /v_head_dim: ", "-1"}},
    {"{" BASE ", \"sliding_window\": 0}", {": /sliding_window: ", "is 0"}},
    {"{" BASE ", \"sliding_window\": 8, \"sliding_window_pattern\": \"LLLG\"}",
     {": /sliding_window_pattern: ", "a string"}},
    {"{" BASE ", \"use_sliding_window\": 1}", {": /use_sliding_window: ", "boolean"}},
    {"{" BASE ", \"max_window_layers\": -1}", {": /max_window_layers: ", "-1"}},
    {"{" BASE ", \"full_attention_interval\": 0}", {": /full_attention_interval: ", "is 0"}},
    {"{" BASE ", \"layer_types\": [\"full_attention\"]}",
     {": /layer_types: ", "1 entries", "2 layers"}},
    {"{" BASE ", \"layer_types\": [\"mamba\", \"mamba\", \"mamba\"]}",
     {": /layer_types: ", "3 entries", "2 layers"}},
    {"{" BASE ", \"layer_types\": \"full_attention\"}", {": /layer_types: ", "an array"}},
    {"{" BASE ", \"layer_types\": [\"full_attention\", 1]}", {": /layer_types/1: ", "an integer"}},
    {"{" BASE ", \"layer_types\": [\"full_attention\", \"ful\"]}",
     {": /layer_types/1: ", "\"ful\"", "full_attention", "linear_attention"}},
    {"{" BASE ", \"layer_types\": [\"chunked_attention\", \"ful\"]}",
     {": /layer_types/0: ", "not a sliding window", "sliding_attention"}},
    {"{" BASE ", \"layer_types\": [\"hybrid\", \"hybrid\"]}", {": /layer_types/0: ", "state"}},
    {"{" BASE ", \"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
     {": /layer_types/0: ", "sliding_window", "missing or null"}},
    {"{" BASE ", \"num_kv_shared_layers\": 2}", {": /num_kv_shared_layers: ", "2 layers"}},
    {"{" BASE ", \"num_global_key_value_heads\": 3, \"attention_k_eq_v\": true}",
     {": /num_global_key_value_heads: ", "3 KV heads", "4 query heads"}},
    {"{" BASE ", \"global_head_dim\": \"512\"}", {": /global_head_dim: ", "a string"}},
    {"{" BASE ", \"attention_k_eq_v\": 1}", {": /attention_k_eq_v: ", "boolean"}},
    {"{" BASE ", \"per_layer_config\": [1]}", {": /per_layer_config: ", "an object"}},
    {"{" BASE ", \"per_layer_config\": {\"2\": {}}}", {": /per_layer_config/2: ", "0 to 1"}},
    {"{" BASE ", \"per_layer_config\": {\"-0\": {}}}", {": /per_layer_config/-0: ", "0 to 1"}},
    {"{" BASE ", \"per_layer_config\": {\"99999999999999999999\": {}}}", {"0 to 1"}},
    {"{" BASE ", \"per_layer_config\": {\"1\": 2}}", {": /per_layer_config/1: ", "an object"}},
    {"{" BASE ", \"per_layer_config\": {\"1\": {\"head_dim\": 0}}}",
     {": /per_layer_config/1/head_dim: ", "is 0"}},
    {"{" BASE ", \"per_layer_config\": {\"1\": {\"num_key_value_heads\": 3}}}",
     {": /per_layer_config/1/num_key_value_heads: ", "3 KV heads"}},
    {"{" BASE ", \"query_pre_attn_scalar\": 0}", {": /query_pre_attn_scalar: ", "a number"}},
    {"{" BASE ", \"query_pre_attn_scalar\": \"x\"}", {": /query_pre_attn_scalar: ", "a number"}},
    {"{" BASE ", \"attention_multiplier\": -0.5}", {": /attention_multiplier: ", "a number"}},
    {"{" BASE ", \"attn_logit_softcapping\": -1}", {": /attn_logit_softcapping: ", "a number"}},
    {"{" BASE ", \"attn_logit_softcapping\": 1e300}", {": /attn_logit_softcapping: ", "1e+09"}},
    {"{\"kv_lora_rank\": 512, " BASE "}", {": /qk_nope_head_dim: ", "missing"}},
    {"{\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, " BASE "}",
     {": /qk_rope_head_dim: ", "missing"}},
    {"{" BASE ", \"kv_lora_rank\": 0}", {": /kv_lora_rank: ", "is 0"}},
    {"{" LATENT ", \"rope_scaling\": 4}", {": /rope_scaling: ", "an object"}},
    {"{" LATENT ", \"rope_scaling\": {\"factor\": 0}}", {": /rope_scaling/factor: ", "a number"}},
    {"{" LATENT ", \"sliding_window\": 4}", {": /sliding_window: ", "latent"}},
    {"{" BASE ", \"torch_dtype\": \"float8_e4m3fn\"}",
     {": /torch_dtype: ", "float8_e4m3fn", "float32, float16, bfloat16"}},
    {"{" BASE ", \"dtype\": \"float64\"}", {": /dtype: ", "float64", "bfloat16"}},
    {"{" BASE ", \"dtype\": 16}", {": /dtype: ", "a string"}},
    {"{" BASE ", \"model_type\": 1}", {": /model_type: ", "a string"}},
    {"{" BASE ", \"attention_chunk_size\": 8192}", {": /attention_chunk_size: ", "chunked"}},
    {"{\"text_config\": {" BASE ", \"attn_layer_period\": 8}}",
     {": /text_config/attn_layer_period: ", "layer_types"}},
    {"{" BASE ", \"block_configs\": []}", {": /block_configs: ", "per_layer_config"}},
    {"{\"num_hidden_layers\": 2,", {":1:", "accepted: JSON"}},
    {"{\n  \"num_hidden_layers\": 2,\n  \"hid", {":3:", "accepted: JSON"}},
    {"", {":1:0: ", "accepted: JSON"}},
    {"{\"n_layer\": 2, \"n_layer\": 3}", {":1:", "duplicate", "n_layer"}},
    {"{\"n_layer\": 99999999999999999999}", {":1:", "too big integer"}},
    {"{\"n_layer\": 1e999}", {":1:", "real number overflow"}},
    {"[1]", {":1:1: ", "not an object"}},
};

static bool holds_all(const char *text, const char *const *words, size_t most) {
    for (size_t i = 0; i < most && words[i] != NULL; i++)
        if (strstr(text, words[i]) == NULL) {
            diag("no \"%s\" in \"%s\"", words[i], text);
            return false;
        }
    return true;
}

/* Nothing may be held after a failure. */
static void check_failure(bool read, struct model *model, const struct error *error,
                          const char *const *words, size_t most, const char *name) {
    if (!ok(!read, "refused: %.70s", name)) {
        model_free(model);
        return;
    }
    ok(error->exit_code == EXIT_USER && model->layers == NULL &&
           holds_all(error->text, words, most),
       "the message for it");
}

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        struct model model;
        struct error error = {0};
        bool read = read_text(bads[i].config, &model, &error);
        char name[80];
        snprintf(name, sizeof name, "%s", bads[i].config);
        name[strcspn(name, "\n")] = '\0'; /* TAP is line by line */
        check_failure(read, &model, &error, bads[i].words, 4, name);
        ok(strncmp(error.text, scratch, strlen(scratch)) == 0, "which begins with the file");
    }
}

/* ---- Hostile files ---- */

static void expect_failure(const char *file, const char *word, const char *name) {
    struct model model;
    struct error error = {0};
    bool read = model_read(file, &model, &error);
    check_failure(read, &model, &error, &word, 1, name);
}

static void test_filled(size_t length, const char *start, char filler, const char *word) {
    char *text = malloc(length);
    if (text == NULL)
        bail_out("no memory");
    memset(text, filler, length);
    memcpy(text, start, strlen(start));
    write_scratch(text, length);
    expect_failure(scratch, word, word);
    free(text);
}

static void test_long_type(void) {
    char text[512];
    snprintf(text, sizeof text, "{" BASE ", \"model_type\": \"%0200d\"}", 0);
    write_scratch(text, strlen(text));
    expect_failure(scratch, ": /model_type: is too long", "a model_type of 200 characters");
}

static void test_files(void) {
    test_filled(100000, "{\"text_config\": ", '[', "maximum parsing depth");
    test_filled((16 << 20) + 1, "{", ' ', "larger than 16 MiB");
    test_filled(100, "{\"n_layer\": \"\xff\xfe", 'x', "unable to decode byte");
    test_long_type();
    unlink(scratch);
    expect_failure(scratch, "cannot read: No such file", "no file");
}

/* ---- Every key of every shipped config, replaced by what does not belong there ---- */

static const char *const intruders[] = {
    "null",
    "true",
    "false",
    "-1",
    "0",
    "1.5",
    "1e300",
    "4611686018427387904",
    "\"full_attention\"",
    "[]",
    "{}",
    "[[[null]]]",
    "{\"\": {}}",
    "\"\"",
    "[1, 2, 3]",
};

static int misbehaviours, mutants;

static void try_mutant(const json_t *document) {
    struct model model;
    struct error error = {0};
    char *text = json_dumps(document, 0);
    bool read = read_text(text, &model, &error);
    mutants++;
    if (read)
        model_free(&model);
    else if (error.exit_code != EXIT_USER || model.layers != NULL ||
             strstr(error.text, ": /") == NULL) {
        misbehaviours++;
        diag("%s -> %s", text, error.text);
    }
    free(text);
}

static void mutate_member(json_t *document, json_t *part, const char *key) {
    json_t *original = json_incref(json_object_get(part, key));
    for (size_t i = 0; i < sizeof intruders / sizeof *intruders; i++) {
        json_object_set_new(part, key, json_loads(intruders[i], JSON_DECODE_ANY, NULL));
        try_mutant(document);
    }
    json_object_set_new(part, key, original);
}

static void mutate_part(json_t *document, json_t *part) {
    json_t *names = json_copy(part); /* the walk must not see its own changes */
    const char *key;
    json_t *value;
    json_object_foreach(names, key, value) {
        mutate_member(document, part, key);
        if (json_is_object(value))
            mutate_part(document, value);
    }
    json_decref(names);
}

static void mutate_file(const char *name) {
    char path[1024];
    struct error error;
    snprintf(path, sizeof path, "%s/%s", models_folder(), name);
    json_t *document = json_read(path, &error);
    if (document == NULL)
        bail_out("%s", error.text);
    mutate_part(document, document);
    json_decref(document);
}

static void test_mutants(void) {
    DIR *directory = opendir(models_folder());
    if (directory == NULL)
        bail_out("cannot open %s", models_folder());
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (is_json(entry->d_name))
            mutate_file(entry->d_name);
    closedir(directory);
    ok(mutants > 1000 && misbehaviours == 0, "%d mutants are read or refused with a path", mutants);
}

int main(void) {
    if (mkdtemp(folder) == NULL)
        bail_out("cannot make %s: %s", folder, strerror(errno));
    snprintf(scratch, sizeof scratch, "%s/config.json", folder);
    test_shipped();
    test_rules();
    test_refusals();
    test_files();
    test_mutants();
    unlink(scratch);
    rmdir(folder);
    return done_testing();
}
