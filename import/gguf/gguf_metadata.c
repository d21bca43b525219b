/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf_metadata.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Types of values, by GGUF's numbers ---- */

enum { TYPE_FLOAT32 = 6, TYPE_BOOL = 7, TYPE_STRING = 8, TYPE_ARRAY = 9, TYPE_FLOAT64 = 12 };

static const struct type {
    const char *name;
    int bytes; /* at least; an array or string may have more */
    bool is_signed;
} types[] = {
    {"uint8", 1, false},   {"int8", 1, true},      {"uint16", 2, false}, {"int16", 2, true},
    {"uint32", 4, false},  {"int32", 4, true},     {"float32", 4, true}, {"bool", 1, false},
    {"a string", 8, true}, {"an array", 12, true}, {"uint64", 8, false}, {"int64", 8, true},
    {"float64", 8, true},
};

enum { TYPES = sizeof types / sizeof *types };

static bool read_type(struct gguf_file *file, uint64_t *type) {
    int64_t at = file->at;
    return gguf_number(file, 4, type, "a type") &&
           (*type < TYPES ||
            gguf_fail(file, at, "type %" PRIu64 "; accepted: 0 to %d", *type, TYPES - 1));
}

/* ---- Keys ---- */

static const struct key {
    const char *name; /* without "ARCHITECTURE." */
    double most;      /* accepts whole numbers from 0 to this; 0: fractions, too */
    bool global;      /* the key has no "ARCHITECTURE." */
    bool array;       /* may be an array with a value for each layer */
} keys[GGUF_KEYS] = {
    [GGUF_SPLIT_NO] = {.name = "split.no", .most = 65535, .global = true},
    [GGUF_SPLIT_COUNT] = {.name = "split.count", .most = 65535, .global = true},
    [GGUF_LAYERS] = {.name = "block_count", .most = MOST_LAYERS},
    [GGUF_POSITIONS] = {.name = "context_length", .most = (double)MOST_POSITIONS},
    [GGUF_HIDDEN] = {.name = "embedding_length", .most = (double)MOST_HIDDEN},
    [GGUF_HEADS] = {.name = "attention.head_count", .most = MOST_HEADS, .array = true},
    [GGUF_KV_HEADS] = {.name = "attention.head_count_kv", .most = MOST_HEADS, .array = true},
    [GGUF_KEY_LENGTH] = {.name = "attention.key_length", .most = MOST_HEAD_DIM},
    [GGUF_VALUE_LENGTH] = {.name = "attention.value_length", .most = MOST_HEAD_DIM},
    [GGUF_KEY_LENGTH_SWA] = {.name = "attention.key_length_swa", .most = MOST_HEAD_DIM},
    [GGUF_VALUE_LENGTH_SWA] = {.name = "attention.value_length_swa", .most = MOST_HEAD_DIM},
    [GGUF_KEY_LENGTH_MLA] = {.name = "attention.key_length_mla", .most = MOST_HEAD_DIM},
    [GGUF_KV_RANK] = {.name = "attention.kv_lora_rank", .most = MOST_HEAD_DIM},
    [GGUF_WINDOW] = {.name = "attention.sliding_window", .most = (double)MOST_POSITIONS},
    [GGUF_PATTERN] = {.name = "attention.sliding_window_pattern",
                      .most = MOST_LAYERS,
                      .array = true},
    [GGUF_SHARED_LAYERS] = {.name = "attention.shared_kv_layers", .most = MOST_LAYERS},
    [GGUF_RECURRENT] = {.name = "attention.recurrent_layers", .most = 1, .array = true},
    [GGUF_INTERVAL] = {.name = "full_attention_interval", .most = MOST_LAYERS},
    [GGUF_SCALE] = {.name = "attention.scale"},
    [GGUF_ALIBI] = {.name = "attention.max_alibi_bias"},
    [GGUF_SOFTCAP] = {.name = "attn_logit_softcapping"},
};

