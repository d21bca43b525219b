/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include <stdio.h>
#include <string.h>

/* llama.cpp's table: numbers are closer to each other around 0. */
static const int8_t iq4_nl[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

/* Elements one after the other, of a type that has no other row. */
#define ELEMENTS(name_, alias_, numpy_, onnx_, code_, bits_)                                       \
    .word = name_, .bits = bits_, .dtype = {code_, bits_, 1},                                      \
    .type = {name_, alias_, #code_, numpy_, onnx_, {code_, bits_, 1}}

/* Rows that are bytes, some of which are scales. */
#define BYTES(name_, template_, code_, bits_, scales_)                                             \
    .name = name_, .word = name_, .template = template_, .dtype = {kDLUInt, 8, 1},                 \
    .code = KVMILL_CODE_##code_, .bits = bits_, .scales = KVMILL_SCALES_##scales_, .block = 32
#define BLOCKS(name, template, code, bits)                                                         \
    BYTES(name, template, code, bits, IN_BLOCKS), .packing = KVMILL_PACKED_HALVES

/* Codes with scales of groups; in tiles, of keys or of values. */
#define CODES                                                                                      \
    .code = KVMILL_CODE_SIGNED, .scales = KVMILL_SCALES_OF_GROUPS, .rule = KVMILL_RULE_GROUPS
#define IN_TILES(word_, bits_, side_)                                                              \
    .word = word_, .dtype = {kDLInt, bits_, 1}, .bits = bits_, CODES,                              \
    .tile = KVMILL_##side_##_TILE, .piece = KVMILL_##side_##_PIECE

/* Keys in transposed pages. */
#define TRANSPOSED(name_, code_, bits_, exponent_, mantissa_)                                      \
    .word = name_ "_transposed", .bits = bits_, .dtype = {code_, bits_, 1}, .transposed = true,    \
    .piece = (bits_) / 8, .scales = KVMILL_WITHOUT_SCALES,                                         \
    .real = {.exponent = exponent_, .mantissa = mantissa_}

/* By enum kvmill_element. */
static const struct kvmill_format_parts formats[] = {
    [KVMILL_F32] = {.name = "f32",
                    ELEMENTS("float32", "float", "<f4", 1, kDLFloat, 32),
                    .activation = true,
                    .real = {.exponent = 8, .mantissa = 23},
                    .scales = KVMILL_WITHOUT_SCALES},
    [KVMILL_F16] = {.name = "f16",
                    ELEMENTS("float16", NULL, "<f2", 10, kDLFloat, 16),
                    .activation = true,
                    .real = {.exponent = 5, .mantissa = 10},
                    .scales = KVMILL_WITHOUT_SCALES},
    [KVMILL_BF16] = {.name = "bf16",
                     ELEMENTS("bfloat16", NULL, NULL, 16, kDLBfloat, 16),
                     .activation = true,
                     .real = {.exponent = 8, .mantissa = 7},
                     .scales = KVMILL_WITHOUT_SCALES},
    [KVMILL_I8] = {.name = "i8", ELEMENTS("int8", NULL, "|i1", 3, kDLInt, 8), CODES},
    [KVMILL_I4] = {.name = "i4", ELEMENTS("int4", NULL, NULL, 22, kDLInt, 4), CODES},
    [KVMILL_Q8_0] = {BYTES("q8_0", "q8_0", SIGNED, 8, IN_BLOCKS), .rule = KVMILL_RULE_OUTWARDS},
    [KVMILL_Q4_0] = {BLOCKS("q4_0", "halves", OFFSET, 4), .rule = KVMILL_RULE_EXTREME},
    [KVMILL_E4M3] = {.name = "e4m3",
                     ELEMENTS("float8e4m3fn", NULL, NULL, 17, KVMILL_DL_FLOAT8_E4M3FN, 8),
                     .template = "float8",
                     .real = {.exponent = 4, .mantissa = 3, .finite = true, .saturates = true},
                     .scales = KVMILL_WITHOUT_SCALES},
    [KVMILL_E5M2] = {.name = "e5m2",
                     ELEMENTS("float8e5m2", NULL, NULL, 19, KVMILL_DL_FLOAT8_E5M2, 8),
                     .template = "float8",
                     .real = {.exponent = 5, .mantissa = 2, .saturates = true},
                     .scales = KVMILL_WITHOUT_SCALES},
    [KVMILL_Q5_1] = {BLOCKS("q5_1", "halves", UNSIGNED, 5), .minimum = true,
                     .rule = KVMILL_RULE_RANGE},
    [KVMILL_Q4_1] = {BLOCKS("q4_1", "halves", UNSIGNED, 4), .minimum = true,
                     .rule = KVMILL_RULE_RANGE},
    [KVMILL_Q5_0] = {BLOCKS("q5_0", "halves", OFFSET, 5), .rule = KVMILL_RULE_EXTREME},
    [KVMILL_IQ4_NL] = {BLOCKS("iq4_nl", "iq4_nl", TABLE, 4), .table = iq4_nl,
                       .rule = KVMILL_RULE_SQUARES},
    [KVMILL_Q6_0] = {BLOCKS("q6_0", "halves", OFFSET, 6), .rule = KVMILL_RULE_EXTREME},
    [KVMILL_Q8_KV] = {BYTES("q8_kv", "q8_0", SIGNED, 8, IN_ROWS), .rule = KVMILL_RULE_EVEN},
    [KVMILL_I8KT] = {.name = "i8kt", IN_TILES("int8_tiles", 8, KEY)},
    [KVMILL_I4KT] = {.name = "i4kt", IN_TILES("int4_tiles", 4, KEY)},
    [KVMILL_I8VT] = {.name = "i8vt", IN_TILES("int8_tiles", 8, VALUE)},
    [KVMILL_I4VT] = {.name = "i4vt", IN_TILES("int4_tiles", 4, VALUE)},
    [KVMILL_F32T] = {.name = "f32t", TRANSPOSED("float32", kDLFloat, 32, 8, 23)},
    [KVMILL_F16T] = {.name = "f16t", TRANSPOSED("float16", kDLFloat, 16, 5, 10)},
    [KVMILL_BF16T] = {.name = "bf16t", TRANSPOSED("bfloat16", kDLBfloat, 16, 8, 7)},
};
enum { END = sizeof formats / sizeof *formats };
_Static_assert((int)END <= (int)KVMILL_MOST_FORMATS, "a larger KVMILL_MOST_FORMATS");

/* The table's contents as constants for tables of ops; tests/t_formats.c compares them. */
#define BLOCK_WORDS "q8_0", "q4_0", "q5_1", "q4_1", "q5_0", "iq4_nl", "q6_0", "q8_kv"
const char *const kvmill_block_words[] = {BLOCK_WORDS, NULL};
const char *const kvmill_stored_words[] = {BLOCK_WORDS, KVMILL_TILES_WORD, NULL};
const char *const kvmill_key_words[] = {BLOCK_WORDS, KVMILL_TILES_WORD, KVMILL_TRANSPOSED_WORD,
                                        NULL};

const struct kvmill_format_parts *kvmill_format_parts(int element) {
    return element > 0 && element < END ? &formats[element] : NULL;
}

const char *kvmill_format_name(int64_t element) {
    return element == 0 ? "none" : element < END ? formats[element].name : NULL;
}

/* ---- Looking up ---- */

int kvmill_format_of_word(const char *word, int scales) {
    for (int i = 1; i < END; i++)
        if ((formats[i].scales & scales) != 0 && strcmp(formats[i].word, word) == 0)
            return i;
    return 0;
}

bool kvmill_names_transposed(const char *cache_format) {
    return cache_format != NULL && strcmp(cache_format, KVMILL_TRANSPOSED_WORD) == 0;
}

int kvmill_element_of(DLDataType type) {
    for (int i = 1; i < END; i++)
        if (formats[i].block == 0 && kvmill_dtype_equal(formats[i].dtype, type))
            return i;
    return 0;
}

/* ---- Attributes ---- */

struct kvmill_attributes kvmill_format_attributes(const struct kvmill_format_parts *parts) {
    return (struct kvmill_attributes){
        .quant_bit = parts->scales == KVMILL_SCALES_OF_GROUPS ? parts->bits : 0,
        .T2 = parts->dtype,
        .cache_format = parts->tile > 0                               ? KVMILL_TILES_WORD
                        : parts->transposed                           ? KVMILL_TRANSPOSED_WORD
                        : (parts->scales & KVMILL_SCALES_INSIDE) != 0 ? parts->word
                                                                      : NULL,
    };
}

static bool is_same_word(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* In how many attributes a format agrees, up to the first in which it does not. */
static int agreement(const struct kvmill_attributes *given, const struct kvmill_attributes *has) {
    return !is_same_word(given->cache_format, has->cache_format) ? 0
           : given->quant_bit != has->quant_bit                  ? 1
           : !kvmill_dtype_equal(given->T2, has->T2)             ? 2
                                                                 : 3;
}

int kvmill_format_of_attributes(const struct kvmill_attributes *given, bool value) {
    int best = -1, found = 0;
    for (int i = 1; i < END; i++) {
        const struct kvmill_attributes has = kvmill_format_attributes(&formats[i]);
        bool is_other = formats[i].tile == (value ? KVMILL_KEY_TILE : KVMILL_VALUE_TILE);
        int agrees = is_other ? -1 : agreement(given, &has);
        if (agrees > best) {
            best = agrees;
            found = i;
        }
    }
    return found;
}

struct kvmill_format kvmill_rows_of_attributes(const struct kvmill_attributes *given, bool value,
                                               int64_t dim, int64_t page) {
    int element = kvmill_format_of_attributes(given, value);
    bool scaled = formats[element].scales == KVMILL_SCALES_OF_GROUPS;
    int64_t group = formats[element].transposed ? page : scaled ? given->quant_group : 0;
    return (struct kvmill_format){
        .element = element,
        .dim = (int32_t)dim,
        .scale = scaled ? kvmill_element_of(given->T3) : 0,
        .quant_group = group >= 0 && group <= INT32_MAX ? (int32_t)group : 0,
    };
}

bool kvmill_format_has_bits(const char *cache_format, int64_t quant_bit) {
    const struct kvmill_attributes given = {.quant_bit = quant_bit, .cache_format = cache_format};
    int element = kvmill_format_of_attributes(&given, false);
    return kvmill_format_attributes(&formats[element]).quant_bit == quant_bit;
}

/* ---- What is possible ---- */

bool kvmill_is_activation(int element) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(element);
    return parts != NULL && parts->activation;
}

bool kvmill_is_plain(int element) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(element);
    return parts != NULL && parts->scales == KVMILL_WITHOUT_SCALES;
}

/* The least number of codes that fills whole bytes. */
static int whole_bytes(int bits) {
    int codes = 1;
    while (codes * bits % 8 != 0)
        codes *= 2;
    return codes;
}

int kvmill_format_multiple(const struct kvmill_format_parts *parts) {
    return parts->block > 0  ? parts->block
           : parts->tile > 0 ? 32 / parts->bits
                             : whole_bytes(parts->bits);
}

/* Pieces of 16 bytes of a row in tiles. */
int kvmill_format_dim_multiple(const struct kvmill_format_parts *parts) {
    return parts->tile > 0 ? 128 / parts->bits : kvmill_format_multiple(parts);
}

bool kvmill_format_is_legal(const struct kvmill_format *format) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    if (parts == NULL || format->dim < 1)
        return false;
    int multiple = kvmill_format_multiple(parts);
    if (parts->transposed)
        return format->scale == 0 && format->quant_group >= 1;
    if (parts->scales != KVMILL_SCALES_OF_GROUPS)
        return format->scale == 0 && format->quant_group == 0 && format->dim % multiple == 0;
    return kvmill_is_activation(format->scale) && format->quant_group >= 1 &&
           format->quant_group % multiple == 0 && format->dim % format->quant_group == 0 &&
           (parts->tile == 0 || format->dim % kvmill_format_dim_multiple(parts) == 0);
}

