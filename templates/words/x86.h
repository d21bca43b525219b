/* x86.h -- what the instruction sets for x86-64 share.  Their headers define the macros and functions in which it is
   written, and include it last.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_X86_H
#define KVMILL_WORDS_X86_H

/* Alone, it is read with the definitions of AVX2. */
#ifndef LANE_COUNT
#include "avx2.h"
#endif

/* ---- Elements ---- */

static inline vf x86_load_i8(const void *from) { return V(cvtepi32_ps)(V(cvtepi8_epi32)(LOAD_QUARTER(from))); }
static inline vi x86_load_s8(const void *from) { return (vi)V(cvtepi8_epi32)(LOAD_QUARTER(from)); }
static inline vi x86_load_u8(const void *from) { return (vi)V(cvtepu8_epi32)(LOAD_QUARTER(from)); }
static inline vf x86_load_table(const void *table, const void *from, int shift) {
    __m128i places = _mm_srl_epi16(LOAD_QUARTER(from), _mm_cvtsi32_si128(shift));
    __m128i numbers =
        _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)table), _mm_and_si128(places, _mm_set1_epi8(15)));
    return V(cvtepi32_ps)(V(cvtepi8_epi32)(numbers));
}
static inline vi x86_twice(uint64_t bytes) {
    __m128i x = _mm_cvtsi64_si128((long long)bytes);
    return (vi)V(cvtepu8_epi32)(_mm_unpacklo_epi8(x, x));
}
static inline vu x86_widened(halves h) { return (vu)V(cvtepu16_epi32)((HALF_VECTOR)h); }
static inline vf x86_from_halves(halves h) { return V(cvtph_ps)((HALF_VECTOR)h); }
static inline halves x86_to_halves(vf x) { return (halves)V(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT); }
static inline float x86_load_one_f16(const void *from) { return _cvtsh_ss(*(const kvmill_word2 *)from); }
static inline void x86_store_one_f16(void *to, float x) {
    *(kvmill_word2 *)to = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
static inline halves x86_to_brains(vf x) { return narrowed((vi)V(srli_epi32)(brain_above(x), 16)); }
static inline vf x86_round_bf16(vf x) { return (vf)SI(and)(brain_above(x), V(set1_epi32)((int)0xffff0000)); }
static inline void x86_store_kept(float *to, vf x) {
    store_f32(to, x);
    __asm__("" : "+m"(*(MEMORY *)to));
}
static inline void x86_stream_f32(void *to, vf x) { V(stream_ps)((float *)to, x); }
static inline void x86_stream_f16(void *to, vf x) { HALF_SI(stream)((HALF_VECTOR *)to, (HALF_VECTOR)to_halves(x)); }
static inline void x86_stream_bf16(void *to, vf x) { HALF_SI(stream)((HALF_VECTOR *)to, (HALF_VECTOR)to_brains(x)); }

/* ---- Arithmetic ---- */

static inline vf x86_max_f32(vf a, vf b) { return V(max_ps)(a, b); }
static inline vf x86_min_f32(vf a, vf b) { return V(min_ps)(a, b); }
static inline vi x86_at_most(vi b, int32_t most) { return (vi)V(min_epi32)((VECTOR)b, V(set1_epi32)(most)); }
static inline vi x86_round_even(vf x) { return (vi)V(cvtps_epi32)(x); }
/* 0x3effffff is the largest float below 0.5. */
static inline vi x86_round_away(vf x) {
    vf half = (vf)(((vi)x & INT32_MIN) | 0x3effffff);
    return (vi)V(cvttps_epi32)(x + half);
}
static inline vi x86_truncate(vf x) { return (vi)V(cvttps_epi32)(x); }
/* x * inverse, corrected by its exact remainder, gives the same code as the quotient.  For float16 and bfloat16 the
   product alone does: see doc/design/quantising.md and tests/t_quotients.c. */
static inline vi x86_code_f32(vf x, vf s, vf inverse) {
    vf q = x * inverse;
    return round_even(V(fmadd_ps)(V(fnmadd_ps)(q, s, x), inverse, q));
}
#define CODE_OF_PRODUCT(HALF_BIT, BITS_BELOW)                                                                          \
    (void)s;                                                                                                           \
    vu q = (vu)(x * inverse) + HALF_BIT;                                                                               \
    return round_even((vf)(q & ~BITS_BELOW));
static inline vi x86_code_f16(vf x, vf s, vf inverse) { CODE_OF_PRODUCT(4096, 8191) }
static inline vi x86_code_bf16(vf x, vf s, vf inverse) { CODE_OF_PRODUCT(32768, 65535) }

/* ---- Codes ---- */

static inline VECTOR codes_of(vi c0, vi c1, vi c2, vi c3) {
    VECTOR low = V(packs_epi32)((VECTOR)c0, (VECTOR)c1), high = V(packs_epi32)((VECTOR)c2, (VECTOR)c3);
    return in_order(V(max_epi8)(V(packs_epi16)(low, high), V(set1_epi8)(-127)));
}
/* Bytes 2i and 2i + 1 become one byte: the first + 16 * the second. */
static inline HALF_VECTOR nibbles_of(VECTOR c) {
    return low_bytes(V(maddubs_epi16)(SI(and)(c, V(set1_epi8)(0x0f)), V(set1_epi16)(0x1001)));
}
static inline void x86_store_i8(void *to, vi c0, vi c1, vi c2, vi c3) {
    SI(storeu)((VECTOR *)to, codes_of(c0, c1, c2, c3));
}
static inline void x86_store_i4(void *to, vi c0, vi c1, vi c2, vi c3) {
    HALF_SI(storeu)((HALF_VECTOR *)to, nibbles_of(codes_of(c0, c1, c2, c3)));
}
static inline void x86_stream_i8(void *to, vi c0, vi c1, vi c2, vi c3) {
    SI(stream)((VECTOR *)to, codes_of(c0, c1, c2, c3));
}
static inline void x86_stream_i4(void *to, vi c0, vi c1, vi c2, vi c3) {
    HALF_SI(stream)((HALF_VECTOR *)to, nibbles_of(codes_of(c0, c1, c2, c3)));
}

/* ---- Pairs ---- */

/* The asm statement after each addition keeps compilers from reordering the additions, which would take too many
   registers. */
static inline vi x86_add_pairs(vi sum, vi a, vi b) {
    sum += (vi)V(madd_epi16)((VECTOR)a, (VECTOR)b);
    __asm__("" : IN_REGISTER(sum));
    return sum;
}
/* A product with (1, 0) is one instruction; shifts would be two. */
static inline vi x86_even_codes(vi x) { return (vi)V(maddubs_epi16)(V(set1_epi16)(1), (VECTOR)x); }
static inline vi x86_lower_pairs(vi a, vi b) { return (vi)V(unpacklo_epi16)((VECTOR)a, (VECTOR)b); }
static inline vi x86_upper_pairs(vi a, vi b) { return (vi)V(unpackhi_epi16)((VECTOR)a, (VECTOR)b); }

/* ---- Interleaving bytes ---- */

/* 0x0c080400 + L % 4 * 0x01010101. */
#define TURNED(L) 201851904 + L % 4 * 16843009
static inline vi x86_turn_bytes(vi x) {
    const vi turn = {EACH_LANE(TURNED)};
    return (vi)V(shuffle_epi8)((VECTOR)x, (VECTOR)turn);
}
#define EACH_ROW(f) f(a), f(b), f(c), f(d),
#define UNPACK_BYTES                                                                                                   \
    VECTOR ab = V(unpacklo_epi8)(r[0], r[1]), cd = V(unpacklo_epi8)(r[2], r[3]);                                       \
    x[0] = (vf)V(unpacklo_epi16)(ab, cd), x[1] = (vf)V(unpackhi_epi16)(ab, cd);                                        \
    ab = V(unpackhi_epi8)(r[0], r[1]), cd = V(unpackhi_epi8)(r[2], r[3]);                                              \
    x[2] = (vf)V(unpacklo_epi16)(ab, cd), x[3] = (vf)V(unpackhi_epi16)(ab, cd);
#define LOADED(P) SI(loadu)((const VECTOR *)P)
static inline void x86_rows_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[4]) {
    VECTOR r[] = {EACH_ROW(LOADED) };
    UNPACK_BYTES
}
/* for_unpacking(b) permutes words so that the unpack instructions, which work on each 16 bytes, give them in order. */
#define FOR_UNPACKING(P) for_unpacking(SI(loadu)((const VECTOR *)P))
static inline void x86_interleaved(const void *a, const void *b, const void *c, const void *d, vf x[4]) {
    VECTOR r[] = {EACH_ROW(FOR_UNPACKING) };
    UNPACK_BYTES
}
static inline void x86_halves_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[2]) {
    VECTOR r[] = {EACH_ROW(BOTH_HALVES) };
    VECTOR ab = LOW_THEN_HIGH(r[0], r[1]), cd = LOW_THEN_HIGH(r[2], r[3]);
    x[0] = (vf)V(unpacklo_epi16)(ab, cd), x[1] = (vf)V(unpackhi_epi16)(ab, cd);
}

