m4_divert(-1)
m4_dnl avx512.m4 -- 64-byte vectors.  The features of km_target are those the runtime tests for.
m4_define(«km_isa», «avx512»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq»)
m4_define(«km_headers», «#include <immintrin.h>»)

m4_define(«km_widths», «64, 32, 16, 8, 4, 2, 1»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  Assembly, because intrinsics cost
m4_dnl the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «64»)
m4_define(«km_stream_64», «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)($1)) : "v"(*(const kvmill_word64 *)($2)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_dnl 0xD8: bits of the third operand choose the second (1) or the first (0).
m4_define(«km_join_widths», «64, 8, 1»)
m4_define(«km_join_64», «_mm512_storeu_si512($1, _mm512_ternarylogic_epi32(_mm512_srli_epi16(_mm512_loadu_si512($2), 4), _mm512_slli_epi16(_mm512_loadu_si512(($2) + 1), 4), _mm512_set1_epi8((char)0xf0), 0xD8))»)

m4_define(«km_floats», 16)
m4_define(«km_sums», 16)

m4_define(«km_vector_arithmetic», «/* The second where one is NaN.  */
km_inline(«vf», «larger(vf a, vf b)»)
{
    return _mm512_max_ps(a, b);
}

km_inline(«vf», «fraction(vf x)»)
{
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n.  */
km_inline(«vf», «scaled(vf x, vf n)»)
{
    return _mm512_scalef_ps(x, n);
}
»)

m4_define(«km_vector_product», «_km_vector_product(«v»)»)

m4_define(«km_vector_halves», «km_inline(«vf», «from_halves(halves h)»)
{
    return _mm512_cvtph_ps((__m256i)h);
}

km_inline(«halves», «to_halves(vf x)»)
{
    return (halves)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}
»)

m4_define(«km_vector_load_i8», «km_inline(«vf», «load_i8(const void *from)»)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from)));
}
»)
m4_define(«km_vector_spread_bytes», «/* A byte in each lane; each of half as many bytes in two lanes.  */
km_inline(«vi», «spread(const void *from)»)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128(from));
}

km_inline(«vi», «spread_twice(uint64_t bytes)»)
{
    __m128i x = _mm_cvtsi64_si128((long long)bytes);
    return (vi)_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(x, x));
}
»)
m4_define(«km_vector_widened», «km_inline(«vu», «widened(halves h)»)
{
    return (vu)_mm512_cvtepu16_epi32((__m256i)h);
}
»)

m4_define(«km_vector_reductions», «km_inline(«float», «largest_of(vf x)»)
{
    return _mm512_reduce_max_ps(x);
}

km_inline(«float», «sum_of(vf x)»)
{
    return _mm512_reduce_add_ps(x);
}
»)

m4_dnl Lanes cross only in the last two steps.
m4_define(«km_vector_transpose», «km_inline(«void», «transpose(vf x[LANES])»)
{
    vf y[16];
km_each(«I», 0, 7, 1, «    y[m4_eval(I * 2)] = _mm512_unpacklo_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
    y[m4_eval(I * 2 + 1)] = _mm512_unpackhi_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
»)km_each(«I», 0, 3, 1, «km_each(«J», 0, 1, 1, «    x[m4_eval(I * 4 + J * 2)] = (vf)_mm512_unpacklo_pd((__m512d)y[m4_eval(I * 4 + J)], (__m512d)y[m4_eval(I * 4 + J + 2)]);
    x[m4_eval(I * 4 + J * 2 + 1)] = (vf)_mm512_unpackhi_pd((__m512d)y[m4_eval(I * 4 + J)], (__m512d)y[m4_eval(I * 4 + J + 2)]);
»)»)km_each(«I», 0, 1, 1, «km_each(«J», 0, 3, 1, «    y[m4_eval(I * 8 + J)] = _mm512_shuffle_f32x4(x[m4_eval(I * 8 + J)], x[m4_eval(I * 8 + J + 4)], 0x88);
    y[m4_eval(I * 8 + J + 4)] = _mm512_shuffle_f32x4(x[m4_eval(I * 8 + J)], x[m4_eval(I * 8 + J + 4)], 0xdd);
»)»)km_each(«J», 0, 7, 1, «    x[J] = _mm512_shuffle_f32x4(y[J], y[m4_eval(J + 8)], 0x88);
    x[m4_eval(J + 8)] = _mm512_shuffle_f32x4(y[J], y[m4_eval(J + 8)], 0xdd);
»)}
»)

