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
    KVMILL_CODE_OFFSET,   /* the code minus 2^(bits - 1) */
    KVMILL_CODE_UNSIGNED, /* the code */
    KVMILL_CODE_TABLE     /* an index of a table of numbers */
};

/* How codes are packed into bytes. */
enum kvmill_packing {
    KVMILL_PACKED_IN_TURN, /* in the order of elements, the first in the lowest bits */
    KVMILL_PACKED_HALVES   /* in a block: first the bits above the fourth of all codes; then the
                              nibbles, the low ones for its first half, the high ones for the second
                            */
};

/* Where scales are.  The values are bits, so that they form sets. */
enum kvmill_scales {
    KVMILL_WITHOUT_SCALES = 1,
    KVMILL_SCALES_OF_GROUPS = 2, /* in a separate tensor, with a type that the problem gives */
    KVMILL_SCALES_IN_BLOCKS = 4, /* float16, before the codes of a block */
    KVMILL_SCALES_IN_ROWS = 8,   /* float32, before all codes; then their sum, an int32 */
    KVMILL_SCALES_INSIDE = 12,   /* either of these: rows are bytes, some of which are scales */
    KVMILL_ANY_SCALES = 15
};

/* The rule of quantisation. */
enum kvmill_rule {
    KVMILL_RULE_ROUND,    /* the nearest number, ties to even */
    KVMILL_RULE_GROUPS,   /* PMX's: scale = largest magnitude / most, ties to even */
    KVMILL_RULE_OUTWARDS, /* llama.cpp's: scale = largest magnitude / most, ties away from zero */
    KVMILL_RULE_EXTREME,  /* llama.cpp's: the largest magnitude gets the code with the largest
                             magnitude */
    KVMILL_RULE_RANGE,    /* llama.cpp's: from the minimum to the maximum */
    KVMILL_RULE_SQUARES,  /* llama.cpp's: the nearest of a table; then the scale of least squares */
    KVMILL_RULE_EVEN      /* ik_llama.cpp's: scale = largest magnitude / most, ties to even */
};

/* A float has a sign bit and these fields. */
struct kvmill_float_parts {
    int exponent, mantissa; /* bits */
    bool finite;            /* no infinities; all numbers but one are finite */
    bool saturates;         /* numbers that are too large become the largest number */
};

struct kvmill_format_parts {
    const char *name; /* in symbols and templates */
    const char *word; /* in specs, descriptions, --cache */
    /* templates/format/<template>.m4 has its arithmetic, if that is new; or NULL. */
    const char *template;
    DLDataType dtype; /* of the tensor; blocks are bytes */
    /* If rows are elements in order: their type.  Its name is the format's word. */
    struct kvmill_dtype type;
    bool activation; /* queries, outputs and scales may have this type */
    enum kvmill_code code;
    const int8_t *table; /* 2^bits numbers, ascending; or NULL */
    int bits;            /* of a code */
    struct kvmill_float_parts real;
    enum kvmill_packing packing;
    enum kvmill_scales scales;
    int block;       /* elements of a block, or 0; also for rows with one scale */
    bool minimum;    /* a float16 after the scale: what code 0 stands for */
    int tile;        /* rows that are interleaved, or 0 */
    int piece;       /* adjacent bytes of a row, in a tile */
    bool transposed; /* the rows of a page are a tile; quant_group is their number */
    enum kvmill_rule rule;
};

enum { KVMILL_MOST_FORMATS = 32, KVMILL_MOST_BLOCK = 64 };

/* The words for rows in tiles, and for transposed keys. */
#define KVMILL_TILES_WORD      "tiles"
#define KVMILL_TRANSPOSED_WORD "transposed"

/* Whether a cache_format, which may be NULL, says that keys are transposed. */
bool kvmill_names_transposed(const char *cache_format);

/* NULL if no format has this number; the first number is 1. */
const struct kvmill_format_parts *kvmill_format_parts(int element);

/* The name of a format: "none" for 0, NULL beyond the last. */
const char *kvmill_format_name(int64_t element);

/* The number of a format, or 0 if there is none. */
int kvmill_format_of_word(const char *word, int scales);
int kvmill_element_of(DLDataType type); /* by a tensor's type, if its elements are those of a row */

/* How PMX's attributes name a format.  Groups and the type of their scales are the problem's. */
struct kvmill_attributes {
    int64_t quant_bit, quant_group;
    DLDataType T2, T3;
    const char *cache_format;
};

/* The attributes of a format. */
struct kvmill_attributes kvmill_format_attributes(const struct kvmill_format_parts *parts);