/* ---- Largest magnitudes ---- */

static inline vi x86_magnitudes_u16(const void *from) {
    return (vi)SI(and)(SI(loadu)((const VECTOR *)from), V(set1_epi16)(0x7fff));
}
static inline vi x86_magnitudes_u32(const void *from) {
    return (vi)SI(and)(SI(loadu)((const VECTOR *)from), V(set1_epi32)(0x7fffffff));
}
static inline vi x86_larger_u16(vi a, vi b) { return (vi)V(max_epu16)((VECTOR)a, (VECTOR)b); }
static inline vi x86_larger_u32(vi a, vi b) { return (vi)V(max_epu32)((VECTOR)a, (VECTOR)b); }
static inline vi x86_fold_u16(vi a, vi b) { return larger_u16(EVEN_PIECES(a, b), ODD_PIECES(a, b)); }
static inline vi x86_fold_u32(vi a, vi b) { return larger_u32(EVEN_PIECES(a, b), ODD_PIECES(a, b)); }
#define LOW_AND_HIGH_HALVES (vi)V(unpacklo_epi64)((VECTOR)a, (VECTOR)b), (vi)V(unpackhi_epi64)((VECTOR)a, (VECTOR)b)
#define EVEN_AND_ODD_WORDS (vi)V(shuffle_ps)((vf)a, (vf)b, 0x88), (vi)V(shuffle_ps)((vf)a, (vf)b, 0xdd)
static inline vi halved_u16(vi a, vi b) { return larger_u16(LOW_AND_HIGH_HALVES); }
static inline vi halved_u32(vi a, vi b) { return larger_u32(LOW_AND_HIGH_HALVES); }
static inline vi quartered_u16(vi a, vi b) { return larger_u16(EVEN_AND_ODD_WORDS); }
static inline vi quartered_u32(vi a, vi b) { return larger_u32(EVEN_AND_ODD_WORDS); }
static inline vi x86_largest_u16(vi a, vi b, vi c, vi d) {
    vi m = quartered_u16(halved_u16(a, b), halved_u16(c, d));
    m = larger_u16(m, (vi)((vu)m >> 16)) & 0xffff;
    return (vi)in_order((VECTOR)m);
}
static inline vi x86_largest_u32(vi a, vi b, vi c, vi d) {
    vi m = quartered_u32(halved_u32(a, b), halved_u32(c, d));
    return (vi)in_order((VECTOR)m);
}
/* equal_BITS(a, b) and signs_BITS(x) give a bit for each element of BITS bits.  The first element with the magnitude is
   the lowest bit that is set in `equal`. */
