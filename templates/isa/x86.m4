m4_dnl x86.m4 -- shared by the instruction sets for x86-64.  Each of them defines km_bits, the number of bits of a
m4_dnl vector.
m4_define(«km_headers», «#include <immintrin.h>»)
m4_define(«km_lanes», «m4_eval(km_bits / 32)»)
m4_define(«km_peak_bytes», «m4_eval(km_bits / 8)»)
m4_define(«km_steps_unrolled», 96)
m4_define(«km_late_addresses», «#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-gcse", "no-tree-pre")
#endif

»)

m4_dnl km_v(OP) -- the intrinsic for whole vectors; km_half(OP) -- for vectors of half the size, which each instruction
m4_dnl set defines.  km_vi, km_half_vi -- the types of integer vectors.
m4_define(«km_v», «_mm«»km_bits«»_$1»)
m4_define(«km_vi», «__m«»km_bits«»i»)
m4_define(«km_half_bits», «m4_eval(km_bits / 2)»)
m4_define(«km_half_vi», «__m«»km_half_bits«»i»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  This is inline assembly because the header of
m4_dnl the intrinsics costs the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «km_peak_bytes»)
m4_define(«km_stream_by»,
    «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word$1 *)($2)) : "km_register"(*(const kvmill_word$1 *)($3)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_dnl ---- Elements ----

m4_dnl km_load_quarter(FROM) -- a byte for each lane.
km_define(«load_i8», «
    return km_v(cvtepi32_ps)(km_v(cvtepi8_epi32)(km_load_quarter(from)));
»)
km_define(«load_s8», «
    return (vi)km_v(cvtepi8_epi32)(km_load_quarter(from));
»)
km_define(«load_u8», «
    return (vi)km_v(cvtepu8_epi32)(km_load_quarter(from));
»)
km_define(«load_table», «
    __m128i places = _mm_srl_epi16(km_load_quarter(from), _mm_cvtsi32_si128(shift));
    __m128i numbers = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)table),
        _mm_and_si128(places, _mm_set1_epi8(15)));
    return km_v(cvtepi32_ps)(km_v(cvtepi8_epi32)(numbers));
»)
km_define(«twice», «
    __m128i x = _mm_cvtsi64_si128((long long)bytes);
    return (vi)km_v(cvtepu8_epi32)(_mm_unpacklo_epi8(x, x));
»)
km_define(«widened», «
    return (vu)km_v(cvtepu16_epi32)((km_half_vi)h);
»)
km_define(«from_halves», «
    return km_v(cvtph_ps)((km_half_vi)h);
»)
km_define(«to_halves», «
    return (halves)km_v(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT);
»)
km_define(«load_one_f16», «
    return _cvtsh_ss(*(const kvmill_word2 *)from);
»)
km_define(«store_one_f16», «
    *(kvmill_word2 *)to = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
»)
m4_dnl brain_above(x) -- bfloat16 in the upper halves of words; NaN stays quiet.
km_define(«to_brains», «
    return narrowed((vi)km_v(srli_epi32)(brain_above(x), 16));
»)
km_define(«round_bf16», «
    return (vf)km_v(and_si«»km_bits)(brain_above(x), km_v(set1_epi32)((int)0xffff0000));
»)
km_define(«store_kept», «
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word«»m4_eval(km_bits / 8) *)to));
»)
km_define(«stream_f32», «
    km_v(stream_ps)((float *)to, x);
»)
km_define(«stream_f16», «
    km_half(stream_si«»km_half_bits)((km_half_vi *)to, (km_half_vi)to_halves(x));
»)
km_define(«stream_bf16», «
    km_half(stream_si«»km_half_bits)((km_half_vi *)to, (km_half_vi)to_brains(x));
»)

m4_dnl ---- Arithmetic ----

km_define(«max_f32», «
    return km_v(max_ps)(a, b);
»)
km_define(«min_f32», «
    return km_v(min_ps)(a, b);
»)
km_define(«at_most», «
    return (vi)km_v(min_epi32)((km_vi)b, km_v(set1_epi32)(most));
»)
km_define(«round_even», «
    return (vi)km_v(cvtps_epi32)(x);
»)
m4_dnl The largest float below 0.5.
km_define(«round_away», «
    vf half = (vf)(((vi)x & INT32_MIN) | 0x3effffff);
    return (vi)km_v(cvttps_epi32)(x + half);
»)
km_define(«truncate», «
    return (vi)km_v(cvttps_epi32)(x);
»)

