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
    struct json_place attention; /* attn_config of MPT and DBRX; value NULL when there is none */
    const struct model_class *class;
    struct model *model;
    struct layer common; /* what the layers have in common; scale 0: 1 / sqrt (key_dim) */
    struct error *error;
};

/* Append what the decoder's part says of attention and nobody has looked for. */
bool config_notes(const struct reader *r, struct text *notes);

/* Fill r->common: heads, sizes, scale, soft-cap, sinks. */
bool config_common(struct reader *r);

/* Allocate model->layers and fill them from common. */
bool config_layers(struct reader *r);

/* `place` is where the KV heads were found. */
bool config_check_heads(struct reader *r, const struct json_place *place,
                        const struct layer *layer);

#endif
