/* Reading a model's Hugging Face config.json: what each layer stores in its key/value cache.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_H
#define KVMILL_IMPORT_HF_CONFIG_H

#include <stdint.h>

#include "../../base/error.h"
#include "../../defs/dtype.h"

struct text;

/* Larger values are refused. */
enum { MOST_LAYERS = 4096, MOST_HEADS = 65536, MOST_HEAD_DIM = 65536 };
#define MOST_HIDDEN    (INT64_C(1) << 31)
#define MOST_POSITIONS (INT64_C(1) << 40)

enum layer_kind {
    LAYER_FULL,    /* every query sees all earlier tokens */
    LAYER_SLIDING, /* the last `window` tokens, the query's own included */
    LAYER_LATENT,  /* multi-head latent attention: one shared row per token; V is a view of K */
    LAYER_NONE /* no cache of its own: linear attention, state space, no attention at all, or the
                  cache of an earlier layer */
};

/* The cache geometry of one layer, and the parameters of attention to it. */
struct layer {
    enum layer_kind kind;
    int64_t query_heads;
    int64_t kv_heads;  /* latent: 1 */
    int64_t key_dim;   /* latent: kv_lora_rank + qk_rope_head_dim */
    int64_t value_dim; /* latent: kv_lora_rank, stored inside the key row */
    int64_t window;    /* sliding layers: the tokens that a query sees; others: 0 */
    int64_t chunk;     /* if not 0: a query sees the tokens of its own chunk of this many, up to
                          itself; full layers */
    double scale;      /* of the scores; 1 / sqrt (key_dim) unless the config sets another */
    double softcap;    /* of the scores; 0 = none */
    bool sinks;        /* learned attention sinks */
    bool value_is_key; /* K and V are one row, as in latent layers */
    bool merges;       /* the engine merges its results with those of a compressed stream of earlier
                          tokens */
};

/* Selects the tokens that latent layers attend to.  topk 0: all. */
struct indexer {
    int64_t heads, head_dim, topk; /* queries, elements of a key, tokens */
};

struct model {
    char type[64];                    /* model_type of the part that was read */
    const struct kvmill_dtype *dtype; /* of activations, and of a cache that is not quantised */
    int64_t hidden;
    int64_t max_positions; /* 0 if the config does not set it */
    double alibi_bias_max; /* 0 = no ALiBi */
    bool alibi_scaled;     /* the bias is added before the scale is applied (Falcon) */
    struct indexer indexer;
    int layer_count;
    struct layer *layers;
};

/* Reads a config.json.  A layer is what has a cache of its own: layers that attend twice, or run
   more than once, count as often.  Appends lines for standard error to `notes`, with what concerns
   attention and is not understood; a key that may change which layers have a cache, or its shape,
   is refused then.  On success release the model with model_free; after a failure there is
   nothing to release. */
bool model_read(const char *file, struct model *model, struct text *notes, struct error *error);
void model_free(struct model *model);

/* Whether V is a view of K in this layer. */
bool layer_has_view(const struct layer *layer);

/* Whether both layers can use the same kernels. */
bool layers_attend_alike(const struct layer *a, const struct layer *b);

#endif