#define STARTS_NEGATIVE(BITS, MAGNITUDE, I)                                                                            \
    {                                                                                                                  \
        VECTOR x = SI(loadu)((const VECTOR *)((const char *)from + I * BITS / 8));                                     \
        VECTOR magnitudes = SI(and)(x, V(set1_epi##BITS)(MAGNITUDE));                                                  \
        equal |= (uint32_t)equal_##BITS(magnitudes, V(set1_epi##BITS)((int##BITS##_t)magnitude)) << I;                 \
        negative |= (uint32_t)signs_##BITS(x) << I;                                                                    \
    }
#define STARTS_NEGATIVE_16(I) STARTS_NEGATIVE(16, 0x7fff, I)
#define STARTS_NEGATIVE_32(I) STARTS_NEGATIVE(32, 0x7fffffff, I)
static inline uint32_t x86_starts_negative_u16(const void *from, int32_t magnitude) {
    uint32_t equal = 0, negative = 0;
    EACH_VECTOR_16(STARTS_NEGATIVE_16)
    return (equal & -equal & negative) != 0;
}
static inline uint32_t x86_starts_negative_u32(const void *from, int32_t magnitude) {
    uint32_t equal = 0, negative = 0;
    EACH_VECTOR_32(STARTS_NEGATIVE_32)
    return (equal & -equal & negative) != 0;
}

#endif
