/* The parts of a GGUF header that are needed here: metadata by key, and which layers have sinks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_GGUF_METADATA_H
#define KVMILL_IMPORT_GGUF_GGUF_METADATA_H

#include "../../base/text.h"
#include "../hf/config.h"
#include "gguf_file.h"

enum gguf_key {
    GGUF_SPLIT_NO,
    GGUF_SPLIT_COUNT,
    GGUF_LAYERS,
    GGUF_POSITIONS,
    GGUF_HIDDEN,
    GGUF_HEADS,
    GGUF_KV_HEADS,
    GGUF_KEY_LENGTH,
    GGUF_VALUE_LENGTH,
    GGUF_KEY_LENGTH_SWA,
    GGUF_VALUE_LENGTH_SWA,
    GGUF_KEY_LENGTH_MLA,
    GGUF_KV_RANK,
    GGUF_WINDOW,
    GGUF_PATTERN,
    GGUF_SHARED_LAYERS,
    GGUF_RECURRENT,
    GGUF_INTERVAL,
    GGUF_SCALE,
    GGUF_ALIBI,
    GGUF_SOFTCAP,
    GGUF_KEYS
};

struct gguf_value {
    int64_t at; /* offset in the file */
    double *items;
    int count; /* 0: the key is absent */
    bool is_array;
};

struct gguf_metadata {
    char architecture[64];
    struct gguf_value values[GGUF_KEYS];
    bool sinks[MOST_LAYERS];
    struct text left_alone; /* keys of attention that are not understood */
    int left_alone_count;
};

/* Release with gguf_metadata_free, also after a failure. */
bool gguf_metadata_read(struct gguf_file *file, struct gguf_metadata *metadata);
void gguf_metadata_free(struct gguf_metadata *metadata);

/* Writes a key's whole name, such as "llama.attention.head_count", for messages. */
enum { GGUF_KEY_SIZE = 128 };
const char *gguf_key_name(const struct gguf_metadata *metadata, enum gguf_key key,
                          char name[GGUF_KEY_SIZE]);

#endif
