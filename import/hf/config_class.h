/* Defaults of a model's class that its config.json may leave out.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_CLASS_H
#define KVMILL_IMPORT_HF_CONFIG_CLASS_H

#include <stdbool.h>
#include <stdint.h>

/* Layers with learned attention sinks. */
enum sinks { SINKS_NOWHERE, SINKS_SLIDING, SINKS_EVERYWHERE };

/* Defaults of keys that a config omits, 0 if the class has no default; and what only the code of a
   model says. */
struct model_class {
    const char *type; /* model_type, without a trailing "_text" */
    int64_t hidden;
    int64_t layers;
    int64_t heads;
    int64_t kv_heads; /* 0: as many as query heads */
    int64_t head_dim; /* 0: hidden / heads */
    int64_t positions;
    int64_t window;
    int64_t pattern; /* every pattern-th layer is full, the rest slide; 0: all are the same kind */
    int64_t first_sliding;    /* without a pattern: layers before this one are full */
    int64_t full_interval;    /* every n-th layer is full, the rest have no cache */
    int64_t attention_offset; /* of attn_layer_offset */
    int64_t kv_shared_layers; /* the last layers, which read the cache of earlier layers */
    int64_t global_head_dim;  /* of full layers, if it differs from head_dim */
    int64_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim;
    int64_t sliding_kv_times; /* KV heads of sliding layers, as a multiple of those of full ones */
    int64_t caches;           /* of each layer that num_layers counts; 0: one */
    const char *window_key;   /* a key for the window that other classes do not have */
    int64_t window_more;      /* tokens that a query sees beyond the number of window_key */
    double scale;             /* fixed by the class; keys do not change it */
    double query_pre_attn_scalar;
    double softcap;
    bool window_off;   /* no window, unless use_sliding_window is true */
    bool last_full;    /* the last layer is full, regardless of layer_types */
    bool multi_query;  /* one KV head, unless new_decoder_architecture is true */
    bool alibi;        /* unless `alibi` is false */
    bool alibi_scaled; /* see struct model */
    enum sinks sinks;
    bool window_halved;     /* window_key counts tokens on both sides */
    bool full_first;        /* of a pattern, the first layer is full, not the last */
    bool attends_if_listed; /* layers have no attention unless a key lists them */
    bool chunked;           /* every fourth layer is full, the rest attend in chunks */
    bool scale_of_half;     /* the scale is 1 / sqrt (key_dim / 2) */
    bool stateful;          /* no layer has a key/value cache, only a state */
    bool value_is_key;      /* see struct layer */
};

/* Returns the row of a model_type, or an empty row if it needs no rules. */
const struct model_class *model_class_of(const char *type);

/* The same for names with other separators, as in llama.cpp: "gpt-oss", "qwen3next". */
const struct model_class *model_class_like(const char *name);

/* Whether its layers that slide, or those that do not, have learned attention sinks. */
bool class_has_sinks(const struct model_class *class, bool slides);

#endif