m4_define(«km_vector_lanes», «/* Lanes where x is not below `least`.  */
km_inline(«uint32_t», «lanes_from(vi x, vi least)»)
{
    return _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least);
}

»)
m4_define(«km_vector_smaller», «/* The second where one is NaN.  */
km_inline(«vf», «smaller(vf a, vf b)»)
{
    return _mm512_min_ps(a, b);
}

»)
m4_define(«km_vector_masks», «km_vector_lanes«»m4_dnl
/* One more in these lanes.  */
km_inline(«vi», «counted(vi sum, vi x, vi least)»)
{
    return (vi)_mm512_mask_sub_epi32((__m512i)sum, _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least), (__m512i)sum, _mm512_set1_epi32(-1));
}

/* Those lanes, one behind the other.  */
km_inline(«vi», «packed(vi x, uint32_t lanes)»)
{
    return (vi)_mm512_maskz_compress_epi32((__mmask16)lanes, (__m512i)x);
}

km_inline(«void», «store_some_words(int32_t *to, vi x, int count)»)
{
    _mm512_mask_storeu_epi32(to, (__mmask16)((1U << count) - 1), (__m512i)x);
}
»)

m4_define(«km_vector_repeat», «km_inline(«vf», «repeat(const float *from)»)
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(from));
}
»)

m4_define(«km_vector_store_quads», «km_inline(«void», «store_quads(float *to, int64_t step, vf x)»)
{
km_each(«Q», 0, 3, 1, «    _mm_storeu_ps(to + Q * step, _mm512_extractf32x4_ps(x, Q));
»)}
»)

m4_dnl ---- Rows of 16 elements at a time: the words of lib/lanes.m4, and more for small integers ----

m4_define(«km_row_lanes», 16)
m4_define(«km_row_vector_bytes», 64)
m4_define(«km_row_code_vectors», 4)
m4_define(«km_row_steps», 96)

m4_define(«km_row_types», «typedef __m512 lanes;
typedef __m512i bits;

»)

m4_define(«km_row_load_f32», «km_inline(«lanes», «load_f32(const unsigned char *from)»)
{
    return _mm512_loadu_ps((const float *)from);
}

»)
m4_define(«km_row_load_f16», «km_inline(«lanes», «load_f16(const unsigned char *from)»)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

»)
m4_define(«km_row_load_bf16», «km_use(«value_bf16»)km_inline(«lanes», «load_bf16(const unsigned char *from)»)
{
    return value_bf16(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)));
}

»)
m4_define(«km_row_half», «km_inline(«__m256i», «half_of(lanes v)»)
{
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}

»)
m4_define(«km_row_single_f16», «km_inline(«float», «single_f16(const unsigned char *from)»)
{
    return _cvtsh_ss(*(const kvmill_word2 *)from);
}

km_inline(«void», «put_f16(unsigned char *to, float v)»)
{
    *(kvmill_word2 *)to = _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT);
}

»)
m4_dnl In the upper halves of words; what is not a number stays quiet.
m4_define(«km_row_brain», «km_inline(«bits», «brain_above(lanes v)»)
{
    __m512i u = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
}

km_inline(«__m256i», «brain_of(lanes v)»)
{
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(brain_above(v), 16));
}

»)

