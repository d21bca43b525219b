/* neon.h -- AArch64: 16-byte vectors, present on every such CPU.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_WORDS_NEON_H
#define KVMILL_WORDS_NEON_H

#include <arm_neon.h>

#define IN_REGISTER "+w"

#include "vector4.h"

/* ---- Elements ---- */

/* Four bytes, in the lower half of a vector of eight. */
static inline uint8x8_t four_bytes(const void *from) { return vcreate_u8(*(const kvmill_word4 *)from); }
static inline vf neon_load_i8(const void *from) {
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(from))))));
}
static inline vi neon_load_u8(const void *from) { return (vi)vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(from)))); }
static inline vf neon_load_table(const void *table, const void *from, int shift) {
    uint8x8_t places = vand_u8(vshl_u8(four_bytes(from), vdup_n_s8((int8_t)-shift)), vdup_n_u8(15));
    int8x8_t numbers = vqtbl1_s8(vld1q_s8(table), places);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(numbers))));
}
static inline vi neon_twice(uint64_t bytes) {
    uint8x8_t x = vcreate_u8(bytes);
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vzip1_u8(x, x))));
}
static inline vu neon_widened(halves h) { return (vu)vmovl_u16((uint16x4_t)h); }
static inline halves neon_narrowed(vi b) { return (halves)vmovn_u32((uint32x4_t)b); }
static inline vf neon_from_halves(halves h) { return (vf)vcvt_f32_f16((float16x4_t)h); }
static inline halves neon_to_halves(vf x) { return (halves)vcvt_f16_f32((float32x4_t)x); }
static inline float neon_load_one_f16(const void *from) {
    __fp16 half;
    memcpy(&half, from, sizeof half);
    return half;
}
static inline void neon_store_one_f16(void *to, float x) {
    __fp16 half = (__fp16)x;
    memcpy(to, &half, sizeof half);
}
static inline void neon_store_low_bytes(void *to, vi x) {
    uint16x4_t low = vmovn_u32((uint32x4_t)x);
    *(kvmill_word4 *)to = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(low, low))), 0);
}

/* ---- Arithmetic ---- */

static inline vf neon_choose(vi mask, vf a, vf b) {
    return (vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}
static inline vi neon_at_most(vi b, int32_t most) { return (vi)vminq_s32((int32x4_t)b, vdupq_n_s32(most)); }
static inline vi neon_round_even(vf x) { return (vi)vcvtnq_s32_f32((float32x4_t)x); }
static inline vi neon_round_away(vf x) { return (vi)vcvtaq_s32_f32((float32x4_t)x); }
static inline vf neon_nearest_whole(vf x) { return (vf)vrndnq_f32((float32x4_t)x); }

/* ---- Reductions and masks ---- */

static inline float neon_largest_of(vf x) { return vmaxnmvq_f32((float32x4_t)x); }
static inline int neon_any_from(vi b, int32_t least) { return vmaxvq_s32((int32x4_t)b) >= least; }
static inline int neon_is_any_negative(vi b) { return vminvq_s32((int32x4_t)b) < 0; }
static inline uint32_t neon_lanes_from(vi x, vi least) {
    const uint32x4_t bit = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_s32((int32x4_t)x, (int32x4_t)least), bit));
}

/* ---- Codes ---- */

static inline int8x16_t codes_of(vi c0, vi c1, vi c2, vi c3) {
    int16x8_t low = vcombine_s16(vqmovn_s32((int32x4_t)c0), vqmovn_s32((int32x4_t)c1));
    int16x8_t high = vcombine_s16(vqmovn_s32((int32x4_t)c2), vqmovn_s32((int32x4_t)c3));
    return vmaxq_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)), vdupq_n_s8(-127));
}
static inline void neon_store_i8(void *to, vi c0, vi c1, vi c2, vi c3) { vst1q_s8(to, codes_of(c0, c1, c2, c3)); }
static inline void neon_store_i4(void *to, vi c0, vi c1, vi c2, vi c3) {
    uint16x8_t pair = vreinterpretq_u16_s8(vandq_s8(codes_of(c0, c1, c2, c3), vdupq_n_s8(15)));
    vst1_u8(to, vmovn_u16(vorrq_u16(pair, vshrq_n_u16(pair, 4))));
}
static inline vi neon_larger_u16(vi a, vi b) { return (vi)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b); }
static inline vi neon_larger_u32(vi a, vi b) { return (vi)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b); }
#define LARGEST_16(x) (int32_t)vmaxvq_u16((uint16x8_t)x)
#define LARGEST_32(x) (int32_t)vmaxvq_u32((uint32x4_t)x)
static inline vi neon_largest_u16(vi a, vi b, vi c, vi d) {
    return (vi){LARGEST_16(a), LARGEST_16(b), LARGEST_16(c), LARGEST_16(d)};
}
static inline vi neon_largest_u32(vi a, vi b, vi c, vi d) {
    return (vi){LARGEST_32(a), LARGEST_32(b), LARGEST_32(c), LARGEST_32(d)};
}
static inline vi neon_add_products(vi sum, vi a, vi b) {
    int16x8_t low = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8((uint8x16_t)a))),
                              vmovl_s8(vget_low_s8((int8x16_t)b)));
    int16x8_t high = vmulq_s16(vreinterpretq_s16_u16(vmovl_high_u8((uint8x16_t)a)), vmovl_high_s8((int8x16_t)b));
    return sum + (vi)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}
static inline vi neon_turn_bytes(vi x) {
    const uint8x16_t turn = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return (vi)vqtbl1q_u8((uint8x16_t)x, turn);
}
#define FOUR_BYTES(P) (int32_t)*(const kvmill_word4 *)P
static inline vi neon_load_four(const void *a, const void *b, const void *c, const void *d) {
    return (vi){FOUR_BYTES(a), FOUR_BYTES(b), FOUR_BYTES(c), FOUR_BYTES(d)};
}
static inline vi neon_side_by_side(vi x) { return turn_bytes(x); }
#define EACH_ROW(f) f(a), f(b), f(c), f(d),
/* Interleaves the pairs of bytes of ab and cd into the vectors from x[I] on. */
#define ZIP_PAIRS(I)                                                                                                   \
    x[I] = (vf)vzip1q_u16((uint16x8_t)ab, (uint16x8_t)cd);                                                             \
    x[I + 1] = (vf)vzip2q_u16((uint16x8_t)ab, (uint16x8_t)cd);
#define ROW(P) vld1q_u8(P)
static inline void neon_rows_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[4]) {
    uint8x16_t r[] = {EACH_ROW(ROW) };
    uint8x16_t ab = vzip1q_u8(r[0], r[1]), cd = vzip1q_u8(r[2], r[3]);
    ZIP_PAIRS(0)
    ab = vzip2q_u8(r[0], r[1]), cd = vzip2q_u8(r[2], r[3]);
    ZIP_PAIRS(2)
}
#define HALF_A_ROW(P) vcombine_u8(vld1_u8(P), vcreate_u8(0))
static inline void neon_halves_side_by_side(const void *a, const void *b, const void *c, const void *d, vf x[2]) {
    uint8x16_t r[] = {EACH_ROW(HALF_A_ROW) };
    uint8x16_t ab = vzip1q_u8(r[0], r[1]), cd = vzip1q_u8(r[2], r[3]);
    ZIP_PAIRS(0)
}

#endif
