/* Formats of cache rows.  A row of format.c lists the parts of a format; everything else about the
   format follows from these parts.  A format is identified by its number, an enum kvmill_element.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_FORMAT_H
#define KVMILL_DEFS_FORMAT_H

#include <kvmill_kernel.h>

#include "dtype_parts.h"

/* What a code stands for. */
enum kvmill_code {
    KVMILL_CODE_FLOAT,
    KVMILL_CODE_SIGNED,   /* two's complement */
    KVMILL_CODE_OFFSET,   /* the code less 2^(bits - 1) */
    KVMILL_CODE_UNSIGNED, /* the code */
    KVMILL_CODE_TABLE     /* a place in a table of numbers */
};

/* How codes lie in bytes. */
enum kvmill_packing {
    KVMILL_PACKED_IN_TURN, /* in the order of elements, the first in the lowest bits */
    KVMILL_PACKED_HALVES   /* of a block: the bits above the fourth of all codes in turn; then their
                              nibbles, the low ones those of its first half */
};

/* Where scales are.  Bits, so that they make sets. */
enum kvmill_scales {
    KVMILL_WITHOUT_SCALES = 1,
    KVMILL_SCALES_OF_GROUPS = 2, /* in a tensor of their own, of a type that the problem says */
    KVMILL_SCALES_IN_BLOCKS = 4, /* float16, before the codes of a block */
    KVMILL_SCALES_IN_ROWS = 8,   /* float32, before all codes; then their sum, an int32 */
    KVMILL_SCALES_INSIDE = 12,   /* either: rows are bytes, scales are some of them */
    KVMILL_ANY_SCALES = 15
};

/* The rule that codes are made by. */
enum kvmill_rule {
    KVMILL_RULE_ROUND,    /* the nearest number, half to even */
    KVMILL_RULE_GROUPS,   /* PMX's: scale = largest magnitude / most, half to even */
    KVMILL_RULE_OUTWARDS, /* llama.cpp's: scale = largest magnitude / most, half away from zero */
    KVMILL_RULE_EXTREME, /* llama.cpp's: the largest magnitude becomes the code of most magnitude */
    KVMILL_RULE_RANGE,   /* llama.cpp's: from the minimum to the maximum */
    KVMILL_RULE_SQUARES, /* llama.cpp's: the nearest of a table; then the scale of least squares */
    KVMILL_RULE_EVEN     /* ik_llama.cpp's: scale = largest magnitude / most, half to even */
};

/* A float has 1 sign bit, then these. */
struct kvmill_float_parts {
    int exponent, mantissa; /* bits */
    bool finite;            /* no infinities: all numbers but one are such */
    bool saturates;         /* what is too large becomes the largest number */
};

struct kvmill_format_parts {
    const char *name; /* in symbols and templates */
    const char *word; /* in specs, descriptions, --cache */
    /* templates/format/<template>.m4: its arithmetic, where that is new; or NULL. */
    const char *template;
    DLDataType dtype; /* of the tensor; blocks are bytes */
    /* Where rows are elements one after the other: their type.  Its name is the format's word. */
    struct kvmill_dtype type;
    bool activation; /* queries, outputs and scales may be of it */
    enum kvmill_code code;
    const int8_t *table; /* of 2^bits numbers, the least first; or NULL */
    int bits;            /* of a code */
    struct kvmill_float_parts real;
    enum kvmill_packing packing;
    enum kvmill_scales scales;
    int block;       /* elements of a block, or 0; rows with one scale are of such, too */
    bool minimum;    /* float16, after the scale: what code 0 stands for */
    int tile;        /* rows that are interleaved, or 0: they lie one after the other */
    int piece;       /* of a row, in a tile: bytes */
    bool transposed; /* the rows of a page are a tile: quant_group says how many there are */
    enum kvmill_rule rule;
};

enum { KVMILL_MOST_FORMATS = 32, KVMILL_MOST_BLOCK = 64 };

/* The words that say that rows are in tiles, and that the keys of a page are transposed. */
#define KVMILL_TILES_WORD      "tiles"
#define KVMILL_TRANSPOSED_WORD "transposed"

/* Whether a cache_format, which may be NULL, is the latter. */
bool kvmill_says_transposed(const char *cache_format);