m4_dnl x * inverse, corrected by its exact remainder, gives the same code as the quotient.  For float16 and bfloat16 the
m4_dnl product alone does: see doc/design/quantising.md and tests/t_quotients.c.
km_define(«code_f32», «
    vf q = x * inverse;
    return round_even(km_v(fmadd_ps)(km_v(fnmadd_ps)(q, s, x), inverse, q));
»)
m4_define(«_km_code_of_product», «
    (void)s;
    vu q = (vu)(x * inverse) + m4_eval(1 << ($1 - 1));
    return round_even((vf)(q & ~m4_eval((1 << $1) - 1)));
»)
km_define(«code_f16», «_km_code_of_product(13)»)
km_define(«code_bf16», «_km_code_of_product(16)»)

m4_dnl ---- Codes ----

m4_dnl in_order(b) -- each 16 bytes of b have 4 bytes of each of four vectors; the result has one vector after the
m4_dnl other.
km_helper(«codes_of», «km_inline(«km_vi», «codes_of(vi c0, vi c1, vi c2, vi c3)»)
{
    km_vi low = km_v(packs_epi32)((km_vi)c0, (km_vi)c1), high = km_v(packs_epi32)((km_vi)c2, (km_vi)c3);
    return in_order(km_v(max_epi8)(km_v(packs_epi16)(low, high), km_v(set1_epi8)(-127)));
}

»)
m4_dnl Bytes 2i and 2i + 1 become one byte: the first + 16 * the second.  low_bytes(b) -- the low byte of each 16 bits.
km_helper(«nibbles_of», «km_inline(«km_half_vi», «nibbles_of(km_vi c)»)
{
    return low_bytes(km_v(maddubs_epi16)(km_v(and_si«»km_bits)(c, km_v(set1_epi8)(0x0f)), km_v(set1_epi16)(0x1001)));
}

»)
km_define(«store_i8», «
    km_v(storeu_si«»km_bits)((km_vi *)to, codes_of(c0, c1, c2, c3));
»)
km_define(«store_i4», «
    km_half(storeu_si«»km_half_bits)((km_half_vi *)to, nibbles_of(codes_of(c0, c1, c2, c3)));
»)
km_define(«stream_i8», «
    km_v(stream_si«»km_bits)((km_vi *)to, codes_of(c0, c1, c2, c3));
»)
km_define(«stream_i4», «
    km_half(stream_si«»km_half_bits)((km_half_vi *)to, nibbles_of(codes_of(c0, c1, c2, c3)));
»)

m4_dnl ---- Pairs ----

m4_dnl The asm statement after each addition keeps compilers from reordering the additions, which would take too many
m4_dnl registers.
km_define(«add_pairs», «
    sum += (vi)km_v(madd_epi16)((km_vi)a, (km_vi)b);
    __asm__("" : "+km_register"(sum));
    return sum;
»)
m4_dnl A product with (1, 0) is one instruction; shifts would be two.
km_define(«even_codes», «
    return (vi)km_v(maddubs_epi16)(km_v(set1_epi16)(1), (km_vi)x);
»)

km_define(«lower_pairs», «
    return (vi)km_v(unpacklo_epi16)((km_vi)a, (km_vi)b);
»)
km_define(«upper_pairs», «
    return (vi)km_v(unpackhi_epi16)((km_vi)a, (km_vi)b);
»)

m4_dnl ---- Interleaving bytes ----

