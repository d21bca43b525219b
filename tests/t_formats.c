/* Formats of cache rows: what follows from their parts, compared with known numbers; formats that
   do not exist yet; the pages that list them.  Floats of 4 to 16 bits: the meaning of every code,
   by a separate definition, and rounding to nearest, ties to even.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <float.h>

#include "../defs/codes.h"
#include "../defs/dtype.h"
#include "../ops/element.h"
#include "../runtime/core/numbers.h"
#include "common.h"

/* ---- Known formats ---- */

static int known; /* rows so far */

/* NAME WORD DTYPE ROW GROUP MULTIPLE, in the order of the formats: bytes of a row of 64 elements,
   elements that share a scale, and the multiple that a row must be. */
ROWS(known, 6) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(++known);
    bool scaled = parts != NULL && parts->scales == KVMILL_SCALES_OF_GROUPS;
    int group = atoi(cells[4]);
    const struct kvmill_format row = {known, 64, scaled ? KVMILL_F16 : 0, scaled ? group : 0};
    if (parts == NULL)
        bail_out("there is no format %s", cells[0]);
    ok(strcmp(parts->name, cells[0]) == 0 && strcmp(parts->word, cells[1]) == 0 &&
           strcmp(kvmill_dtype_name(parts->dtype), cells[2]) == 0 &&
           (kvmill_format_of_word(cells[1], KVMILL_ANY_SCALES) == known ||
            parts->tile == KVMILL_VALUE_TILE), /* keys in tiles have the same word */
       "%s: its words", cells[0]);
    const struct kvmill_attributes attributes = kvmill_format_attributes(parts);
    ok(kvmill_format_of_attributes(&attributes, parts->tile == KVMILL_VALUE_TILE) == known,
       "%s: its attributes mean it", cells[0]);
    ok(kvmill_format_row_bytes(&row) == atoi(cells[3]) &&
           kvmill_format_scale_bytes(&row) == (scaled ? 64 / group * 2 : 0) &&
           kvmill_format_group(&row) == group && kvmill_format_multiple(parts) == atoi(cells[5]),
       "%s: a row has %s bytes", cells[0], cells[3]);
}

static int element_of(const char *name) {
    for (int i = 0; kvmill_format_name(i) != NULL; i++)
        if (strcmp(kvmill_format_name(i), name) == 0)
            return i;
    return KVMILL_MOST_FORMATS;
}

/* ELEMENT DIM SCALE GROUP LEGAL: whether rows can have this format. */
ROWS(row, 5) {
    const struct kvmill_format format = {element_of(cells[0]), atoi(cells[1]), element_of(cells[2]),
                                         atoi(cells[3])};
    ok(kvmill_format_is_legal(&format) == (strcmp(cells[4], "legal") == 0),
       "%s elements of %s, scales of %s for %s: %s", cells[1], cells[0], cells[2], cells[3],
       cells[4]);
}

TABLE(formats);

TEST(all_known) {
    ok(kvmill_format_parts(0) == NULL && kvmill_format_parts(known + 1) == NULL &&
           kvmill_format_parts(-1) == NULL,
       "no format is forgotten here");
}

/* What attributes mean in part: the format that agrees most. */
TEST(attributes) {
    const struct kvmill_attributes float8 = {.T2 = {KVMILL_DL_FLOAT8_E5M2, 8, 1}},
                                   no_type = {.quant_bit = 4},
                                   no_bits = {.cache_format = "q4_0", .quant_bit = 8},
                                   tiles = {.quant_bit = 8,
                                            .quant_group = (int64_t)1 << 40,
                                            .T3 = {kDLFloat, 16, 1},
                                            .cache_format = "tiles"},
                                   keys = {.T2 = {kDLFloat, 16, 1}, .cache_format = "transposed"};
    const struct kvmill_format value = kvmill_rows_of_attributes(&tiles, true, 32, 16);
    const struct kvmill_format key = kvmill_rows_of_attributes(&keys, false, 32, 16);
    char text[KVMILL_WORDS_SIZE];
    ok(kvmill_format_of_attributes(&float8, false) == KVMILL_E5M2 &&
           kvmill_format_of_attributes(&no_type, false) == KVMILL_I4 &&
           kvmill_format_of_attributes(&no_bits, true) == KVMILL_Q4_0,
       "cache_format counts most, then quant_bit, then T2");
    ok(value.element == KVMILL_I8VT && value.dim == 32 && value.scale == KVMILL_F16 &&
           value.quant_group == 0,
       "tiles of values; a group that is too large is 0");
    ok(key.element == KVMILL_F16T && key.scale == 0 && key.quant_group == 16,
       "a group of transposed keys is a page");
    ok(strcmp(kvmill_list_bits(NULL, text), "0, 4, 8") == 0 &&
           strcmp(kvmill_list_bits("tiles", text), "4, 8") == 0 &&
           strcmp(kvmill_list_bits("q4_0", text), "0") == 0,
       "the bits of formats with the same cache_format");
}

