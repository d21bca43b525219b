/* SPDX-License-Identifier: Apache-2.0 */
#include "codes.h"

/* ---- Bit fields: number i of fields with the same number of bits ---- */

static unsigned field_of(const unsigned char *data, int bits, int64_t i) {
    int64_t at = i * bits;
    int shift = (int)(at % 8);
    unsigned word = data[at / 8];
    if (shift + bits > 8)
        word |= (unsigned)data[at / 8 + 1] << 8;
    return word >> shift & ((1u << bits) - 1);
}

static void set_field(unsigned char *data, int bits, int64_t i, unsigned field) {
    int64_t at = i * bits;
    int shift = (int)(at % 8);
    unsigned mask = ((1u << bits) - 1) << shift, word = field << shift;
    data[at / 8] = (unsigned char)((data[at / 8] & ~mask) | (word & 0xff));
    if (shift + bits > 8)
        data[at / 8 + 1] = (unsigned char)((data[at / 8 + 1] & ~(mask >> 8)) | word >> 8);
}

/* ---- Halves: bits above the fourth, then nibbles ---- */

enum { NIBBLE = 4 };

/* The nibble of element i. */
static int64_t nibble_of(const struct kvmill_format_parts *parts, int64_t i) {
    int half = parts->block / 2;
    return i < half ? 2 * i : 2 * (i - half) + 1;
}

/* The bits above the nibble: in the order of elements, or two of each in the order of ik_llama.cpp.
 */
static int64_t above_of(const struct kvmill_format_parts *parts, int64_t i) {
    int quarter = parts->block / 4;
    return parts->bits - NIBBLE == 1 ? i : i % quarter * 4 + i / quarter % 2 * 2 + i / quarter / 2;
}

static int bytes_above(const struct kvmill_format_parts *parts) {
    return parts->block * (parts->bits - NIBBLE) / 8;
}

static unsigned code_in_halves(const struct kvmill_format_parts *parts, const unsigned char *data,
                               int64_t i) {
    unsigned low = field_of(data + bytes_above(parts), NIBBLE, nibble_of(parts, i));
    return parts->bits == NIBBLE
               ? low
               : low | field_of(data, parts->bits - NIBBLE, above_of(parts, i)) << NIBBLE;
}

static void set_in_halves(const struct kvmill_format_parts *parts, unsigned char *data, int64_t i,
                          unsigned code) {
    set_field(data + bytes_above(parts), NIBBLE, nibble_of(parts, i), code & 0xf);
    if (parts->bits > NIBBLE)
        set_field(data, parts->bits - NIBBLE, above_of(parts, i), code >> NIBBLE);
}

/* ---- Tiles: the bytes of a row are apart, and each holds whole codes ---- */

/* Where code i of a row in a tile is, counted in codes. */
static int64_t code_in_turn(const struct kvmill_format_parts *parts, int64_t i) {
    int codes = parts->tile > 0 ? 8 / parts->bits : 1; /* in a byte */
    return kvmill_format_byte_at(parts, i / codes) * codes + i % codes;
}

/* ---- The numbers that codes stand for ---- */

/* The index of a number in the table. */
static int place_of(const struct kvmill_format_parts *parts, int number) {
    int place = 0;
    while (place < (1 << parts->bits) - 1 && parts->table[place] < number)
        place++;
    return place;
}

void kvmill_unpack_codes(const struct kvmill_format_parts *parts, const unsigned char *data,
                         int64_t from, int64_t count, int *codes) {
    bool in_turn = parts->packing == KVMILL_PACKED_IN_TURN;
    const int bits = parts->bits, offset = kvmill_format_code_offset(parts);
    const int sign = parts->code == KVMILL_CODE_SIGNED ? 1 << (bits - 1) : 0;
    for (int64_t i = 0; i < count; i++) {
        unsigned code = in_turn ? field_of(data, bits, code_in_turn(parts, from + i))
                                : code_in_halves(parts, data, from + i);
        codes[i] = parts->table != NULL ? parts->table[code] : ((int)code ^ sign) - sign - offset;
    }
}

void kvmill_pack_codes(const struct kvmill_format_parts *parts, const int *codes, int64_t from,
                       int64_t count, unsigned char *data) {
    const int bits = parts->bits, offset = kvmill_format_code_offset(parts);
    for (int64_t i = 0; i < count; i++) {
        int number = parts->table != NULL ? place_of(parts, codes[i]) : codes[i] + offset;
        unsigned code = (unsigned)number & ((1u << bits) - 1);
        if (parts->packing == KVMILL_PACKED_IN_TURN)
            set_field(data, bits, code_in_turn(parts, from + i), code);
        else
            set_in_halves(parts, data, from + i, code);
    }
}