m4_define(«km_row_store_f32», «km_inline(«void», «store_f32(unsigned char *to, lanes v)»)
{
    _mm512_storeu_ps((float *)to, v);
}

»)
m4_define(«km_row_store_f16», «km_use(«half»)km_inline(«void», «store_f16(unsigned char *to, lanes v)»)
{
    _mm256_storeu_si256((__m256i *)to, half_of(v));
}

»)
m4_define(«km_row_store_bf16», «km_use(«brain»)km_inline(«void», «store_bf16(unsigned char *to, lanes v)»)
{
    _mm256_storeu_si256((__m256i *)to, brain_of(v));
}

»)
m4_define(«km_row_around_f32», «km_inline(«void», «around_f32(unsigned char *to, lanes v)»)
{
    _mm512_stream_ps((float *)to, v);
}

»)
m4_define(«km_row_around_f16», «km_use(«half»)km_inline(«void», «around_f16(unsigned char *to, lanes v)»)
{
    _mm256_stream_si256((__m256i *)to, half_of(v));
}

»)
m4_define(«km_row_around_bf16», «km_use(«brain»)km_inline(«void», «around_bf16(unsigned char *to, lanes v)»)
{
    _mm256_stream_si256((__m256i *)to, brain_of(v));
}

»)

m4_dnl What was kept is read from memory again, which broadcasts at no cost; registers would be shuffled.
m4_define(«km_row_floats», «km_inline(«lanes», «all(const float *p)»)
{
    return _mm512_set1_ps(*p);
}

km_inline(«lanes», «each(const float *p)»)
{
    return _mm512_loadu_ps(p);
}

km_inline(«void», «keep(float *p, lanes v)»)
{
    _mm512_storeu_ps(p, v);
    __asm__("" : "+m"(*(kvmill_word64 *)p));
}

»)
m4_dnl pairs(p) -- the number at p for the lower half of the lanes, the next for the upper.
m4_define(«km_row_pairs», «km_inline(«lanes», «pairs(const float *p)»)
{
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(p[0]), 0xff00, _mm_load_ss(p + 1));
}

»)
m4_define(«km_row_each_bits», «km_inline(«bits», «each_bits(const int32_t *p)»)
{
    return _mm512_loadu_si512((const __m512i *)p);
}

»)
m4_define(«km_row_keep_bits», «km_inline(«void», «keep_bits(int32_t *p, bits b)»)
{
    _mm512_storeu_si512((__m512i *)p, b);
}

»)

m4_define(«km_row_value_f32», «km_inline(«lanes», «value_f32(bits b)»)
{
    return _mm512_castsi512_ps(b);
}

»)
m4_define(«km_row_value_f16», «km_inline(«lanes», «value_f16(bits b)»)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(b));
}

»)
m4_define(«km_row_value_bf16», «km_inline(«lanes», «value_bf16(bits b)»)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(b, 16));
}

»)
m4_define(«km_row_round_f16», «km_use(«half»)km_inline(«lanes», «round_f16(lanes v)»)
{
    return _mm512_cvtph_ps(half_of(v));
}

»)
m4_define(«km_row_round_bf16», «km_use(«brain»)km_inline(«lanes», «round_bf16(lanes v)»)
{
    return _mm512_castsi512_ps(_mm512_and_si512(brain_above(v), _mm512_set1_epi32((int)0xffff0000)));
}

»)

m4_define(«km_row_any_from», «km_inline(«int», «any_from(bits b, int32_t least)»)
{
    return _mm512_cmpge_epi32_mask(b, _mm512_set1_epi32(least));
}

»)
m4_dnl The second operand, when one is not a number.
m4_define(«km_row_at_least», «km_inline(«lanes», «at_least(lanes v, float least)»)
{
    return _mm512_max_ps(_mm512_set1_ps(least), v);
}

»)

m4_dnl The quotients themselves, to the last bit, at a fraction of what a division takes.  Correcting the
m4_dnl product with the inverse by its exact remainder gives the nearest float, if the product is off by no
m4_dnl more than one unit in the last place and the inverse is correctly rounded (Markstein); a first
m4_dnl correction brings it there.  Scales are 1e-5 and more: nothing that gives another code than 0 is
m4_dnl subnormal.  Shorter types have so few operands that all pairs could be tried: none needs a correction.
m4_define(«km_row_corrected», «km_inline(«lanes», «corrected(lanes q, lanes x, lanes s, lanes inverse)»)
{
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(q, s, x), inverse, q);
}