TEST(words) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    char text[KVMILL_WORDS_SIZE], other[KVMILL_WORDS_SIZE];
    kvmill_activation_words(words);
    ok(strcmp(kvmill_list_words(words, "", text), "float32, float16, bfloat16") == 0,
       "activations: %s", text);
    kvmill_format_words(KVMILL_SCALES_OF_GROUPS | KVMILL_SCALES_INSIDE, words);
    ok(strncmp(kvmill_list_words(words, "'", text), "'int8', 'int4', 'q8_0', 'q4_0'", 30) == 0,
       "quantised: %s", text);
    kvmill_format_words(KVMILL_SCALES_INSIDE, words);
    ok(strcmp(kvmill_list_words(words, "", text),
              kvmill_list_words(kvmill_block_words, "", other)) == 0,
       "formats in blocks are listed for ops: %s", text);
    kvmill_row_types(words);
    ok(strcmp(kvmill_list_words(words, "", text),
              "float32, float16, bfloat16, int8, int4, uint8, float8e4m3fn, float8e5m2") == 0,
       "types of rows, each once: %s", text);
    ok(strcmp(kvmill_format_name(0), "none") == 0 && kvmill_format_name(known + 99) == NULL,
       "names begin with none, and end");
}

/* ---- Codes of any bits ---- */

static int numbers_of(const struct kvmill_format_parts *parts) {
    return parts->block > 0 ? parts->block : 64;
}

/* Sets codes that differ from their neighbours in every bit. */
static void set_codes(const struct kvmill_format_parts *parts, int *codes) {
    int least = parts->code == KVMILL_CODE_UNSIGNED ? 0 : -(1 << (parts->bits - 1));
    for (int i = 0; i < numbers_of(parts); i++)
        codes[i] = least + (i * 11 & ((1 << parts->bits) - 1));
}

static void test_codes(const struct kvmill_format_parts *parts) {
    int codes[64], back[64], wrong = 0;
    unsigned char data[64], all[64];
    memset(data, 0xff, sizeof data);
    set_codes(parts, codes);
    kvmill_pack_codes(parts, codes, 0, numbers_of(parts), data);
    memset(all, 0, sizeof all);
    for (int i = numbers_of(parts) - 1; i >= 0; i--)
        kvmill_pack_codes(parts, codes + i, i, 1, all);
    int bytes = numbers_of(parts) * parts->bits / 8;
    for (int i = bytes; i < 64; i++)
        wrong += data[i] != 0xff;
    kvmill_unpack_codes(parts, data, 0, numbers_of(parts), back);
    ok(wrong == 0 && memcmp(data, all, (size_t)bytes) == 0 &&
           memcmp(codes, back, (size_t)numbers_of(parts) * sizeof *codes) == 0,
       "%d bits, %s, %s, in %d bytes and back", parts->bits,
       parts->packing == KVMILL_PACKED_IN_TURN ? "in turn" : "in halves",
       parts->code == KVMILL_CODE_SIGNED   ? "signed"
       : parts->code == KVMILL_CODE_OFFSET ? "with an offset"
                                           : "unsigned",
       bytes);
}

TEST(all_codes) {
    struct kvmill_format_parts parts = {.bits = 0};
    for (parts.bits = 1; parts.bits <= 8; parts.bits++)
        for (int code = KVMILL_CODE_SIGNED; code <= KVMILL_CODE_UNSIGNED; code++) {
            parts.code = (enum kvmill_code)code;
            parts.block = 0;
            parts.packing = KVMILL_PACKED_IN_TURN;
            test_codes(&parts);
            parts.block = 32;
            parts.packing = KVMILL_PACKED_HALVES;
            if (parts.bits >= 4)
                test_codes(&parts);
        }
}

/* ---- Floats of 4 to 16 bits ---- */