/* Scales are computed in the type of the activations. */
bool kvmill_scale_may_overflow(const struct kvmill_convert_shape *shape) {
    const struct kvmill_format_parts *scale = kvmill_format_parts(shape->format.scale);
    return scale != NULL &&
           scale->real.exponent < kvmill_format_parts(shape->activation)->real.exponent;
}

/* ---- Sizes ---- */

enum { HALF_BYTES = 2, ROW_HEAD_BYTES = 8 };

int kvmill_format_codes_bytes(const struct kvmill_format_parts *parts) {
    return parts->block * parts->bits / 8;
}

int kvmill_format_row_head(const struct kvmill_format_parts *parts) {
    return parts->scales == KVMILL_SCALES_IN_ROWS ? ROW_HEAD_BYTES : 0;
}

static int block_head(const struct kvmill_format_parts *parts) {
    return parts->scales == KVMILL_SCALES_IN_BLOCKS ? HALF_BYTES * (1 + parts->minimum) : 0;
}

int kvmill_format_codes_at(const struct kvmill_format_parts *parts) {
    return kvmill_format_row_head(parts) + block_head(parts);
}

int kvmill_format_block_bytes(const struct kvmill_format_parts *parts) {
    return block_head(parts) + kvmill_format_codes_bytes(parts);
}