/* The format of keys or of values that agrees with the attributes in cache_format; of several, that
   which also agrees in quant_bit, and then in T2. */
int kvmill_format_of_attributes(const struct kvmill_attributes *given, bool value);

/* Rows of this dim in this format, in pages of so many rows.  A group that is too large is 0. */
struct kvmill_format kvmill_rows_of_attributes(const struct kvmill_attributes *given, bool value,
                                               int64_t dim, int64_t page);

/* Whether formats with this cache_format have codes of so many bits. */
bool kvmill_format_has_bits(const char *cache_format, int64_t quant_bit);

/* Whether it is float32, float16 or bfloat16; whether it is cached as numbers without scales. */
bool kvmill_is_activation(int element);
bool kvmill_is_plain(int element);

/* Whether such rows are possible: the element exists, and may have this dim, scale and group. */
bool kvmill_format_is_legal(const struct kvmill_format *format);

/* Whether the scale of a finite group may be too large for its type. */
bool kvmill_scale_may_overflow(const struct kvmill_convert_shape *shape);

/* What dims must be multiples of (groups, if scales are of groups); dims of rows in tiles. */
int kvmill_format_multiple(const struct kvmill_format_parts *parts);
int kvmill_format_dim_multiple(const struct kvmill_format_parts *parts);

/* ---- Sizes ---- */

int kvmill_format_codes_bytes(const struct kvmill_format_parts *parts); /* of a block */
int kvmill_format_block_bytes(const struct kvmill_format_parts *parts);
int kvmill_format_codes_at(const struct kvmill_format_parts *parts); /* bytes before the codes */
int kvmill_format_row_head(const struct kvmill_format_parts *parts); /* bytes before all blocks */
int kvmill_format_code_offset(const struct kvmill_format_parts *parts); /* the code of 0 */
int kvmill_format_most_code(const struct kvmill_format_parts *parts);   /* that the rule produces */

/* Codes in a word of 32 bits; 0 if elements are not codes, or no instructions multiply them. */
int kvmill_format_word_codes(const struct kvmill_format_parts *parts);

/* Bytes of a row, and of its scales if they are in a tensor; the number of scales; elements of the
   last dim of a cache. */
int64_t kvmill_format_row_bytes(const struct kvmill_format *format);
int64_t kvmill_format_scale_bytes(const struct kvmill_format *format);
int64_t kvmill_format_scale_count(const struct kvmill_format *format);
int64_t kvmill_format_last_dim(const struct kvmill_format *format);

/* Rows of a tile; 1 if rows are not interleaved. */
int64_t kvmill_format_tile(const struct kvmill_format *format);

/* What positions, pages and capacities must be multiples of; tiles of K and V differ in size. */
int64_t kvmill_format_row_multiple(const struct kvmill_format *format);

/* The format of a single element of a row, and the step from one element to the next, in such
   elements. */
int kvmill_format_alone(const struct kvmill_format *format);
int64_t kvmill_format_step(const struct kvmill_format *format);

/* Bytes from row 0 of a cache to a row; from the beginning of a row to its byte i.  In tiles, only
   the first row of a tile and byte 0 are where they would be without tiles. */
int64_t kvmill_format_row_at(const struct kvmill_format *format, int64_t row, int64_t row_stride);
int64_t kvmill_format_byte_at(const struct kvmill_format_parts *parts, int64_t i);

/* Elements that share a scale; 0: there are no scales. */
int64_t kvmill_format_group(const struct kvmill_format *format);

/* ---- Words ---- */

/* The words of formats with these scales, or of activations, each once; ends with NULL.  Without
   scales they are types. */
void kvmill_format_words(int scales, const char *words[KVMILL_MOST_FORMATS + 1]);
void kvmill_activation_words(const char *words[KVMILL_MOST_FORMATS + 1]);

/* The words of formats with blocks; these and the word for tiles; all these and the word for
   transposed keys.  Each ends with NULL. */
extern const char *const kvmill_block_words[], *const kvmill_stored_words[],
                                                   *const kvmill_key_words[];

enum { KVMILL_WORDS_SIZE = 256 };

/* "0, 4, 8": the bits that formats with this cache_format have. */
const char *kvmill_list_bits(const char *cache_format, char text[KVMILL_WORDS_SIZE]);

/* "a, b, c", each word between quotes. */
const char *kvmill_list_words(const char *const *words, const char *quote,
                              char text[KVMILL_WORDS_SIZE]);

#endif
