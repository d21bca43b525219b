m4_divert(-1)
m4_dnl neon.m4 -- AArch64: 16-byte vectors, present on every such CPU.
m4_define(«km_isa», «neon»)
m4_define(«km_target», «»)
m4_define(«km_headers», «#include <arm_neon.h>»)

m4_define(«km_widths», «16, 8, 4, 2, 1»)

m4_dnl C has no stores around the cache for it.
m4_define(«km_stream_bytes», «0»)
m4_define(«km_stream_end», «»)

m4_define(«km_join_widths», «16, 8, 1»)
m4_define(«km_join_16», «vst1q_u8($1, vsliq_n_u8(vshrq_n_u8(vld1q_u8($2), 4), vld1q_u8(($2) + 1), 4))»)

m4_define(«km_register», «w»)
m4_define(«km_peak_bytes», 16)

m4_dnl ---- Elements ----

m4_dnl four_bytes(from) -- four bytes, in the lower half of a vector of eight.
km_helper(«four_bytes», «km_inline(«uint8x8_t», «four_bytes(const void *from)»)
{
    return vcreate_u8(*(const kvmill_word4 *)from);
}

»)
km_define(«load_i8», «
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(from))))));
»)
km_define(«load_u8», «
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(from))));
»)
km_define(«load_table», «
    uint8x8_t places = vand_u8(vshl_u8(four_bytes(from), vdup_n_s8((int8_t)-shift)), vdup_n_u8(15));
    int8x8_t numbers = vqtbl1_s8(vld1q_s8(table), places);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(numbers))));
»)
km_define(«twice», «
    uint8x8_t x = vcreate_u8(bytes);
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(vzip1_u8(x, x))));
»)
km_define(«widened», «
    return (vu)vmovl_u16((uint16x4_t)h);
»)
km_define(«narrowed», «
    return (halves)vmovn_u32((uint32x4_t)b);
»)
km_define(«from_halves», «
    return (vf)vcvt_f32_f16((float16x4_t)h);
»)
km_define(«to_halves», «
    return (halves)vcvt_f16_f32((float32x4_t)x);
»)
km_define(«load_one_f16», «
    __fp16 half;
    memcpy(&half, from, sizeof half);
    return half;
»)
km_define(«store_one_f16», «
    __fp16 half = (__fp16)x;
    memcpy(to, &half, sizeof half);
»)
km_define(«store_low_bytes», «
    uint16x4_t low = vmovn_u32((uint32x4_t)x);
    *(kvmill_word4 *)to = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(low, low))), 0);
»)

m4_dnl ---- Arithmetic ----

km_define(«choose», «
    return (vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
»)
km_define(«at_most», «
    return (vi)vminq_s32((int32x4_t)b, vdupq_n_s32(most));
»)
km_define(«round_even», «
    return (vi)vcvtnq_s32_f32((float32x4_t)x);
»)
km_define(«round_away», «
    return (vi)vcvtaq_s32_f32((float32x4_t)x);
»)
km_define(«nearest_whole», «
    return (vf)vrndnq_f32((float32x4_t)x);
»)

m4_dnl ---- Reductions and masks ----

km_define(«largest_of», «
    return vmaxnmvq_f32((float32x4_t)x);
»)
km_define(«any_from», «
    return vmaxvq_s32((int32x4_t)b) >= least;
»)
km_define(«is_any_negative», «
    return vminvq_s32((int32x4_t)b) < 0;
»)
km_define(«lanes_from», «
    const uint32x4_t bit = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_s32((int32x4_t)x, (int32x4_t)least), bit));
»)

m4_dnl ---- Codes ----

km_helper(«codes_of», «km_inline(«int8x16_t», «codes_of(vi c0, vi c1, vi c2, vi c3)»)
{
    int16x8_t low = vcombine_s16(vqmovn_s32((int32x4_t)c0), vqmovn_s32((int32x4_t)c1));
    int16x8_t high = vcombine_s16(vqmovn_s32((int32x4_t)c2), vqmovn_s32((int32x4_t)c3));
    return vmaxq_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)), vdupq_n_s8(-127));
}

»)
km_define(«store_i8», «
    vst1q_s8(to, codes_of(c0, c1, c2, c3));
»)
km_define(«store_i4», «
    uint16x8_t pair = vreinterpretq_u16_s8(vandq_s8(codes_of(c0, c1, c2, c3), vdupq_n_s8(15)));
    vst1_u8(to, vmovn_u16(vorrq_u16(pair, vshrq_n_u16(pair, 4))));
»)
m4_define(«_km_largest_of_four», «
    return (vi){(int32_t)$1(($2)a), (int32_t)$1(($2)b), (int32_t)$1(($2)c), (int32_t)$1(($2)d)};
»)
km_define(«larger_u16», «
    return (vi)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
»)
km_define(«larger_u32», «
    return (vi)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
»)
km_define(«largest_u16», «_km_largest_of_four(«vmaxvq_u16», «uint16x8_t»)»)
km_define(«largest_u32», «_km_largest_of_four(«vmaxvq_u32», «uint32x4_t»)»)
km_define(«add_products», «
    int16x8_t low = vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8((uint8x16_t)a))),
        vmovl_s8(vget_low_s8((int8x16_t)b)));
    int16x8_t high = vmulq_s16(vreinterpretq_s16_u16(vmovl_high_u8((uint8x16_t)a)), vmovl_high_s8((int8x16_t)b));
    return sum + (vi)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
»)
km_define(«turn_bytes», «
    const uint8x16_t turn = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return (vi)vqtbl1q_u8((uint8x16_t)x, turn);
»)
m4_define(«_km_four_bytes_at», «(int32_t)*(const kvmill_word4 *)$1»)
km_define(«load_four», «
    return (vi){_km_four_bytes_at(«a»), _km_four_bytes_at(«b»), _km_four_bytes_at(«c»), _km_four_bytes_at(«d»)};
»)
km_define(«side_by_side», «
    return turn_bytes(x);
»)
m4_dnl _km_zip_pairs(FROM) -- interleaves the pairs of bytes of ab and cd into the vectors from x[FROM] on.
m4_define(«_km_zip_pairs», «    x[$1] = (vf)vzip1q_u16((uint16x8_t)ab, (uint16x8_t)cd);
    x[m4_eval($1 + 1)] = (vf)vzip2q_u16((uint16x8_t)ab, (uint16x8_t)cd);
»)
km_define(«rows_side_by_side», «
    uint8x16_t r[] = {km_for_words(«P», «a, b, c, d», «vld1q_u8(P), »)};
    uint8x16_t ab = vzip1q_u8(r[0], r[1]), cd = vzip1q_u8(r[2], r[3]);
_km_zip_pairs(0)    ab = vzip2q_u8(r[0], r[1]), cd = vzip2q_u8(r[2], r[3]);
_km_zip_pairs(2)»)
km_define(«halves_side_by_side», «
    uint8x16_t r[] = {km_for_words(«P», «a, b, c, d», «vcombine_u8(vld1_u8(P), vcreate_u8(0)), »)};
    uint8x16_t ab = vzip1q_u8(r[0], r[1]), cd = vzip1q_u8(r[2], r[3]);
_km_zip_pairs(0)»)
m4_divert(0)m4_dnl