/* Keys "attention...." that affect neither the cache nor its kernels. */
static const char *const others[] = {
    "layer_norm_epsilon",
    "layer_norm_rms_epsilon",
    "group_norm_epsilon",
    "group_norm_groups",
    "causal",
    "clamp_kqv",
    "q_lora_rank",
    "output_lora_rank",
    "gate_lora_rank",
    "decay_lora_rank",
    "iclr_lora_rank",
    "value_residual_mix_lora_rank",
    "value_length_mla",
    "output_scale",
    "value_scale",
    "temperature_length",
    "temperature_scale",
    "rope_pattern",
};

const char *gguf_key_name(const struct gguf_metadata *metadata, enum gguf_key key,
                          char name[GGUF_KEY_SIZE]) {
    snprintf(name, GGUF_KEY_SIZE, "%s%s%s", keys[key].global ? "" : metadata->architecture,
             keys[key].global ? "" : ".", keys[key].name);
    return name;
}

/* Returns the part of a name after "ARCHITECTURE.", or NULL if the name does not begin with
   that. */
static const char *own_part(const struct gguf_metadata *metadata, const char *name) {
    size_t length = strlen(metadata->architecture);
    bool own = strncmp(name, metadata->architecture, length) == 0 && name[length] == '.';
    return own ? name + length + 1 : NULL;
}

/* Returns the number of a key, or GGUF_KEYS if it is not in the table. */
static int find_key(const struct gguf_metadata *metadata, const char *name) {
    const char *own = own_part(metadata, name);
    for (int key = 0; key < GGUF_KEYS; key++) {
        const char *part = keys[key].global ? name : own;
        if (part != NULL && strcmp(part, keys[key].name) == 0)
            return key;
    }
    return GGUF_KEYS;
}

/* ---- Keys that are not understood ---- */

static bool is_understood(const char *own) {
    static const char attention[] = "attention.";
    size_t length = sizeof attention - 1;
    if (own == NULL || strncmp(own, attention, length) != 0)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(own + length, others[i]) == 0)
            return true;
    return false;
}

static bool note_key(struct gguf_metadata *metadata, const char *name, struct error *error) {
    enum { MOST_NAMES = 6 };
    const char *before = metadata->left_alone_count == 0 ? "" : ", ";
    if (is_understood(own_part(metadata, name)) || metadata->left_alone_count > MOST_NAMES)
        return true;
    if (metadata->left_alone_count++ == MOST_NAMES)
        name = "...";
    return text_print(&metadata->left_alone, "%s%s", before, name) || out_of_memory(error);
}

/* ---- Values ---- */

static bool skip_strings(struct gguf_file *file, uint64_t count) {
    char none[1];
    if (!gguf_has_room(file, count, types[TYPE_STRING].bytes, "an array"))
        return false;
    while (count-- > 0)
        if (!gguf_string(file, none, sizeof none, "a string"))
            return false;
    return true;
}

/* Reads the type and the number of an array's elements. */
static bool read_array(struct gguf_file *file, uint64_t *type, uint64_t *count) {
    int64_t at = file->at;
    return read_type(file, type) &&
           (*type != TYPE_ARRAY ||
            gguf_fail(file, at, "an array of arrays; accepted: arrays of numbers or strings")) &&
           gguf_number(file, 8, count, "an array's length");
}

static bool skip_value(struct gguf_file *file, uint64_t type) {
    uint64_t count = 1;
    if (type == TYPE_ARRAY && !read_array(file, &type, &count))
        return false;
    return type == TYPE_STRING ? skip_strings(file, count)
                               : gguf_skip(file, count, types[type].bytes, "a value");
}

/* Integers beyond 2^53 are rounded, which does not change whether they are accepted. */
static double number_of(uint64_t bits, uint64_t type) {
    float single;
    double real;
    int above = 64 - 8 * types[type].bytes;
    if (type == TYPE_FLOAT32) {
        memcpy(&single, &(uint32_t){(uint32_t)bits}, sizeof single);
        return (double)single;
    }
    if (type == TYPE_FLOAT64) {
        memcpy(&real, &bits, sizeof real);
        return real;
    }
    return types[type].is_signed ? (double)((int64_t)(bits << above) >> above) : (double)bits;
}

