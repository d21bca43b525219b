/* The products that kernels compute instead of quotients when they quantise, for every operand that
   can matter: see doc/design/quantising.md.  KVMILL_ALL_QUOTIENTS=1 tries all scales of float32
   instead of one in 61.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/core/numbers.h"
#include "program.h"

/* Rounds to the nearest float with `drop` bits less, ties to even. */
static float shortened(float x, int drop) {
    uint32_t u = kvmill_bits_of_float(x), last = u >> drop & 1;
    return kvmill_float_of_bits((u + (1u << (drop - 1)) - 1 + last) & ~((1u << drop) - 1));
}

static int nearest(float x) {
    return (int)((x + 0x1.8p23f) - 0x1.8p23f);
}

/* ---- Float16 (13 bits less) and bfloat16 (16 bits less) ---- */

/* Rounds by adding half of the last place and dropping the bits after it: quotients are never
   ties. */
static float short_product(float x, float scale, int drop) {
    return kvmill_float_of_bits((kvmill_bits_of_float(x * (1 / scale)) + (1u << (drop - 1))) &
                                ~((1u << drop) - 1));
}

static void test_short_quotients(int drop, const char *type) {
    int least = 1 << (23 - drop), wrong = 0, tried = 0;
    for (int s = least; s < 2 * least; s++)
        for (int x = least; x < 2 * least; x++, tried++)
            wrong +=
                short_product((float)x, (float)s, drop) != shortened((float)x / (float)s, drop);
    ok(tried > 0 && wrong == 0, "%s: products of %d pairs of mantissas are their quotients", type,
       tried);
}

/* Rounds to the type; float16 has no exponent below 2^-14. */
static float as_type(float x, int drop) {
    return drop == 13 && x < 0x1p-14f ? (x + 0.5f) - 0.5f : shortened(x, drop);
}

/* Tests the largest magnitude divided by the largest code; smaller magnitudes have the least
   scale. */
static void test_shares(int drop, float most, const char *type) {
    const uint32_t end = kvmill_bits_of_float(drop == 13 ? 65536.f : INFINITY), step = 1u << drop;
    int wrong = 0, tried = 0;
    for (uint32_t u = kvmill_bits_of_float(1e-5f) / step * step; u < end; u += step) {
        float x = kvmill_float_of_bits(u);
        if (as_type(x, drop) != x)
            continue;
        tried++;
        wrong += as_type(x * (1 / most), drop) != as_type(x / most, drop);
    }
    ok(tried > 0 && wrong == 0, "%s: products of %d numbers with 1 / %g are their shares", type,
       tried, (double)most);
}

/* ---- Float32 ---- */

static int corrected_code(float x, float scale, float inverse) {
    float q = x * inverse;
    return nearest(fmaf(fmaf(-q, scale, x), inverse, q));
}

/* Returns how many of the two floats next to `x` have codes that differ from their quotients'
   codes. */
static int wrong_beside(double x, float scale, float inverse) {
    float near = (float)x, other = nextafterf(near, (double)near < x ? INFINITY : -INFINITY);
    return (corrected_code(near, scale, inverse) != nearest(near / scale)) +
           (corrected_code(other, scale, inverse) != nearest(other / scale));
}

/* Tests numbers half a last place from code + 1/2, where the rounding of quotients changes. */
static void test_codes(int step) {
    long wrong = 0, tried = 0;
    for (int twice = 1; twice < 256; twice += 2) {
        float half = (float)twice / 2;
        double above = ((double)half + (double)nextafterf(half, INFINITY)) / 2;
        double below = ((double)half + (double)nextafterf(half, 0)) / 2;
        for (int32_t s = 1 << 23; s < 1 << 24; s += step, tried++) {
            float scale = (float)s, inverse = 1 / scale;
            wrong += wrong_beside(above * s, scale, inverse);
            wrong += wrong_beside(below * s, scale, inverse);
        }
    }
    ok(tried > 0 && wrong == 0, "float32: corrected products have the codes of %ld x 4 quotients",
       tried);
}

TEST(quotients) {
    test_short_quotients(13, "float16");
    test_short_quotients(16, "bfloat16");
    for (float most = 7; most < 128; most += 120) {
        test_shares(13, most, "float16");
        test_shares(16, most, "bfloat16");
    }
    int some = is_slow_run() ? 61 * 61 : 61;
    test_codes(getenv("KVMILL_ALL_QUOTIENTS") != NULL ? 1 : some);
}