/* The meaning of the codes with the largest exponent. */
enum ending {
    INFINITIES_AND_NANS,
    ONE_NAN, /* all bits set; everything else are numbers */
    NAN_FOR_MINUS_ZERO,
    JUST_NUMBERS
};

struct float_type {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    enum ending ending;
    bool saturates; /* larger numbers become the largest one */
    /* NULL: the functions of regions, by the name. */
    float (*read)(uint32_t bits);
    uint32_t (*round)(float value);
};

#define FLOAT8(name, ...)                                                                          \
    static float read_##name(uint32_t bits) {                                                      \
        return kvmill_number_of_bits((struct kvmill_float_parts){__VA_ARGS__}, bits);              \
    }                                                                                              \
    static uint32_t round_##name(float value) {                                                    \
        return kvmill_bits_of_number((struct kvmill_float_parts){__VA_ARGS__}, value);             \
    }
FLOAT8(e4m3, 4, 3, true, true)
FLOAT8(e5m2, 5, 2, false, true)

#define FLOAT16(name)                                                                              \
    static float read_##name(uint32_t bits) {                                                      \
        return kvmill_##name##_to_f32((uint16_t)bits);                                             \
    }                                                                                              \
    static uint32_t round_##name(float value) {                                                    \
        return kvmill_f32_to_##name(value);                                                        \
    }
FLOAT16(f16)
FLOAT16(bf16)

static const struct float_type float_types[] = {
    {"e4m3", 4, 3, 7, ONE_NAN, true, read_e4m3, round_e4m3},
    {"e5m2", 5, 2, 15, INFINITIES_AND_NANS, true, read_e5m2, round_e5m2},
    {"float16", 5, 10, 15, INFINITIES_AND_NANS, false, read_f16, round_f16},
    {"bfloat16", 8, 7, 127, INFINITIES_AND_NANS, false, read_bf16, round_bf16},
    {"f16", 5, 10, 15, INFINITIES_AND_NANS, false, NULL, NULL},
    {"bf16", 8, 7, 127, INFINITIES_AND_NANS, false, NULL, NULL},
    {"f8E3M4", 3, 4, 3, INFINITIES_AND_NANS, false, NULL, NULL},
    {"f8E4M3", 4, 3, 7, INFINITIES_AND_NANS, false, NULL, NULL},
    {"f8E5M2", 5, 2, 15, INFINITIES_AND_NANS, false, NULL, NULL},
    {"f8E4M3FN", 4, 3, 7, ONE_NAN, false, NULL, NULL},
    {"f8E4M3FNUZ", 4, 3, 8, NAN_FOR_MINUS_ZERO, false, NULL, NULL},
    {"f8E4M3B11FNUZ", 4, 3, 11, NAN_FOR_MINUS_ZERO, false, NULL, NULL},
    {"f8E5M2FNUZ", 5, 2, 16, NAN_FOR_MINUS_ZERO, false, NULL, NULL},
    {"f6E2M3FN", 2, 3, 1, JUST_NUMBERS, false, NULL, NULL},
    {"f6E3M2FN", 3, 2, 3, JUST_NUMBERS, false, NULL, NULL},
    {"f4E2M1FN", 2, 1, 1, JUST_NUMBERS, false, NULL, NULL},
};

static DLDataType type_of(const struct float_type *f) {
    DLDataType type;
    if (!kvmill_element_by_word(f->name, strlen(f->name), &type))
        bail_out("%s is not known", f->name);
    return type;
}

static double read_code(const struct float_type *f, uint32_t code) {
    return f->read != NULL ? f->read(code) : kvmill_float_of(type_of(f), code);
}

static uint32_t round_number(const struct float_type *f, double x) {
    return f->round != NULL ? f->round((float)x) : (uint32_t)kvmill_bits_of(type_of(f), x);
}

static uint32_t sign_of(const struct float_type *f) {
    return 1u << (f->exponent_bits + f->mantissa_bits);
}

/* Returns the number of a code by definition, or NaN if the code is not a number. */
static double number_of(const struct float_type *f, uint32_t code) {
    uint32_t sign = sign_of(f), magnitude = code & (sign - 1);
    int exponent = (int)(magnitude >> f->mantissa_bits), last = (1 << f->exponent_bits) - 1;
    uint32_t fraction = magnitude & ((1u << f->mantissa_bits) - 1);
    if ((f->ending == INFINITIES_AND_NANS && exponent == last && fraction != 0) ||
        (f->ending == ONE_NAN && magnitude == sign - 1) ||
        (f->ending == NAN_FOR_MINUS_ZERO && code == sign))
        return NAN;
    double whole = exponent == 0 ? fraction : fraction + (1u << f->mantissa_bits);
    double value = f->ending == INFINITIES_AND_NANS && exponent == last
                       ? INFINITY
                       : ldexp(whole, (exponent == 0 ? 1 : exponent) - f->bias - f->mantissa_bits);
    return code & sign ? -value : value;
}