/* NULL for a number that is no format's; the first is 1. */
const struct kvmill_format_parts *kvmill_format_parts(int element);

/* "none" of 0, NULL beyond the last. */
const char *kvmill_format_name(int64_t element);

/* 0 where there is none. */
int kvmill_format_of_word(const char *word, int scales);
int kvmill_format_of_bits(int64_t bits, int scales);
int kvmill_format_of_tiles(int64_t bits, bool value); /* of keys, or of values */
int kvmill_format_transposed(int element);
int kvmill_element_of(DLDataType type); /* a tensor's, where its elements are those of a row */

/* Float32, float16 and bfloat16; what is cached as numbers, without scales. */
bool kvmill_is_activation(int element);
bool kvmill_is_plain(int element);

/* Whether there can be such rows.  An element that is none, a dim, a scale or a group that it
   cannot have: all that is to be said of it. */
bool kvmill_format_is_legal(const struct kvmill_format *format);

/* What dims, or groups where scales are of groups, are multiples of; dims of rows in tiles. */
int kvmill_format_multiple(const struct kvmill_format_parts *parts);
int kvmill_format_dim_multiple(const struct kvmill_format_parts *parts);

/* ---- Sizes ---- */

int kvmill_format_codes_bytes(const struct kvmill_format_parts *parts); /* of a block */
int kvmill_format_block_bytes(const struct kvmill_format_parts *parts);
int kvmill_format_codes_at(const struct kvmill_format_parts *parts); /* bytes before the codes */
int kvmill_format_row_head(const struct kvmill_format_parts *parts); /* bytes before all blocks */
int kvmill_format_code_offset(const struct kvmill_format_parts *parts); /* the code of 0 */
int kvmill_format_most_code(const struct kvmill_format_parts *parts);   /* that a rule makes */

/* Codes in a word of 32 bits; 0 where elements are no codes, or none that instructions multiply. */
int kvmill_format_word_codes(const struct kvmill_format_parts *parts);

/* Bytes of one row, and of its scales, where these are a tensor; how many of them; elements of the
   last dim of a cache. */
int64_t kvmill_format_row_bytes(const struct kvmill_format *format);
int64_t kvmill_format_scale_bytes(const struct kvmill_format *format);
int64_t kvmill_format_scale_count(const struct kvmill_format *format);
int64_t kvmill_format_last_dim(const struct kvmill_format *format);

/* Rows that are interleaved; 1: they lie one after the other. */
int64_t kvmill_format_tile(const struct kvmill_format *format);

/* What positions, pages and capacities are multiples of: K and V have tiles of different sizes. */
int64_t kvmill_format_row_multiple(const struct kvmill_format *format);

/* The element that one of them is alone, and how many of these are from one to the next. */
int kvmill_format_alone(const struct kvmill_format *format);
int64_t kvmill_format_step(const struct kvmill_format *format);

/* Bytes from row 0 of a cache to the row; from a row's begin to its byte i.  In tiles these are
   what they would be without them for the first row of a tile, and for byte 0, alone. */
int64_t kvmill_format_row_at(const struct kvmill_format *format, int64_t row, int64_t row_stride);
int64_t kvmill_format_byte_at(const struct kvmill_format_parts *parts, int64_t i);

/* Elements that share a scale; 0: none do. */
int64_t kvmill_format_group(const struct kvmill_format *format);

/* ---- Words ---- */

/* Those of formats with these scales, or of activations, each once; ends with NULL.  Without scales
   they are types. */
void kvmill_format_words(int scales, const char *words[KVMILL_MOST_FORMATS + 1]);
void kvmill_activation_words(const char *words[KVMILL_MOST_FORMATS + 1]);

/* The words of formats in blocks; these and the one for tiles; these and the one for transposed
   keys. End with NULL. */
extern const char *const kvmill_block_words[], *const kvmill_stored_words[],
                                                   *const kvmill_key_words[];

enum { KVMILL_WORDS_SIZE = 256 };

/* "a, b, c", each word between quotes. */
const char *kvmill_list_words(const char *const *words, const char *quote,
                              char text[KVMILL_WORDS_SIZE]);

#endif
