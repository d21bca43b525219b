/* Floats of 4 to 16 bits: what every code means, and that numbers are rounded to the nearest, ties
   to even. The codes' values come from a definition of their own, the nearest by looking at all of
   them.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/element.h"
#include "fence.h"
#include "tap.h"

/* What the largest exponent holds. */
enum ending {
    INFINITIES_AND_NANS,
    ONE_NAN, /* all bits set; everything else are numbers */
    NAN_FOR_MINUS_ZERO,
    JUST_NUMBERS
};

static const struct format {
    const char *word;
    int exponent_bits, mantissa_bits, bias;
    enum ending ending;
} formats[] = {
    {"f16", 5, 10, 15, INFINITIES_AND_NANS},      {"bf16", 8, 7, 127, INFINITIES_AND_NANS},
    {"f8E3M4", 3, 4, 3, INFINITIES_AND_NANS},     {"f8E4M3", 4, 3, 7, INFINITIES_AND_NANS},
    {"f8E5M2", 5, 2, 15, INFINITIES_AND_NANS},    {"f8E4M3FN", 4, 3, 7, ONE_NAN},
    {"f8E4M3FNUZ", 4, 3, 8, NAN_FOR_MINUS_ZERO},  {"f8E4M3B11FNUZ", 4, 3, 11, NAN_FOR_MINUS_ZERO},
    {"f8E5M2FNUZ", 5, 2, 16, NAN_FOR_MINUS_ZERO}, {"f6E2M3FN", 2, 3, 1, JUST_NUMBERS},
    {"f6E3M2FN", 3, 2, 3, JUST_NUMBERS},          {"f4E2M1FN", 2, 1, 1, JUST_NUMBERS},
};

static double value_of(const struct format *f, unsigned code) {
    unsigned sign = 1u << (f->exponent_bits + f->mantissa_bits), magnitude = code & (sign - 1);
    unsigned exponent = magnitude >> f->mantissa_bits;
    unsigned mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
    unsigned last = (1u << f->exponent_bits) - 1;
    if (f->ending == INFINITIES_AND_NANS && exponent == last && mantissa != 0)
        return NAN;
    if (f->ending == ONE_NAN && magnitude == sign - 1)
        return NAN;
    if (f->ending == NAN_FOR_MINUS_ZERO && code == sign)
        return NAN;
    double value =
        exponent ? ldexp(1 + mantissa / (double)(1u << f->mantissa_bits), (int)exponent - f->bias)
                 : ldexp(mantissa / (double)(1u << f->mantissa_bits), 1 - f->bias);
    if (f->ending == INFINITIES_AND_NANS && exponent == last)
        value = INFINITY;
    return code & sign ? -value : value;
}

static bool is_same(double a, double b) {
    return (a != a && b != b) || (a == b && signbit(a) == signbit(b));
}

static unsigned code_count(const struct format *f) {
    return 2u << (f->exponent_bits + f->mantissa_bits);
}

static void check_values(const struct format *f, DLDataType type) {
    unsigned wrong = 0;
    for (unsigned code = 0; code < code_count(f); code++) {
        double want = value_of(f, code), have = kvmill_float_of(type, code);
        wrong += !is_same(want, have);
        wrong += want == want && kvmill_bits_of(type, want) != code;
    }
    ok(wrong == 0, "%s: all codes mean what they say, and back", f->word);
}

/* Between neighbours, a little beside the middle, and just there. */
static void check_rounding(const struct format *f, DLDataType type) {
    unsigned wrong = 0, half = code_count(f) / 2;
    for (unsigned code = 0; code + 1 < half; code++) {
        double low = value_of(f, code), high = value_of(f, code + 1);
        if (low != low || high != high || isinf(high))
            continue;
        double middle = (low + high) / 2, beside = (high - low) / 1024;
        unsigned even = code % 2 ? code + 1 : code;
        wrong += kvmill_bits_of(type, middle) != even;
        wrong += kvmill_bits_of(type, middle - beside) != code;
        wrong += kvmill_bits_of(type, middle + beside) != code + 1;
        wrong +=
            value_of(f, (unsigned)kvmill_bits_of(type, -middle)) != -value_of(f, even) && even != 0;
    }
    ok(wrong == 0, "%s: to the nearest, ties to even", f->word);
}

static void check_ends(const struct format *f, DLDataType type) {
    double large =
        value_of(f, (unsigned)kvmill_bits_of(type, 1e30 * (f->exponent_bits == 8 ? 1e30 : 1)));
    double nan = value_of(f, (unsigned)kvmill_bits_of(type, NAN));
    bool right = f->ending == INFINITIES_AND_NANS ? isinf(large)
                 : f->ending == JUST_NUMBERS      ? large == value_of(f, code_count(f) / 2 - 1)
                                                  : large != large;
    ok(right, "%s: what is too large", f->word);
    ok(f->ending == JUST_NUMBERS ? nan == 0 : nan != nan, "%s: NaN", f->word);
}

/* By integers alone, to nearest even: valgrind's conversion rounds twice. */
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

/* 64-bit integers as floats are rounded once: halfway cases of float32 with a last bit beside them.
 */
static void check_integers(void) {
    const kvmill_element_type i64 = {.dtype = {kDLInt, 64, 1}}, f32 = {.dtype = {kDLFloat, 32, 1}};
    struct dice dice = dice_for(dice_seed(), "integers");
    int wrong = 0;
    for (int i = 0; i < 100000; i++) {
        int64_t value = (int64_t)((dice_bits(&dice) | (uint64_t)1 << 62) & ~((uint64_t)1 << 63));
        if (i % 2)
            value = ((value >> 38 | 1) << 38) + dice_range(&dice, -1, 1);
        float want = float_of(value), have;
        struct kvmill_scalar scalar = {{(uint64_t)value, 0}};
        scalar = kvmill_scalar_convert(&i64, &f32, scalar);
        memcpy(&have, scalar.word, sizeof have);
        wrong += have != want;
    }
    ok(wrong == 0, "integers of 64 bits as float32");
}

int main(void) {
    DLDataType type;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const struct format *f = &formats[i];
        if (!ok(kvmill_element_by_word(f->word, strlen(f->word), &type), "%s is known", f->word))
            continue;
        check_values(f, type);
        check_rounding(f, type);
        check_ends(f, type);
    }
    ok(kvmill_element_by_word("f8E8M0FNU", 9, &type), "f8E8M0FNU is known");
    int wrong = 0;
    for (unsigned code = 0; code < 255; code++)
        wrong += kvmill_float_of(type, code) != ldexp(1, (int)code - 127) ||
                 kvmill_bits_of(type, ldexp(1, (int)code - 127)) != code;
    ok(wrong == 0 && isnan(kvmill_float_of(type, 255)) && kvmill_bits_of(type, NAN) == 255,
       "f8E8M0FNU: powers of two, and NaN");
    check_integers();
    return done_testing();
}
