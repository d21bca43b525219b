/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_row.h"

#include "numbers.h"

struct piece {
    const struct kvmill_format *format;
    const unsigned char *data, *scale;
    int64_t from, count;
};

typedef void load_piece(const struct piece *piece, float *row);

static void load_plain(const struct piece *piece, float *row) {
    for (int64_t i = 0; i < piece->count; i++)
        row[i] = kvmill_load_float(piece->format->element, piece->data, piece->from + i);
}

static void scale_groups(const struct piece *piece, float *row) {
    int64_t group = piece->from / piece->format->group, i = 0;
    for (; i < piece->count; group++) {
        float scale = kvmill_load_float(piece->format->scale, piece->scale, group);
        int64_t end = (group + 1) * piece->format->group - piece->from;
        for (; i < end && i < piece->count; i++)
            row[i] *= scale;
    }
}

static void load_i8(const struct piece *piece, float *row) {
    for (int64_t i = 0; i < piece->count; i++)
        row[i] = (int8_t)piece->data[piece->from + i];
    scale_groups(piece, row);
}

static void load_i4(const struct piece *piece, float *row) {
    for (int64_t i = 0; i < piece->count; i++) {
        int64_t element = piece->from + i;
        int code = piece->data[element / 2] >> (element % 2 * 4) & 0xf;
        row[i] = (float)((code ^ 8) - 8);
    }
    scale_groups(piece, row);
}

static void load_q8_0(const struct piece *piece, float *row) {
    const unsigned char *block = piece->data + piece->from / KVMILL_BLOCK * KVMILL_Q8_0_BYTES;
    for (int64_t i = 0; i < piece->count; i += KVMILL_BLOCK, block += KVMILL_Q8_0_BYTES) {
        float scale = kvmill_load_float(KVMILL_F16, block, 0);
        for (int j = 0; j < KVMILL_BLOCK; j++)
            row[i + j] = (float)(int8_t)block[KVMILL_BLOCK_SCALE + j] * scale;
    }
}

static void load_q4_0(const struct piece *piece, float *row) {
    const unsigned char *block = piece->data + piece->from / KVMILL_BLOCK * KVMILL_Q4_0_BYTES;
    for (int64_t i = 0; i < piece->count; i += KVMILL_BLOCK, block += KVMILL_Q4_0_BYTES) {
        float scale = kvmill_load_float(KVMILL_F16, block, 0);
        for (int j = 0; j < KVMILL_BLOCK / 2; j++) {
            int codes = block[KVMILL_BLOCK_SCALE + j];
            row[i + j] = (float)((codes & 0xf) - 8) * scale;
            row[i + j + KVMILL_BLOCK / 2] = (float)((codes >> 4) - 8) * scale;
        }
    }
}

static load_piece *const loaders[] = {
    [KVMILL_F32] = load_plain, [KVMILL_F16] = load_plain, [KVMILL_BF16] = load_plain,
    [KVMILL_I8] = load_i8,     [KVMILL_I4] = load_i4,     [KVMILL_Q8_0] = load_q8_0,
    [KVMILL_Q4_0] = load_q4_0,
};

void kvmill_load_cache_row(const struct kvmill_format *format, const unsigned char *data,
                           const unsigned char *scale, int64_t from, int64_t count, float *row) {
    loaders[format->element](&(struct piece){format, data, scale, from, count}, row);
}