»)
m4_define(«km_row_quotient_f32», «km_use(«corrected»)km_inline(«lanes», «quotient_f32(lanes x, lanes s, lanes inverse)»)
{
    return corrected(corrected(_mm512_mul_ps(x, inverse), x, s, inverse), x, s, inverse);
}

»)
m4_define(«_km_row_quotient», «km_inline(«lanes», «quotient_$1(lanes x, lanes s, lanes inverse)»)
{
    lanes q = _mm512_mul_ps(x, inverse);
    lanes power = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(q), _mm512_set1_epi32(0x7f800000))), more = _mm512_set1_ps($2);
    (void)s;
    return _mm512_fnmadd_ps(power, more, _mm512_fmadd_ps(power, more, q));
}

»)

m4_define(«km_row_nearest», «km_inline(«bits», «nearest(lanes v)»)
{
    return _mm512_cvtps_epi32(v);
}

»)
m4_dnl Just below one half: 0.5 minus its last place.
m4_define(«km_row_outwards», «km_inline(«bits», «outwards(lanes v)»)
{
    lanes half = _mm512_castsi512_ps(_mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int)0x80000000)), _mm512_set1_epi32(0x3effffff)));
    return _mm512_cvttps_epi32(_mm512_add_ps(v, half));
}

»)
m4_define(«km_row_whole», «km_inline(«bits», «whole(lanes v)»)
{
    return _mm512_cvttps_epi32(v);
}

»)
m4_dnl Compilers contract products and sums, of intrinsics too, if they see both.
m4_define(«km_row_product», «km_inline(«lanes», «product(lanes x, lanes y)»)
{
    lanes v = _mm512_mul_ps(x, y);
    __asm__("" : "+v"(v));
    return v;
}

»)
m4_define(«km_row_at_most», «km_inline(«bits», «at_most(bits b, int32_t most)»)
{
    return _mm512_min_epi32(b, _mm512_set1_epi32(most));
}

»)

m4_dnl Four vectors with 16 bytes of each in every lane of 16 bytes, put in order.
m4_define(«km_row_in_order», «km_inline(«bits», «in_order(bits b)»)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), b);
}

