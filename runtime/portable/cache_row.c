/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_row.h"

#include "../../defs/codes.h"
#include "../core/numbers.h"

struct piece {
    const struct kvmill_format *format;
    const struct kvmill_format_parts *parts;
    const unsigned char *data, *scale;
    int64_t from, count;
};

enum { PIECE = 64 };

static void load_plain(const struct piece *piece, float *row) {
    int element = kvmill_format_alone(piece->format);
    int64_t step = kvmill_format_step(piece->format);
    for (int64_t i = 0; i < piece->count; i++)
        row[i] = kvmill_load_float(element, piece->data, (piece->from + i) * step);
}

static void load_group(const struct piece *piece, float scale, float *row) {
    int codes[PIECE];
    for (int64_t at = 0, count; at < piece->count; at += count) {
        count = piece->count - at < PIECE ? piece->count - at : PIECE;
        kvmill_unpack_codes(piece->parts, piece->data, piece->from + at, count, codes);
        for (int64_t i = 0; i < count; i++)
            row[at + i] = (float)codes[i] * scale;
    }
}

static void load_groups(const struct piece *piece, float *row) {
    struct piece part = *piece;
    int64_t group = piece->format->quant_group, end = piece->from + piece->count;
    for (; part.from < end; part.from += part.count) {
        int64_t number = part.from / group, rest = (number + 1) * group - part.from;
        part.count = end - part.from < rest ? end - part.from : rest;
        load_group(&part, kvmill_load_float(piece->format->scale, piece->scale, number),
                   row + (part.from - piece->from));
    }
}

/* Products of codes and a float16 are exact: sums have one rounding, however they are computed. */
static void load_block(const struct kvmill_format_parts *parts, const unsigned char *block,
                       float *row) {
    int codes[KVMILL_MOST_BLOCK];
    float scale = kvmill_load_float(KVMILL_F16, block, 0);
    float minimum = parts->minimum ? kvmill_load_float(KVMILL_F16, block, 1) : -0.0f;
    kvmill_unpack_codes(parts, block + kvmill_format_codes_at(parts), 0, parts->block, codes);
    for (int i = 0; i < parts->block; i++)
        row[i] = (float)codes[i] * scale + minimum;
}

static void load_blocks(const struct piece *piece, float *row) {
    int size = piece->parts->block, bytes = kvmill_format_block_bytes(piece->parts);
    for (int64_t i = 0; i < piece->count; i += size)
        load_block(piece->parts, piece->data + (piece->from + i) / size * bytes, row + i);
}

static void load_after_head(const struct piece *piece, float *row) {
    struct piece codes = *piece;
    codes.data += kvmill_format_codes_at(piece->parts);
    load_group(&codes, kvmill_load_float(KVMILL_F32, piece->data, 0), row);
}

void kvmill_load_cache_row(const struct kvmill_format *format, const unsigned char *data,
                           const unsigned char *scale, int64_t from, int64_t count, float *row) {
    const struct piece piece = {format, kvmill_format_parts(format->element), data, scale, from,
                                count};
    switch (piece.parts->scales) {
    case KVMILL_SCALES_OF_GROUPS:
        load_groups(&piece, row);
        break;
    case KVMILL_SCALES_IN_BLOCKS:
        load_blocks(&piece, row);
        break;
    case KVMILL_SCALES_IN_ROWS:
        load_after_head(&piece, row);
        break;
    default:
        load_plain(&piece, row);
    }
}
