/* Shared by the parts of the config reader.  Its entry point is model_read.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CONFIG_READER_H
#define KVMILL_IMPORT_HF_CONFIG_READER_H

#include "config.h"
#include "config_class.h"
#include "config_key.h"

struct reader {
    struct json_place outer;
    struct json_place text;      /* the decoder's part; may be outer itself */
    struct json_place attention; /* attn_config of MPT and DBRX; value NULL if absent */
    const struct model_class *class;
    struct model *model;
    struct layer common; /* what all layers share; scale 0: 1 / sqrt (key_dim) */
    struct error *error;
};

/* Appends notes on keys of the decoder's part that concern attention and have not been read. */
bool config_notes(const struct reader *r, struct text *notes);

/* Sets r->common: heads, sizes, scale, soft-cap, sinks. */
bool config_common(struct reader *r);

/* Allocates model->layers and sets them, starting from r->common. */
bool config_layers(struct reader *r);

/* Checks that KV heads divide query heads; `place`: where the KV heads are. */
bool config_check_heads(struct reader *r, const struct json_place *place,
                        const struct layer *layer);

#endif