static bool check_number(const struct gguf_file *file, const char *name, const struct key *key,
                         double value) {
    bool whole = key->most != 0, fits = value >= 0 && value <= (whole ? key->most : 1e30);
    if (fits && (!whole || value == floor(value)))
        return true;
    return whole ? gguf_fail(file, file->at, "%s is %g; accepted: whole numbers from 0 to %.0f",
                             name, value, key->most)
                 : gguf_fail(file, file->at, "%s is %g; accepted: 0 to 1e30", name, value);
}

static bool read_items(struct gguf_file *file, const char *name, const struct key *key,
                       uint64_t type, struct gguf_value *value) {
    uint64_t bits = 0;
    for (int i = 0; i < value->count; i++) {
        const int64_t at = file->at;
        if (!gguf_number(file, (size_t)types[type].bytes, &bits, name))
            return false;
        value->items[i] = number_of(bits, type);
        file->at = at;
        if (!check_number(file, name, key, value->items[i]))
            return false;
        file->at += types[type].bytes;
    }
    return true;
}

static bool check_shape(const struct gguf_file *file, const char *name, const struct key *key,
                        const struct gguf_value *value, uint64_t type, uint64_t count) {
    if (value->count > 0)
        return gguf_fail(file, value->at, "%s occurs twice; accepted: each key once", name);
    if (type == TYPE_STRING)
        return gguf_fail(file, value->at, "%s is text; accepted: numbers", name);
    if (value->is_array && !key->array)
        return gguf_fail(file, value->at, "%s is an array; accepted: a number", name);
    return (count >= 1 && count <= MOST_LAYERS) ||
           gguf_fail(file, value->at, "%s has %" PRIu64 " elements; accepted: 1 to %d", name, count,
                     MOST_LAYERS);
}

static bool read_value(struct gguf_file *file, const char *name, const struct key *key,
                       uint64_t type, struct gguf_value *value) {
    uint64_t count = 1;
    value->at = file->at;
    value->is_array = type == TYPE_ARRAY;
    if ((value->is_array && !read_array(file, &type, &count)) ||
        !check_shape(file, name, key, value, type, count) ||
        !gguf_has_room(file, count, types[type].bytes, name))
        return false;
    value->items = calloc(count, sizeof *value->items);
    if (value->items == NULL)
        return out_of_memory(file->error);
    value->count = (int)count;
    return read_items(file, name, key, type, value);
}

/* ---- Pairs of keys and values ---- */

static bool read_key(struct gguf_file *file, char name[GGUF_KEY_SIZE], uint64_t *type) {
    return gguf_string(file, name, GGUF_KEY_SIZE, "a key") && read_type(file, type);
}

static bool check_architecture(const struct gguf_file *file, int64_t at, const char *name) {
    size_t plain =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return (*name != '\0' && name[plain] == '\0') ||
           gguf_fail(file, at,
                     "general.architecture is not a word; accepted: up to 63 letters, "
                     "digits, \"-\", \"_\" and \".\"");
}

/* The architecture may be at any place, and names of other keys begin with it: so it is read first.
   "" if it is missing. */
static bool find_architecture(struct gguf_file *file, uint64_t pairs,
                              struct gguf_metadata *metadata) {
    char name[GGUF_KEY_SIZE];
    uint64_t type;
    while (pairs-- > 0) {
        if (!read_key(file, name, &type))
            return false;
        if (strcmp(name, "general.architecture") == 0 && type == TYPE_STRING) {
            int64_t at = file->at;
            return gguf_string(file, metadata->architecture, sizeof metadata->architecture, name) &&
                   check_architecture(file, at, metadata->architecture);
        }
        if (!skip_value(file, type))
            return false;
    }
    return true;
}

static bool read_pairs(struct gguf_file *file, uint64_t pairs, struct gguf_metadata *metadata) {
    char name[GGUF_KEY_SIZE];
    uint64_t type;
    while (pairs-- > 0) {
        if (!read_key(file, name, &type))
            return false;
        int key = find_key(metadata, name);
        bool done = key < GGUF_KEYS
                        ? read_value(file, name, &keys[key], type, &metadata->values[key])
                        : skip_value(file, type) && note_key(metadata, name, file->error);
        if (!done)
            return false;
    }
    return true;
}