/* Whether a code is read as its number and written back; NaN stays NaN, a quiet one in float. */
static bool is_read(const struct float_type *f, uint32_t code) {
    double number = number_of(f, code), have = read_code(f, code);
    if (isnan(number))
        return isnan(have) && (kvmill_bits_of_float((float)have) & 0x400000) != 0 &&
               isnan(number_of(f, round_number(f, have)));
    bool back = round_number(f, number) == code || (f->saturates && isinf(number));
    return have == number && signbit(have) == signbit(number) && back;
}

/* Whether both signs of a value become this magnitude, except a zero that the type does not
   have. */
static bool becomes(const struct float_type *f, double value, uint32_t magnitude) {
    bool has_sign = f->ending != NAN_FOR_MINUS_ZERO || magnitude != 0;
    return round_number(f, value) == magnitude &&
           (!has_sign || round_number(f, -value) == (magnitude | sign_of(f)));
}

/* Whether a number halfway between neighbours is rounded to even, and the floats next to it to the
   nearer neighbour. */
static bool is_nearest(const struct float_type *f, uint32_t magnitude) {
    float half = (float)((number_of(f, magnitude) + number_of(f, magnitude + 1)) / 2);
    return becomes(f, half, magnitude + magnitude % 2) &&
           becomes(f, nextafterf(half, 0), magnitude) &&
           becomes(f, nextafterf(half, INFINITY), magnitude + 1);
}

/* Whether numbers that are too large are rounded correctly. */
static bool ends_well(const struct float_type *f, uint32_t last) {
    double largest = number_of(f, last), large = f->exponent_bits == 8 ? 1e60 : 1e30;
    double above = largest + (largest - number_of(f, last - 1)) / 2;
    double became = number_of(f, round_number(f, large));
    if (f->saturates || f->ending == JUST_NUMBERS)
        return became == largest &&
               (!f->saturates || (becomes(f, INFINITY, last) && becomes(f, above, last)));
    return f->ending == INFINITIES_AND_NANS
               ? isinf(became) && becomes(f, INFINITY, last + 1) && becomes(f, FLT_MAX, last + 1) &&
                     becomes(f, nextafterf((float)above, 0), last)
               : isnan(became);
}

static void test_float(const struct float_type *f) {
    int misread = 0, misrounded = 0;
    uint32_t last = sign_of(f) - 1;
    while (!isfinite(number_of(f, last)))
        last--;
    for (uint32_t code = 0; code < 2 * sign_of(f); code++)
        misread += !is_read(f, code);
    for (uint32_t code = 0; code < last; code++)
        misrounded += !is_nearest(f, code);
    ok(misread == 0, "%s: all bits are the right numbers (%d wrong)", f->name, misread);
    ok(misrounded == 0, "%s: numbers to the nearest, half to even (%d wrong)", f->name, misrounded);
    ok(ends_well(f, last), "%s: what comes after %g", f->name, number_of(f, last));
    uint32_t nan = round_number(f, kvmill_float_of_bits(0x7fc00000));
    uint32_t negative = round_number(f, kvmill_float_of_bits(0xffc00000));
    ok(f->ending == JUST_NUMBERS
           ? number_of(f, nan) == 0
           : isnan(number_of(f, nan)) && (f->read == NULL || (negative & sign_of(f)) != 0),
       "%s: NaN stays NaN, with its sign, where there is one", f->name);
}

TEST(floats) {
    for (size_t i = 0; i < COUNT(float_types); i++)
        test_float(&float_types[i]);
}

/* ---- Conversions without branches ---- */

static bool is_same_float(float a, float b) {
    return kvmill_bits_of_float(a) == kvmill_bits_of_float(b);
}