int kvmill_format_code_offset(const struct kvmill_format_parts *parts) {
    return parts->code == KVMILL_CODE_OFFSET ? 1 << (parts->bits - 1) : 0;
}

int kvmill_format_most_code(const struct kvmill_format_parts *parts) {
    return parts->code == KVMILL_CODE_TABLE    ? parts->table[(1 << parts->bits) - 1]
           : parts->code == KVMILL_CODE_SIGNED ? (1 << (parts->bits - 1)) - 1
                                               : (1 << parts->bits) - 1;
}

int kvmill_format_word_codes(const struct kvmill_format_parts *parts) {
    bool codes = parts->code != KVMILL_CODE_FLOAT && parts->code != KVMILL_CODE_TABLE;
    return codes && !parts->minimum && 8 % parts->bits == 0 ? 32 / parts->bits : 0;
}

static int64_t bytes_of(const struct kvmill_format_parts *parts, int64_t count) {
    return parts->block > 0 ? kvmill_format_row_head(parts) +
                                  count / parts->block * kvmill_format_block_bytes(parts)
                            : count * parts->bits / 8;
}

int64_t kvmill_format_row_bytes(const struct kvmill_format *format) {
    return bytes_of(&formats[format->element], format->dim);
}

int64_t kvmill_format_scale_count(const struct kvmill_format *format) {
    return format->scale != 0 ? format->dim / format->quant_group : 0;
}