»)
m4_define(«km_row_codes», «km_use(«in_order»)km_inline(«bits», «codes_of(bits c0, bits c1, bits c2, bits c3, int most)»)
{
    bits c = _mm512_packs_epi16(_mm512_packs_epi32(c0, c1), _mm512_packs_epi32(c2, c3));
    c = _mm512_max_epi8(_mm512_min_epi8(c, _mm512_set1_epi8((char)most)), _mm512_set1_epi8((char)-most));
    return in_order(c);
}

»)
m4_dnl Bytes 2i and 2i + 1 to one: the first + 16 * the second.
m4_define(«km_row_nibbles», «km_inline(«__m256i», «nibbles_of(bits c)»)
{
    bits b = _mm512_maddubs_epi16(_mm512_and_si512(c, _mm512_set1_epi8(0x0f)), _mm512_set1_epi16(0x1001));
    return _mm512_cvtepi16_epi8(b);
}

»)
m4_define(«km_row_store_i8», «km_use(«codes»)km_inline(«void», «store_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm512_storeu_si512(to, codes_of(c0, c1, c2, c3, 127));
}

»)
m4_define(«km_row_store_i4», «km_use(«codes», «nibbles»)km_inline(«void», «store_i4(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm256_storeu_si256((__m256i *)to, nibbles_of(codes_of(c0, c1, c2, c3, 7)));
}

»)
m4_define(«km_row_around_i8», «km_use(«codes»)km_inline(«void», «around_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm512_stream_si512((__m512i *)to, codes_of(c0, c1, c2, c3, 127));
}

»)
m4_define(«km_row_around_i4», «km_use(«codes», «nibbles»)km_inline(«void», «around_i4(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm256_stream_si256((__m256i *)to, nibbles_of(codes_of(c0, c1, c2, c3, 7)));
}

»)
m4_define(«km_row_store_bytes», «km_inline(«void», «store_bytes(unsigned char *to, bits b)»)
{
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(b));
}

»)

m4_define(«km_row_floats_of», «km_inline(«lanes», «floats_of(__m128i codes)»)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
}

»)
m4_define(«km_row_codes_i8», «km_use(«floats_of»)km_inline(«lanes», «codes_i8(const unsigned char *from)»)
{
    return floats_of(_mm_loadu_si128((const __m128i *)from));
}

»)
m4_define(«km_row_codes_i4», «km_use(«floats_of»)km_inline(«lanes», «codes_i4(const unsigned char *from, int64_t i)»)
{
    __m128i b = _mm_loadl_epi64((const __m128i *)(from + i / 2)), low = _mm_set1_epi8(0x0f), sign = _mm_set1_epi8(8);
    __m128i c = _mm_unpacklo_epi8(_mm_and_si128(b, low), _mm_and_si128(_mm_srli_epi16(b, 4), low));
    return floats_of(_mm_sub_epi8(_mm_xor_si128(c, sign), sign));
}

»)
m4_define(«km_row_codes_low», «km_use(«floats_of»)km_inline(«lanes», «codes_low(const unsigned char *from)»)
{
    __m128i b = _mm_loadu_si128((const __m128i *)from);
    return floats_of(_mm_sub_epi8(_mm_and_si128(b, _mm_set1_epi8(0x0f)), _mm_set1_epi8(8)));
}

»)
m4_define(«km_row_codes_high», «km_use(«floats_of»)km_inline(«lanes», «codes_high(const unsigned char *from)»)
{
    __m128i b = _mm_loadu_si128((const __m128i *)from);
    return floats_of(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(b, 4), _mm_set1_epi8(0x0f)), _mm_set1_epi8(8)));
}

»)

m4_dnl ---- Largest magnitudes, compared as integers: infinity is above all numbers, and what is not a
m4_dnl number above infinity.  u16, u32: the size of an element ----

m4_dnl magnitude(from), larger(a, b), nothing ().
m4_define(«_km_row_magnitudes», «km_inline(«bits», «magnitude(const unsigned char *from)»)
{
    return _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi$1($2));
}

km_inline(«bits», «larger(bits a, bits b)»)
{
    return _mm512_max_epu$1(a, b);
}

km_inline(«bits», «nothing(void)»)
{
    return _mm512_setzero_si512();
}

»)
m4_dnl Of two vectors whose groups span more than a lane of 16 bytes: half as many lanes for each.
m4_define(«_km_row_fold», «km_inline(«bits», «fold(bits a, bits b)»)
{
    return larger(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

»)
m4_dnl Of four vectors with a group in every lane of 16 bytes: the largest element of each, as words.
m4_define(«_km_row_largest», «km_use(«in_order»)km_inline(«bits», «halves(bits a, bits b)»)
{
    return larger(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

km_inline(«bits», «quarters(bits a, bits b)»)
{
    __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return larger(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
}

km_inline(«bits», «largest(bits a, bits b, bits c, bits d)»)
{
    bits m = quarters(halves(a, b), halves(c, d));
$1    return in_order(m);
}

»)
m4_define(«km_row_magnitudes_u16», «_km_row_magnitudes(16, 0x7fff)»)
m4_define(«km_row_magnitudes_u32», «_km_row_magnitudes(32, 0x7fffffff)»)
m4_define(«km_row_fold_u16», «_km_row_fold()»)
m4_define(«km_row_fold_u32», «_km_row_fold()»)
m4_define(«km_row_largest_u16», «_km_row_largest(«    m = _mm512_and_si512(larger(m, _mm512_srli_epi32(m, 16)), _mm512_set1_epi32(0xffff));
»)»)
m4_define(«km_row_largest_u32», «_km_row_largest(«»)»)
m4_divert(0)m4_dnl