km_define(«turn_bytes», «
    const vi turn = {km_lane_list(«m4_eval(0x0c080400 + L % 4 * 0x01010101)»)};
    return (vi)km_v(shuffle_epi8)((km_vi)x, (km_vi)turn);
»)
m4_define(«_km_unpack_bytes», «m4_dnl
    km_vi ab = km_v(unpacklo_epi8)(r[0], r[1]), cd = km_v(unpacklo_epi8)(r[2], r[3]);
    x[0] = (vf)km_v(unpacklo_epi16)(ab, cd), x[1] = (vf)km_v(unpackhi_epi16)(ab, cd);
    ab = km_v(unpackhi_epi8)(r[0], r[1]), cd = km_v(unpackhi_epi8)(r[2], r[3]);
    x[2] = (vf)km_v(unpacklo_epi16)(ab, cd), x[3] = (vf)km_v(unpackhi_epi16)(ab, cd);
»)
km_define(«rows_side_by_side», «
    km_vi r[] = {km_for_words(«P», «a, b, c, d», «km_v(loadu_si«»km_bits)((const km_vi *)P), »)};
_km_unpack_bytes»)
m4_dnl for_unpacking(b) -- permutes words so that the unpack instructions, which work on each 16 bytes, give them in
m4_dnl order.
km_define(«interleaved», «
    km_vi r[] = {km_for_words(«P», «a, b, c, d», «for_unpacking(km_v(loadu_si«»km_bits)((const km_vi *)P)), »)};
_km_unpack_bytes»)
m4_dnl both_halves(FROM) -- half a vector, loaded into both halves.
m4_dnl low_then_high(a, b) -- interleaves the bytes of a and b: the lower half has those from the lower 8 of each 16
m4_dnl bytes, the upper half has the others.
km_define(«halves_side_by_side», «
    km_vi r[] = {km_for_words(«P», «a, b, c, d», «both_halves(«P»), »)};
    km_vi ab = low_then_high(«r[0]», «r[1]»), cd = low_then_high(«r[2]», «r[3]»);
    x[0] = (vf)km_v(unpacklo_epi16)(ab, cd), x[1] = (vf)km_v(unpackhi_epi16)(ab, cd);
»)

m4_dnl ---- Largest magnitudes; even_pieces(a, b), odd_pieces(a, b): every second piece of 16 bytes of both ----

m4_define(«_km_peaks_by», «km_define(«magnitudes_u$1», «
    return (vi)km_v(and_si«»km_bits)(km_v(loadu_si«»km_bits)((const km_vi *)from), km_v(set1_epi$1)($2));
»)
km_define(«larger_u$1», «
    return (vi)km_v(max_epu$1)((km_vi)a, (km_vi)b);
»)
km_define(«fold_u$1», «
    return larger_u$1(even_pieces(a, b), odd_pieces(a, b));
»)
km_helper(«halved_u$1», «km_inline(«vi», «halved_u$1(vi a, vi b)»)
{
    return larger_u$1((vi)km_v(unpacklo_epi64)((km_vi)a, (km_vi)b), (vi)km_v(unpackhi_epi64)((km_vi)a, (km_vi)b));
}

»)
km_helper(«quartered_u$1», «km_inline(«vi», «quartered_u$1(vi a, vi b)»)
{
    return larger_u$1((vi)km_v(shuffle_ps)((vf)a, (vf)b, 0x88), (vi)km_v(shuffle_ps)((vf)a, (vf)b, 0xdd));
}

»)
km_define(«largest_u$1», «
    vi m = quartered_u$1(halved_u$1(a, b), halved_u$1(c, d));
$3    return (vi)in_order((km_vi)m);
»)»)
_km_peaks_by(16, 0x7fff, «    m = larger_u16(m, (vi)((vu)m >> 16)) & 0xffff;
»)
_km_peaks_by(32, 0x7fffffff, «»)

m4_dnl equal_B(a, b), signs_B(x) -- a bit for each element of B bits.  The first element with the magnitude is the
m4_dnl lowest bit that is set in `equal`.
m4_define(«_km_starts_negative_by», «km_define(«starts_negative_u$1», «
    uint32_t equal = 0, negative = 0;
km_each(«I», 0, 31, km_lanes * 32 / $1, «    {
        km_vi x = km_v(loadu_si«»km_bits)((const km_vi *)((const char *)from + m4_eval(I * $1 / 8)));
        km_vi magnitudes = km_v(and_si«»km_bits)(x, km_v(set1_epi$1)($2));
        equal |= (uint32_t)equal_$1(magnitudes, km_v(set1_epi$1)((int$1_t)magnitude)) << I;
        negative |= (uint32_t)signs_$1(x) << I;
    }
»)m4_dnl
    return (equal & -equal & negative) != 0;
»)»)
_km_starts_negative_by(16, 0x7fff)
_km_starts_negative_by(32, 0x7fffffff)