/* ---- Tensors ---- */

/* Notes that a layer has sinks, from a name such as "blk.12.attn_sinks.weight". */
static void note_tensor(const char *name, struct gguf_metadata *metadata) {
    int layer = -1, end = 0;
    if (sscanf(name, "blk.%4d.attn_sinks.%n", &layer, &end) == 1 && end > 0 && layer >= 0 &&
        layer < MOST_LAYERS)
        metadata->sinks[layer] = true;
}

static bool read_tensors(struct gguf_file *file, uint64_t tensors, struct gguf_metadata *metadata) {
    enum { MOST_DIMS = 4, TYPE_AND_OFFSET = 12 };
    char name[GGUF_KEY_SIZE];
    uint64_t dims;
    while (tensors-- > 0) {
        if (!gguf_string(file, name, sizeof name, "a tensor's name") ||
            !gguf_number(file, 4, &dims, "a tensor's rank"))
            return false;
        if (dims > MOST_DIMS)
            return gguf_fail(file, file->at - 4, "a tensor of %" PRIu64 " dims; accepted: up to %d",
                             dims, MOST_DIMS);
        if (!gguf_skip(file, dims * 8 + TYPE_AND_OFFSET, 1, "a tensor's shape"))
            return false;
        note_tensor(name, metadata);
    }
    return true;
}

/* ---- The header ---- */

static bool check_version(const struct gguf_file *file, uint64_t version) {
    if (version == 2 || version == 3)
        return true;
    return version != 0 && version % 65536 == 0
               ? gguf_fail(file, 4, "the numbers are big-endian; accepted: little-endian ones")
               : gguf_fail(file, 4, "version %" PRIu64 "; accepted: 2, 3", version);
}

static bool read_start(struct gguf_file *file, uint64_t *tensors, uint64_t *pairs) {
    enum { LEAST_TENSOR = 24, LEAST_PAIR = 13 };
    const unsigned char *magic;
    uint64_t version;
    if (!gguf_read_bytes(file, 4, &magic, "the magic"))
        return false;
    if (memcmp(magic, "GGUF", 4) != 0)
        return gguf_fail(file, 0, "is not a GGUF file; accepted: those that begin with \"GGUF\"");
    return gguf_number(file, 4, &version, "the version") && check_version(file, version) &&
           gguf_number(file, 8, tensors, "the number of tensors") &&
           gguf_has_room(file, *tensors, LEAST_TENSOR, "the list of tensors") &&
           gguf_number(file, 8, pairs, "the number of keys") &&
           gguf_has_room(file, *pairs, LEAST_PAIR, "the list of keys");
}

/* Only the first file of a split model has more keys than these two. */
static bool check_split(const struct gguf_file *file, const struct gguf_metadata *metadata) {
    const struct gguf_value *number = &metadata->values[GGUF_SPLIT_NO],
                            *count = &metadata->values[GGUF_SPLIT_COUNT];
    int files = count->count > 0 ? (int)count->items[0] : 0;
    if (number->count == 0 || number->items[0] == 0)
        return true;
    return gguf_fail(file, number->at,
                     "this is file %.0f of a model of %d; accepted: the first one, whose name ends "
                     "with -00001-of-%05d.gguf",
                     number->items[0] + 1, files, files);
}

bool gguf_metadata_read(struct gguf_file *file, struct gguf_metadata *metadata) {
    uint64_t tensors, pairs;
    memset(metadata, 0, sizeof *metadata);
    if (!read_start(file, &tensors, &pairs))
        return false;
    int64_t first = file->at;
    if (!find_architecture(file, pairs, metadata))
        return false;
    file->at = first;
    if (!read_pairs(file, pairs, metadata) || !check_split(file, metadata))
        return false;
    if (metadata->architecture[0] == '\0')
        return gguf_fail(file, file->at, "general.architecture is missing; accepted: models");
    return read_tensors(file, tensors, metadata);
}

void gguf_metadata_free(struct gguf_metadata *metadata) {
    for (int key = 0; key < GGUF_KEYS; key++)
        free(metadata->values[key].items);
    text_free(&metadata->left_alone);
}
