/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_work.h"

#include <string.h>

#include "../defs/isa.h"
#include "../runtime/core/numbers.h"

int64_t attention_format_bytes(const struct kvmill_format *format) {
    return kvmill_format_row_bytes(format) + kvmill_format_scale_bytes(format);
}

int64_t attention_row_bytes(const struct kvmill_cache_geometry *geometry) {
    int64_t value = geometry->value_view ? 0 : attention_format_bytes(&geometry->value);
    return geometry->kv_heads * (attention_format_bytes(&geometry->key) + value);
}

static int64_t first_seen(const struct attention_sight *sight, int64_t token) {
    int64_t position = sight->first + token;
    return sight->left < 0 ? 0 : kvmill_max(position - sight->left, 0);
}

/* Returns the position after the last one that a query sees. */
static int64_t end_of_seen(const struct attention_sight *sight, int64_t token) {
    int64_t after = sight->positions - (sight->first + token);
    bool bounded = sight->right >= 0 && sight->right < after;
    return bounded ? sight->first + token + 1 + sight->right : sight->positions;
}

double attention_pairs(const struct attention_sight *sight) {
    double pairs = 0;
    for (int64_t token = 0; token < sight->tokens; token++)
        pairs += (double)(end_of_seen(sight, token) - first_seen(sight, token));
    return pairs;
}

int64_t attention_rows(const struct attention_sight *sight) {
    return end_of_seen(sight, sight->tokens - 1) - first_seen(sight, 0);
}

/* The new tokens are the last of the positions. */
static struct attention_sight sight_of(const struct kvmill_cache_geometry *geometry,
                                       const struct run_size *size) {
    return (struct attention_sight){.first = size->positions - size->tokens,
                                    .tokens = size->tokens,
                                    .positions = size->positions,
                                    .left = geometry->window - 1,
                                    .right = geometry->causal || geometry->alibi ? 0 : -1};
}

double attention_read_bytes(const struct kvmill_cache_geometry *geometry,
                            const struct run_size *size) {
    const struct attention_sight sight = sight_of(geometry, size);
    return (double)size->batch * (double)attention_rows(&sight) *
           (double)attention_row_bytes(geometry);
}

double attention_flops(const struct kvmill_cache_geometry *geometry, const struct run_size *size) {
    const struct attention_sight sight = sight_of(geometry, size);
    return 2 * attention_pairs(&sight) * (double)size->batch * (double)geometry->heads *
           (geometry->key.dim + geometry->value.dim);
}

int64_t attention_activation_bytes(const struct kvmill_cache_geometry *geometry,
                                   const struct run_size *size) {
    int64_t value = geometry->value_view ? 0 : geometry->value.dim;
    return size->batch * size->tokens * geometry->kv_heads * (geometry->key.dim + value) *
           kvmill_activation_bytes(geometry->activation);
}

double attention_store_bytes(const struct kvmill_cache_geometry *geometry,
                             const struct run_size *size) {
    int64_t rows = size->batch * size->tokens;
    return (double)(attention_activation_bytes(geometry, size) +
                    rows * attention_row_bytes(geometry));
}

/* ---- Bars ---- */

/* The bars for one cache format, in the shape of Llama-3.1-8B.  First index: vectors of 8 floats,
   of 16 floats; second index: the math of the geometry.  0: no bar. */
struct bars {
    double decode[2][3], prefill[2][3];
};

static const struct bars *bars_of(const struct kvmill_cache_geometry *geometry) {
    static const struct bars floats = {{{0.80}, {0.93}}, {{0.70}, {0.70}}};
    static const struct bars halves = {{{0.60}, {0.85, 0, 0.93}}, {{0.70}, {0.70, 0, 0.95}}};
    static const struct bars brains = {{{0.60}, {0.85, 0, 0.93}}, {{0.70}, {0.70}}};
    static const struct bars bytes = {{{0.35, 0.50, 0.50}, {0.66, 0.80, 0.88}},
                                      {{0.70, 0.90, 0.90}, {0.70, 1.00, 1.00}}};
    static const struct bars bytes_by_8 = {{{0.30, 0.40, 0.40}, {0.60, 0.70, 0.85}},
                                           {{0.70, 0.90, 0.90}, {0.70, 1.00, 1.00}}};
    static const struct bars nibbles = {{{0.20, 0.30, 0.30}, {0.40, 0.60, 0.70}},
                                        {{0.65, 0.85, 0.85}, {0.65, 0.95, 0.95}}};
    const struct kvmill_format *key = &geometry->key;
    if (memcmp(key, &geometry->value, sizeof *key) != 0)
        return NULL;
    switch (key->element) {
    case KVMILL_F32:
        return &floats;
    case KVMILL_F16:
        return &halves;
    case KVMILL_BF16:
        return &brains;
    case KVMILL_I8:
        return key->quant_group == 8 ? &bytes_by_8 : key->quant_group >= 32 ? &bytes : NULL;
    case KVMILL_Q8_0:
        return &bytes;
    case KVMILL_I4:
        return key->quant_group >= 32 ? &nibbles : NULL;
    case KVMILL_Q4_0:
        return &nibbles;
    default:
        return NULL;
    }
}

/* Other known shapes must reach 0.9 of the bars; a shape without bars has 0. */
static double share_of_shape(const struct kvmill_cache_geometry *geometry) {
    static const int64_t others[][3] = {{14, 2, 64}, {71, 1, 64}, {32, 32, 80}, {16, 8, 256}};
    const int64_t shape[] = {geometry->heads, geometry->kv_heads, geometry->key.dim};
    static const int64_t llama[] = {32, 8, 128};
    if (memcmp(shape, llama, sizeof shape) == 0)
        return 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (memcmp(shape, others[i], sizeof shape) == 0)
            return 0.9;
    return 0;
}

/* Returns the first index into the bars for an instruction set, or -1 if it has no bars. */
static int width_of(const char *name) {
    const struct isa *isa = kvmill_isa_by_name(name, strlen(name));
    int64_t lanes = isa ? isa->lanes : 0;
    return lanes == 8 ? 0 : lanes == 16 ? 1 : -1;
}

double attention_decode_bar(const struct kvmill_cache_geometry *geometry, const char *isa) {
    const struct bars *bars = bars_of(geometry);
    int width = width_of(isa);
    if (bars == NULL || width < 0)
        return 0;
    return share_of_shape(geometry) * bars->decode[width][geometry->math];
}

/* Chunks of 16 to 511 tokens must reach two thirds of the bar. */
double attention_prefill_bar(const struct kvmill_cache_geometry *geometry, const char *isa,
                             int64_t tokens) {
    const struct bars *bars = bars_of(geometry);
    double part = tokens >= 512 ? 1 : tokens >= 16 ? 2.0 / 3 : 0;
    int width = width_of(isa);
    if (bars == NULL || width < 0)
        return 0;
    return part * share_of_shape(geometry) * bars->prefill[width][geometry->math];
}