TEST(finite_halves) {
    int wrong = 0;
    for (uint32_t i = 0; i < 1 << 16; i++) {
        uint16_t half = (uint16_t)i;
        wrong += isfinite(kvmill_f16_to_f32(half)) &&
                 !is_same_float(kvmill_finite_f16_to_f32(half), kvmill_f16_to_f32(half));
        wrong += isfinite(kvmill_bf16_to_f32(half)) &&
                 !is_same_float(kvmill_finite_bf16_to_f32(half), kvmill_bf16_to_f32(half));
    }
    ok(wrong == 0, "halves that are finite (%d wrong)", wrong);
}

static bool becomes_same(struct kvmill_float_parts parts, float x) {
    return kvmill_bits_of_finite(parts, x) == kvmill_bits_of_number(parts, x) &&
           kvmill_bits_of_finite(parts, -x) == kvmill_bits_of_number(parts, -x);
}

/* Returns how many numbers, and floats around the halves between them, are rounded wrongly. */
static int misrounded(struct kvmill_float_parts parts) {
    int wrong = 0;
    uint32_t last = kvmill_first_not_finite(parts) - 1;
    for (uint32_t code = 0; code <= last; code++) {
        float x = kvmill_number_of_bits(parts, code), next = kvmill_number_of_bits(parts, code + 1);
        float half = code < last ? (x + next) / 2 : x;
        wrong += !becomes_same(parts, x) || !becomes_same(parts, half) ||
                 !becomes_same(parts, nextafterf(half, 0)) ||
                 (code < last && !becomes_same(parts, nextafterf(half, INFINITY)));
    }
    return wrong;
}

TEST(finite_bytes) {
    const struct kvmill_format_parts *parts;
    for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++)
        if (parts->code == KVMILL_CODE_FLOAT && parts->bits == 8)
            ok(misrounded(parts->real) == 0, "%s: numbers that are finite", parts->name);
}

TEST(powers) {
    static const struct float_type f = {"f8E8M0FNU", 8, 0, 127, ONE_NAN, false, NULL, NULL};
    int wrong = 0;
    for (uint32_t code = 0; code < 255; code++)
        wrong += read_code(&f, code) != ldexp(1, (int)code - 127) ||
                 round_number(&f, ldexp(1, (int)code - 127)) != code;
    ok(wrong == 0 && isnan(read_code(&f, 255)) && round_number(&f, NAN) == 255,
       "f8E8M0FNU: powers of two, and NaN");
}

/* Converts with integers only, to nearest even: valgrind's conversion rounds twice. */
static float float_of(int64_t value) {
    int shift = 0;
    while (value >> shift >= 1 << 24)
        shift++;
    if (shift == 0)
        return (float)value;
    int64_t kept = value >> shift, rest = value - (kept << shift), half = (int64_t)1 << (shift - 1);
    kept += rest > half || (rest == half && kept % 2 != 0);
    return ldexpf((float)kept, shift);
}

/* 64-bit integers are rounded to float only once: halves of float32, and integers next to them. */
TEST(integers) {
    const kvmill_element_type from = {.dtype = i64}, to = {.dtype = f32};
    struct dice dice = dice_for("integers");
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t value = (int64_t)((dice_bits(&dice) | (uint64_t)1 << 62) & ~((uint64_t)1 << 63));
        if (i % 2)
            value = ((value >> 38 | 1) << 38) + dice_range(&dice, -1, 1);
        struct kvmill_scalar scalar = {{(uint64_t)value, 0}};
        scalar = kvmill_scalar_convert(&from, &to, scalar);
        wrong += kvmill_float_of_bits((uint32_t)scalar.word[0]) != float_of(value);
    }
    ok(wrong == 0, "integers of 64 bits as float32");
}

/* ---- Pages ---- */

/* Whether the text has the whole word; in man pages, the letters of a quote may precede it. */
static bool is_in(const char *text, const char *word) {
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        char after = at[strlen(word)];
        bool begins = at == text || !isalnum((unsigned char)at[-1]) ||
                      (at - text >= 4 && strncmp(at - 4, "\\(dq", 4) == 0);
        if (begins && !isalnum((unsigned char)after) && after != '_')
            return true;
    }
    return false;
}

TEST(pages) {
    static const char *const pages[] = {"README.md", "doc/kvmill.1", "doc/kvmill-specs.5"};
    const struct kvmill_format_parts *parts;
    for (int p = 0; p < 3; p++) {
        FREED char *page = read_bytes(source_path("%s", pages[p]), NULL);
        for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++) {
            const char *word = parts->transposed ? KVMILL_TRANSPOSED_WORD : parts->word;
            ok(is_in(page, word), "%s lists %s", pages[p], word);
        }
    }
}
