/* Shared by the parts of the config reader.  Its entry point is model_read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_READER_H
#define KVMILL_IMPORT_HF_CONFIG_READER_H

#include "config.h"
#include "config_class.h"
#include "config_key.h"

struct layer_word;

struct window {
    int64_t size;    /* 0: not given, or null */
    bool off;        /* the config says that there is none */
    bool active;     /* layers that slide have it */
    bool everywhere; /* all attention has it, except that of listed layers */
};

struct reader {
    struct json_place outer;
    struct json_place text;      /* the decoder's part; may be outer itself */
    struct json_place attention; /* attn_config of MPT and DBRX; value NULL if absent */
    const struct model_class *class;
    struct model *model;
    struct layer common; /* what all layers share; scale 0: 1 / sqrt (key_dim) */
    struct window window;
    int64_t chunk;                   /* tokens of a chunk; 0: not given */
    bool described;                  /* a key has an entry for each layer */
    int file_layers;                 /* layers that the config describes */
    const struct layer_word **words; /* the kind of each of them */
    struct text *notes;
    struct error *error;
};

/* Appends notes on keys of the decoder's part that concern attention and have not been read. */
bool config_notes(const struct reader *r);

/* Refuses keys of an object that have not been read and may say which layers have a cache, or what
   its shape is. */
bool config_judge(const struct reader *r, const struct json_place *object);

/* Numbers of heads; a list has an entry for each layer. */
extern const struct config_key config_heads_key, config_kv_heads_key;

/* Sets r->common.query_heads; of a list, to the first. */
bool config_heads(struct reader *r);

/* Sets the rest of r->common: heads, sizes, scale, soft-cap. */
bool config_common(struct reader *r);

/* Allocates model->layers and sets them, starting from r->common. */
bool config_layers(struct reader *r);

/* Steps of config_layers: what each layer attends to; layers without a cache of their own; layers
   with heads and sizes of their own; layers that run more than once. */
bool config_kinds(struct reader *r);
bool config_shared(struct reader *r);
bool config_overrides(struct reader *r);
bool config_loops(struct reader *r);

/* The number of layers that a key implies by its length, or 0. */
int64_t config_implied_layers(const struct reader *r);

/* Whether the config has a per_layer_config. */
bool config_has_overrides(const struct reader *r);

/* Sets heads and sizes of a layer, whose kind and window stay. */
void config_set_shape(struct layer *layer, const struct layer *shape);

/* Checks that KV heads divide query heads; `place`: where the KV heads are. */
bool config_check_heads(struct reader *r, const struct json_place *place,
                        const struct layer *layer);

/* A list of layers by number: whether it has one; its check, from `base` on. */
bool config_list_has(const struct json_place *list, int64_t number);
bool config_check_list(struct reader *r, const struct json_place *list, int64_t base);

#endif