int64_t kvmill_format_scale_bytes(const struct kvmill_format *format) {
    return bytes_of(&formats[format->scale], kvmill_format_scale_count(format));
}

int64_t kvmill_format_last_dim(const struct kvmill_format *format) {
    return formats[format->element].block > 0 ? kvmill_format_row_bytes(format) : format->dim;
}

int64_t kvmill_format_tile(const struct kvmill_format *format) {
    const struct kvmill_format_parts *parts = &formats[format->element];
    return parts->transposed ? format->quant_group : parts->tile > 0 ? parts->tile : 1;
}

int64_t kvmill_format_row_multiple(const struct kvmill_format *format) {
    return formats[format->element].tile > 0 ? KVMILL_KEY_TILE : kvmill_format_tile(format);
}

int kvmill_format_alone(const struct kvmill_format *format) {
    const struct kvmill_format_parts *parts = &formats[format->element];
    return parts->transposed ? kvmill_element_of(parts->dtype) : format->element;
}

int64_t kvmill_format_step(const struct kvmill_format *format) {
    return formats[format->element].transposed ? kvmill_format_tile(format) : 1;
}

int64_t kvmill_format_row_at(const struct kvmill_format *format, int64_t row, int64_t row_stride) {
    int64_t in_tile = row % kvmill_format_tile(format);
    return (row - in_tile) * row_stride + in_tile * formats[format->element].piece;
}

int64_t kvmill_format_byte_at(const struct kvmill_format_parts *parts, int64_t i) {
    return parts->tile > 0 ? i / parts->piece * parts->piece * parts->tile + i % parts->piece : i;
}

int64_t kvmill_format_group(const struct kvmill_format *format) {
    const struct kvmill_format_parts *parts = &formats[format->element];
    return parts->scales == KVMILL_SCALES_IN_ROWS ? format->dim
           : parts->block > 0                     ? parts->block
           : parts->transposed                    ? 0
                                                  : format->quant_group;
}

/* ---- Words ---- */

void kvmill_format_words(int scales, const char *words[KVMILL_MOST_FORMATS + 1]) {
    int count = 0;
    for (int i = 1; i < END; i++)
        if ((formats[i].scales & scales) != 0 && !formats[i].transposed &&
            kvmill_format_of_word(formats[i].word, scales) == i)
            words[count++] = formats[i].word;
    words[count] = NULL;
}

void kvmill_activation_words(const char *words[KVMILL_MOST_FORMATS + 1]) {
    int count = 0;
    for (int i = 1; i < END; i++)
        if (formats[i].activation)
            words[count++] = formats[i].word;
    words[count] = NULL;
}

const char *kvmill_list_bits(const char *cache_format, char text[KVMILL_WORDS_SIZE]) {
    size_t at = 0;
    for (int bits = 0; bits <= 8; bits++)
        if (kvmill_format_has_bits(cache_format, bits))
            at += (size_t)snprintf(text + at, KVMILL_WORDS_SIZE - at, "%s%d", at ? ", " : "", bits);
    return text;
}

const char *kvmill_list_words(const char *const *words, const char *quote,
                              char text[KVMILL_WORDS_SIZE]) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; words[i] != NULL && at < KVMILL_WORDS_SIZE; i++)
        at += (size_t)snprintf(text + at, KVMILL_WORDS_SIZE - at, "%s%s%s%s", i ? ", " : "", quote,
                               words[i], quote);
    return text;
}
