/* SPDX-License-Identifier: Apache-2.0 */
#include "element.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"

/* ---- Types ---- */

/* The special values of a type of floats: infinities and NaNs; only NaNs; one NaN at -0; or none.
 */
enum ending { IEEE, NANS, NAN_AT_MINUS_ZERO, NUMBERS, UNSIGNED_POWERS };

struct float_format {
    int exponent_bits, mantissa_bits, bias;
    enum ending ending;
};

struct element_type {
    const char *word;
    DLDataType dl;
    enum kvmill_kind kind;
    struct float_format format; /* of floats, and of the halves of complex numbers */
};

#define F32                                                                                        \
    { 8, 23, 127, IEEE }
#define F64                                                                                        \
    { 11, 52, 1023, IEEE }

static const struct element_type types[] = {
    {"f32", {kDLFloat, 32, 1}, KVMILL_FLOAT, F32},
    {"bf16", {kDLBfloat, 16, 1}, KVMILL_FLOAT, {8, 7, 127, IEEE}},
    {"f16", {kDLFloat, 16, 1}, KVMILL_FLOAT, {5, 10, 15, IEEE}},
    {"f64", {kDLFloat, 64, 1}, KVMILL_FLOAT, F64},
    {"i1", {KVMILL_DL_BOOL, 8, 1}, KVMILL_BOOL, {0}},
    {"i2", {kDLInt, 2, 1}, KVMILL_INT, {0}},
    {"i4", {kDLInt, 4, 1}, KVMILL_INT, {0}},
    {"i8", {kDLInt, 8, 1}, KVMILL_INT, {0}},
    {"i16", {kDLInt, 16, 1}, KVMILL_INT, {0}},
    {"i32", {kDLInt, 32, 1}, KVMILL_INT, {0}},
    {"i64", {kDLInt, 64, 1}, KVMILL_INT, {0}},
    {"ui2", {kDLUInt, 2, 1}, KVMILL_UINT, {0}},
    {"ui4", {kDLUInt, 4, 1}, KVMILL_UINT, {0}},
    {"ui8", {kDLUInt, 8, 1}, KVMILL_UINT, {0}},
    {"ui16", {kDLUInt, 16, 1}, KVMILL_UINT, {0}},
    {"ui32", {kDLUInt, 32, 1}, KVMILL_UINT, {0}},
    {"ui64", {kDLUInt, 64, 1}, KVMILL_UINT, {0}},
    {"complex<f32>", {kDLComplex, 64, 1}, KVMILL_COMPLEX, F32},
    {"complex<f64>", {kDLComplex, 128, 1}, KVMILL_COMPLEX, F64},
    {"f8E3M4", {KVMILL_DL_FLOAT8_E3M4, 8, 1}, KVMILL_FLOAT, {3, 4, 3, IEEE}},
    {"f8E4M3", {KVMILL_DL_FLOAT8_E4M3, 8, 1}, KVMILL_FLOAT, {4, 3, 7, IEEE}},
    {"f8E4M3FN", {KVMILL_DL_FLOAT8_E4M3FN, 8, 1}, KVMILL_FLOAT, {4, 3, 7, NANS}},
    {"f8E4M3FNUZ", {KVMILL_DL_FLOAT8_E4M3FNUZ, 8, 1}, KVMILL_FLOAT, {4, 3, 8, NAN_AT_MINUS_ZERO}},
    {"f8E4M3B11FNUZ",
     {KVMILL_DL_FLOAT8_E4M3B11FNUZ, 8, 1},
     KVMILL_FLOAT,
     {4, 3, 11, NAN_AT_MINUS_ZERO}},
    {"f8E5M2", {KVMILL_DL_FLOAT8_E5M2, 8, 1}, KVMILL_FLOAT, {5, 2, 15, IEEE}},
    {"f8E5M2FNUZ", {KVMILL_DL_FLOAT8_E5M2FNUZ, 8, 1}, KVMILL_FLOAT, {5, 2, 16, NAN_AT_MINUS_ZERO}},
    {"f8E8M0FNU", {KVMILL_DL_FLOAT8_E8M0FNU, 8, 1}, KVMILL_FLOAT, {8, 0, 127, UNSIGNED_POWERS}},
    {"f6E2M3FN", {KVMILL_DL_FLOAT6_E2M3FN, 6, 1}, KVMILL_FLOAT, {2, 3, 1, NUMBERS}},
    {"f6E3M2FN", {KVMILL_DL_FLOAT6_E3M2FN, 6, 1}, KVMILL_FLOAT, {3, 2, 3, NUMBERS}},
    {"f4E2M1FN", {KVMILL_DL_FLOAT4_E2M1FN, 4, 1}, KVMILL_FLOAT, {2, 1, 1, NUMBERS}},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

static const struct element_type *find(DLDataType type) {
    for (int i = 0; i < TYPE_COUNT; i++)
        if (kvmill_dtype_equal(types[i].dl, type))
            return &types[i];
    return NULL;
}

enum kvmill_kind kvmill_kind_of(DLDataType type) {
    const struct element_type *found = find(type);
    return found ? found->kind : KVMILL_NO_KIND;
}

const char *kvmill_element_word(DLDataType type) {
    const struct element_type *found = find(type);
    return found ? found->word : "an unknown type";
}

bool kvmill_element_by_word(const char *word, size_t length, DLDataType *type) {
    if (length > 2 && word[0] == 's' && word[1] == 'i') {
        word++;
        length--;
    }
    for (int i = 0; i < TYPE_COUNT; i++)
        if (strlen(types[i].word) == length && memcmp(types[i].word, word, length) == 0) {
            *type = types[i].dl;
            return true;
        }
    return false;
}

bool kvmill_element_equal(const kvmill_element_type *a, const kvmill_element_type *b) {
    bool same =
        kvmill_dtype_equal(a->dtype, b->dtype) && kvmill_is_quantized(a) == kvmill_is_quantized(b);
    if (!same || !kvmill_is_quantized(a))
        return same;
    return kvmill_dtype_equal(a->expressed, b->expressed) && a->scale == b->scale &&
           a->zero_point == b->zero_point && a->storage_min == b->storage_min &&
           a->storage_max == b->storage_max;
}

static bool is_integer(enum kvmill_kind kind) {
    return kind == KVMILL_INT || kind == KVMILL_UINT;
}

bool kvmill_element_promotable(const kvmill_element_type *from, const kvmill_element_type *to) {
    enum kvmill_kind a = kvmill_kind_of(from->dtype), b = kvmill_kind_of(to->dtype);
    if (kvmill_is_quantized(from) != kvmill_is_quantized(to) ||
        (kvmill_is_quantized(from) && !kvmill_dtype_equal(from->expressed, to->expressed)))
        return false;
    return (a == b || (is_integer(a) && is_integer(b))) && from->dtype.bits <= to->dtype.bits;
}

const char *kvmill_element_words(const kvmill_element_type *element,
                                 struct kvmill_element_text *words) {
    const char *storage = kvmill_element_word(element->dtype);
    if (!kvmill_is_quantized(element))
        return storage;
    snprintf(words->text, sizeof words->text,
             "!quant.uniform<%s<%" PRId64 ":%" PRId64 ">:%s, %.17g:%" PRId64 ">", storage,
             element->storage_min, element->storage_max, kvmill_element_word(element->expressed),
             element->scale, element->zero_point);
    return words->text;
}

/* ---- Memory ---- */

struct kvmill_scalar kvmill_scalar_load(DLDataType type, const void *from) {
    struct kvmill_scalar scalar = {{0, 0}};
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    switch (kvmill_element_bytes(type)) {
    case 1:
        memcpy(&byte, from, 1);
        scalar.word[0] = byte;
        break;
    case 2:
        memcpy(&half, from, 2);
        scalar.word[0] = half;
        break;
    case 4:
        memcpy(&word, from, 4);
        scalar.word[0] = word;
        break;
    default:
        memcpy(scalar.word, from, (size_t)kvmill_element_bytes(type));
    }
    return scalar;
}

void kvmill_scalar_store(DLDataType type, struct kvmill_scalar scalar, void *to) {
    uint8_t byte = (uint8_t)scalar.word[0];
    uint16_t half = (uint16_t)scalar.word[0];
    uint32_t word = (uint32_t)scalar.word[0];
    switch (kvmill_element_bytes(type)) {
    case 1:
        memcpy(to, &byte, 1);
        break;
    case 2:
        memcpy(to, &half, 2);
        break;
    case 4:
        memcpy(to, &word, 4);
        break;
    default:
        memcpy(to, scalar.word, (size_t)kvmill_element_bytes(type));
    }
}

/* ---- Floats ---- */

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 2^exponent, for the exponents of normal doubles. */
static double power_of_two(int exponent) {
    return double_of_bits((uint64_t)(exponent + 1023) << 52);
}

static uint64_t magnitude_mask(const struct float_format *format) {
    return ((uint64_t)1 << (format->exponent_bits + format->mantissa_bits)) - 1;
}

static uint64_t largest_finite(const struct float_format *format) {
    uint64_t all = magnitude_mask(format);
    switch (format->ending) {
    case IEEE:
        return all - ((uint64_t)1 << format->mantissa_bits);
    case NANS:
    case UNSIGNED_POWERS:
        return all - 1;
    default:
        return all;
    }
}

static double special(const struct float_format *format, uint64_t magnitude) {
    uint64_t infinity = largest_finite(format) + 1;
    return double_of_bits(format->ending == IEEE && magnitude == infinity ? 0x7ffull << 52
                                                                          : 0x7ff8ull << 48);
}

static double decode(const struct float_format *format, uint64_t bits) {
    uint64_t magnitude = bits & magnitude_mask(format);
    bool negative = format->ending != UNSIGNED_POWERS && (bits & ~magnitude_mask(format)) != 0;
    uint64_t exponent = magnitude >> format->mantissa_bits;
    uint64_t mantissa = magnitude & (((uint64_t)1 << format->mantissa_bits) - 1);
    if (magnitude > largest_finite(format)) {
        double value = special(format, magnitude);
        return negative ? -value : value;
    }
    if (format->ending == NAN_AT_MINUS_ZERO && negative && magnitude == 0)
        return double_of_bits(0x7ff8ull << 48);
    if (format->ending == UNSIGNED_POWERS)
        return power_of_two((int)exponent - format->bias);
    if (exponent > 0)
        mantissa |= (uint64_t)1 << format->mantissa_bits;
    double value = (double)mantissa *
                   power_of_two((int)(exponent + !exponent) - format->bias - format->mantissa_bits);
    return negative ? -value : value;
}

static bool is_double(const struct element_type *type) {
    return type->format.mantissa_bits == 52;
}

double kvmill_float_of(DLDataType type, uint64_t bits) {
    const struct element_type *found = find(type);
    if (is_double(found))
        return double_of_bits(bits);
    return decode(&found->format, bits);
}

static uint64_t shift_to_even(uint64_t bits, int shift) {
    if (shift > 62)
        return 0;
    return (bits + ((uint64_t)1 << (shift - 1)) - 1 + (bits >> shift & 1)) >> shift;
}

/* The magnitude next to a finite one; beyond the largest if it is too large. */
static uint64_t round_magnitude(const struct float_format *format, uint64_t value) {
    int exponent = (int)(value >> 52) - 1023;
    int least = format->ending == UNSIGNED_POWERS ? -format->bias : 1 - format->bias;
    int used = exponent < least ? least : exponent;
    uint64_t mantissa = (value & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    uint64_t rounded = shift_to_even(mantissa, 52 - format->mantissa_bits + used - exponent);
    if (format->ending == UNSIGNED_POWERS)
        return rounded == 0 ? 0 : rounded + (uint64_t)(used - least) - 1;
    return rounded + ((uint64_t)(used - least) << format->mantissa_bits);
}

static uint64_t nan_bits(const struct float_format *format, uint64_t sign) {
    switch (format->ending) {
    case IEEE:
        return sign | (largest_finite(format) + 1) | (uint64_t)1 << (format->mantissa_bits - 1);
    case NAN_AT_MINUS_ZERO:
        return magnitude_mask(format) + 1;
    case NUMBERS:
        return magnitude_mask(format) + 1; /* -0 does not exist */
    default:
        return sign | magnitude_mask(format);
    }
}

static uint64_t too_large(const struct float_format *format, uint64_t sign) {
    if (format->ending == IEEE)
        return sign | (largest_finite(format) + 1);
    return format->ending == NUMBERS ? sign | largest_finite(format) : nan_bits(format, sign);
}

static uint64_t encode(const struct float_format *format, double value) {
    uint64_t bits = bits_of_double(value), magnitude = bits & ~((uint64_t)1 << 63);
    bool is_nan = magnitude > 0x7ffull << 52;
    uint64_t sign = bits >> 63 ? magnitude_mask(format) + 1 : 0;
    if (format->ending == UNSIGNED_POWERS && sign && magnitude)
        is_nan = true;
    if (format->ending == UNSIGNED_POWERS)
        sign = 0;
    if (is_nan)
        return nan_bits(format, sign);
    uint64_t rounded =
        magnitude == 0x7ffull << 52 ? ~(uint64_t)0 : round_magnitude(format, magnitude);
    if (rounded > largest_finite(format))
        return too_large(format, sign);
    return format->ending == NAN_AT_MINUS_ZERO && rounded == 0 ? 0 : sign | rounded;
}

uint64_t kvmill_bits_of(DLDataType type, double value) {
    const struct element_type *found = find(type);
    if (is_double(found))
        return bits_of_double(value);
    return encode(&found->format, value);
}

/* ---- Integers ---- */

static uint64_t low_bits(DLDataType type) {
    return type.bits >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << type.bits) - 1;
}

uint64_t kvmill_integer_of(DLDataType type, uint64_t bits) {
    if (type.code == KVMILL_DL_BOOL)
        return bits != 0;
    bits &= low_bits(type);
    bool negative = type.code == kDLInt && (bits >> (type.bits - 1) & 1);
    return negative ? bits | ~low_bits(type) : bits;
}

/* ---- Conversion ---- */

/* A number during conversion from one type to another. */
struct number {
    bool is_float;
    bool is_signed;
    double real, imaginary;
    uint64_t integer;
};

static DLDataType half_of(DLDataType complex) {
    return (DLDataType){kDLFloat, (uint8_t)(complex.bits / 2), 1};
}

static struct number number_of(DLDataType type, struct kvmill_scalar scalar) {
    switch (kvmill_kind_of(type)) {
    case KVMILL_FLOAT:
        return (struct number){.is_float = true, .real = kvmill_float_of(type, scalar.word[0])};
    case KVMILL_COMPLEX: {
        struct kvmill_scalar imaginary = kvmill_imaginary_of(type, scalar);
        return (struct number){
            .is_float = true,
            .real = kvmill_float_of(half_of(type), kvmill_real_of(type, scalar).word[0]),
            .imaginary = kvmill_float_of(half_of(type), imaginary.word[0])};
    }
    default:
        return (struct number){.is_signed = type.code == kDLInt,
                               .integer = kvmill_integer_of(type, scalar.word[0])};
    }
}

/* An integer as a double that rounds to any narrower float as the integer itself would: if 53 bits
   do not hold it, the last bit is set. */
static double odd_double(const struct number *number, bool exact) {
    bool negative = number->is_signed && (int64_t)number->integer < 0;
    uint64_t magnitude = negative ? 0 - number->integer : number->integer;
    if (!exact && magnitude >> 53)
        magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
    return negative ? -(double)magnitude : (double)magnitude;
}

static double limit(DLDataType type, bool upper) {
    int bits = type.bits - (type.code == kDLInt);
    if (upper)
        return power_of_two(bits);
    return type.code == kDLInt ? -power_of_two(bits) : 0;
}

static uint64_t most_integer(DLDataType type) {
    return type.code == kDLInt ? low_bits(type) >> 1 : low_bits(type);
}

static uint64_t integer_of_float(DLDataType type, double value) {
    if (value != value)
        return 0;
    if (value >= limit(type, true))
        return most_integer(type);
    if (value <= limit(type, false))
        return type.code == kDLInt ? (uint64_t)1 << (type.bits - 1) : 0;
    return (value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value) & low_bits(type);
}

static uint64_t integer_from(DLDataType type, const struct number *number) {
    if (number->is_float)
        return integer_of_float(type, number->real);
    return number->integer & low_bits(type);
}

static uint64_t float_from(DLDataType type, const struct number *number) {
    if (number->is_float)
        return kvmill_bits_of(type, number->real);
    return kvmill_bits_of(type, odd_double(number, type.bits == 64));
}

static struct kvmill_scalar scalar_from(DLDataType type, const struct number *number) {
    struct kvmill_scalar scalar = {{0, 0}};
    bool truth =
        number->is_float ? number->real != 0 || number->imaginary != 0 : number->integer != 0;
    switch (kvmill_kind_of(type)) {
    case KVMILL_FLOAT:
        scalar.word[0] = float_from(type, number);
        return scalar;
    case KVMILL_COMPLEX:
        return kvmill_complex_of(type, float_from(half_of(type), number),
                                 kvmill_bits_of(half_of(type), number->imaginary));
    case KVMILL_BOOL:
        scalar.word[0] = truth;
        return scalar;
    default:
        scalar.word[0] = integer_from(type, number);
        return scalar;
    }
}

/* ---- Complex numbers ---- */

struct kvmill_scalar kvmill_real_of(DLDataType type, struct kvmill_scalar scalar) {
    return (struct kvmill_scalar){
        {type.bits == 64 ? scalar.word[0] & 0xffffffff : scalar.word[0], 0}};
}

struct kvmill_scalar kvmill_imaginary_of(DLDataType type, struct kvmill_scalar scalar) {
    return (struct kvmill_scalar){{type.bits == 64 ? scalar.word[0] >> 32 : scalar.word[1], 0}};
}

struct kvmill_scalar kvmill_complex_of(DLDataType type, uint64_t real, uint64_t imaginary) {
    if (type.bits == 64)
        return (struct kvmill_scalar){{real | imaginary << 32, 0}};
    return (struct kvmill_scalar){{real, imaginary}};
}

/* ---- Quantized numbers ---- */

/* Every step is rounded to the expressed type, as in the source's definition. */
static double rounded(DLDataType type, double value) {
    return kvmill_float_of(type, kvmill_bits_of(type, value));
}

static double dequantized(const kvmill_element_type *element, struct kvmill_scalar scalar) {
    DLDataType type = element->expressed;
    struct number stored = number_of(element->dtype, scalar);
    double distance = rounded(type, odd_double(&stored, true) - (double)element->zero_point);
    return rounded(type, distance * rounded(type, element->scale));
}

static double nearest_even(double value) {
    const double big = 0x1p52;
    double magnitude = value < 0 ? -value : value;
    if (!(magnitude < big))
        return value;
    volatile double sum = magnitude + big;
    double whole = sum - big;
    return value < 0 ? -whole : whole;
}

static struct kvmill_scalar quantized(const kvmill_element_type *element, double value) {
    DLDataType type = element->expressed;
    double steps = nearest_even(rounded(type, value / rounded(type, element->scale)));
    double stored = rounded(type, steps + (double)element->zero_point);
    int64_t whole = stored != stored                         ? 0
                    : stored <= (double)element->storage_min ? element->storage_min
                    : stored >= (double)element->storage_max ? element->storage_max
                                                             : (int64_t)stored;
    return (struct kvmill_scalar){{(uint64_t)whole & low_bits(element->dtype), 0}};
}

struct kvmill_scalar kvmill_scalar_convert(const kvmill_element_type *from,
                                           const kvmill_element_type *to,
                                           struct kvmill_scalar scalar) {
    if (kvmill_element_equal(from, to))
        return scalar;
    struct number number = number_of(from->dtype, scalar);
    if (kvmill_is_quantized(from))
        number = (struct number){.is_float = true, .real = dequantized(from, scalar)};
    if (!kvmill_is_quantized(to))
        return scalar_from(to->dtype, &number);
    return quantized(to, number.is_float ? number.real : odd_double(&number, true));
}

struct kvmill_scalar kvmill_scalar_fill(DLDataType type) {
    const struct number nan = {.is_float = true, .real = double_of_bits(0x7ff8ull << 48)};
    switch (kvmill_kind_of(type)) {
    case KVMILL_BOOL:
        return (struct kvmill_scalar){{1, 0}};
    case KVMILL_INT:
        return (struct kvmill_scalar){{(uint64_t)1 << (type.bits - 1), 0}};
    case KVMILL_UINT:
        return (struct kvmill_scalar){{low_bits(type), 0}};
    default:
        return scalar_from(type, &nan);
    }
}
