m4_divert(-1)
m4_dnl avx2.m4 -- 32-byte vectors.  The features of km_target are those the runtime tests for.
m4_define(«km_isa», «avx2»)
m4_define(«km_target», «avx2,fma,f16c»)
m4_define(«km_headers», «#include <immintrin.h>»)

m4_define(«km_widths», «32, 16, 8, 4, 2, 1»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  Assembly, because intrinsics cost
m4_dnl the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «32»)
m4_define(«km_stream_32», «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)($1)) : "x"(*(const kvmill_word32 *)($2)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_define(«km_join_widths», «32, 8, 1»)
m4_define(«km_join_32», «_mm256_storeu_si256((__m256i *)($1), _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const __m256i *)($2)), 4), _mm256_set1_epi8(0x0f)), _mm256_andnot_si256(_mm256_set1_epi8(0x0f), _mm256_slli_epi16(_mm256_loadu_si256((const __m256i *)(($2) + 1)), 4))))»)

m4_define(«km_floats», 8)
m4_define(«km_sums», 8)

m4_define(«km_vector_arithmetic», «/* The second where one is NaN.  */
km_inline(«vf», «larger(vf a, vf b)»)
{
    return _mm256_max_ps(a, b);
}

km_inline(«vf», «fraction(vf x)»)
{
    x = _mm256_max_ps(_mm256_set1_ps(-150.f), x);
    return x - _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * 2^n, x in [1/2, 2]; 0 where n < -125.  */
km_inline(«vf», «scaled(vf x, vf n)»)
{
    __m256i exponent = _mm256_cvtps_epi32(n);
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
    __m256 gone = _mm256_cmp_ps(n, _mm256_set1_ps(-125.f), _CMP_LT_OQ);
    return _mm256_andnot_ps(gone, _mm256_mul_ps(x, power));
}
»)

m4_define(«km_vector_product», «_km_vector_product(«x»)»)

m4_define(«km_vector_halves», «km_inline(«vf», «from_halves(halves h)»)
{
    return _mm256_cvtph_ps((__m128i)h);
}

km_inline(«halves», «to_halves(vf x)»)
{
    return (halves)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}
»)

m4_define(«km_vector_load_i8», «km_inline(«vf», «load_i8(const void *from)»)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from)));
}
»)
m4_define(«km_vector_spread_bytes», «/* A byte in each lane; each of half as many bytes in two lanes.  */
km_inline(«vi», «spread(const void *from)»)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64(from));
}

km_inline(«vi», «spread_twice(uint64_t bytes)»)
{
    __m128i x = _mm_cvtsi64_si128((long long)bytes);
    return (vi)_mm256_cvtepu8_epi32(_mm_unpacklo_epi8(x, x));
}
»)
m4_define(«km_vector_widened», «km_inline(«vu», «widened(halves h)»)
{
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
}
»)

m4_define(«km_vector_reductions», «km_inline(«float», «largest_of(vf x)»)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

km_inline(«float», «sum_of(vf x)»)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
»)

m4_define(«km_vector_transpose», «km_inline(«void», «transpose(vf x[LANES])»)
{
    vf y[8];
km_each(«I», 0, 3, 1, «    y[m4_eval(I * 2)] = _mm256_unpacklo_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
    y[m4_eval(I * 2 + 1)] = _mm256_unpackhi_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
»)km_each(«I», 0, 1, 1, «km_each(«J», 0, 1, 1, «    x[m4_eval(I * 4 + J * 2)] = _mm256_shuffle_ps(y[m4_eval(I * 4 + J)], y[m4_eval(I * 4 + J + 2)], 0x44);
    x[m4_eval(I * 4 + J * 2 + 1)] = _mm256_shuffle_ps(y[m4_eval(I * 4 + J)], y[m4_eval(I * 4 + J + 2)], 0xee);
»)»)km_each(«I», 0, 3, 1, «    y[I] = _mm256_permute2f128_ps(x[I], x[m4_eval(I + 4)], 0x20);
    y[m4_eval(I + 4)] = _mm256_permute2f128_ps(x[I], x[m4_eval(I + 4)], 0x31);
»)    for (int i = 0; i < 8; i++)
        x[i] = y[i];
}
»)

m4_define(«km_vector_lanes», «/* Lanes where x is not below `least`.  */
km_inline(«uint32_t», «lanes_from(vi x, vi least)»)
{
    return 255 & ~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x));
}

»)
m4_dnl A table tells where lanes go.
m4_define(«_km_packed_lanes», «{ km_each(«L», 0, 7, 1, «km_if($1 >> L & 1, «L, »)»)}»)
m4_define(«km_vector_masks», «/* Numbers of the lanes of a mask.  */
static const uint8_t lanes_of[256][8] = {
km_each(«M», 0, 255, 1, «    _km_packed_lanes(M),
»)};

km_vector_lanes«»m4_dnl
/* One more in these lanes.  */
km_inline(«vi», «counted(vi sum, vi x, vi least)»)
{
    return sum + 1 + (vi)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x);
}

/* Those lanes, one behind the other.  */
km_inline(«vi», «packed(vi x, uint32_t lanes)»)
{
    return (vi)_mm256_permutevar8x32_epi32((__m256i)x, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)lanes_of[lanes])));
}

km_inline(«void», «store_some_words(int32_t *to, vi x, int count)»)
{
    const vi lane = { km_lane_list(«L») };
    _mm256_maskstore_epi32(to, (__m256i)(lane < count), (__m256i)x);
}
»)

m4_define(«km_vector_repeat», «km_inline(«vf», «repeat(const float *from)»)
{
    return _mm256_broadcast_ps((const __m128 *)from);
}
»)

m4_define(«km_vector_store_quads», «km_inline(«void», «store_quads(float *to, int64_t step, vf x)»)
{
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
    _mm_storeu_ps(to + step, _mm256_extractf128_ps(x, 1));
}
»)

m4_dnl ---- Rows of 8 elements at a time: the words of lib/lanes.m4, and more for small integers ----

m4_define(«km_row_lanes», 8)
m4_define(«km_row_vector_bytes», 32)
m4_define(«km_row_code_vectors», 4)
m4_define(«km_row_steps», 96)

m4_define(«km_row_types», «typedef __m256 lanes;
typedef __m256i bits;

»)

m4_define(«km_row_load_f32», «km_inline(«lanes», «load_f32(const unsigned char *from)»)
{
    return _mm256_loadu_ps((const float *)from);
}

»)
m4_define(«km_row_load_f16», «km_inline(«lanes», «load_f16(const unsigned char *from)»)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

»)
m4_define(«km_row_load_bf16», «km_use(«value_bf16»)km_inline(«lanes», «load_bf16(const unsigned char *from)»)
{
    return value_bf16(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)));
}

»)
m4_define(«km_row_half», «km_inline(«__m128i», «half_of(lanes v)»)
{
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
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
m4_define(«km_row_brain», «km_use(«words»)km_inline(«bits», «brain_above(lanes v)»)
{
    __m256i u = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)));
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}

km_inline(«__m128i», «brain_of(lanes v)»)
{
    return words_of(_mm256_srli_epi32(brain_above(v), 16));
}

»)
m4_dnl words_of(b) -- the lower halves of words below 2^16.
m4_define(«km_row_words», «km_inline(«__m128i», «words_of(__m256i b)»)
{
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(b, b), 0x08));
}

»)

m4_define(«km_row_store_f32», «km_inline(«void», «store_f32(unsigned char *to, lanes v)»)
{
    _mm256_storeu_ps((float *)to, v);
}

»)
m4_define(«km_row_store_f16», «km_use(«half»)km_inline(«void», «store_f16(unsigned char *to, lanes v)»)
{
    _mm_storeu_si128((__m128i *)to, half_of(v));
}

»)
m4_define(«km_row_store_bf16», «km_use(«brain»)km_inline(«void», «store_bf16(unsigned char *to, lanes v)»)
{
    _mm_storeu_si128((__m128i *)to, brain_of(v));
}

»)
m4_define(«km_row_around_f32», «km_inline(«void», «around_f32(unsigned char *to, lanes v)»)
{
    _mm256_stream_ps((float *)to, v);
}

»)
m4_define(«km_row_around_f16», «km_use(«half»)km_inline(«void», «around_f16(unsigned char *to, lanes v)»)
{
    _mm_stream_si128((__m128i *)to, half_of(v));
}

»)
m4_define(«km_row_around_bf16», «km_use(«brain»)km_inline(«void», «around_bf16(unsigned char *to, lanes v)»)
{
    _mm_stream_si128((__m128i *)to, brain_of(v));
}

»)

m4_dnl What was kept is read from memory again, which broadcasts at no cost; registers would be shuffled.
m4_define(«km_row_floats», «km_inline(«lanes», «all(const float *p)»)
{
    return _mm256_set1_ps(*p);
}

km_inline(«lanes», «each(const float *p)»)
{
    return _mm256_loadu_ps(p);
}

km_inline(«void», «keep(float *p, lanes v)»)
{
    _mm256_storeu_ps(p, v);
    __asm__("" : "+m"(*(kvmill_word32 *)p));
}

»)
m4_define(«km_row_each_bits», «km_inline(«bits», «each_bits(const int32_t *p)»)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

»)
m4_define(«km_row_keep_bits», «km_inline(«void», «keep_bits(int32_t *p, bits b)»)
{
    _mm256_storeu_si256((__m256i *)p, b);
}

»)

m4_define(«km_row_value_f32», «km_inline(«lanes», «value_f32(bits b)»)
{
    return _mm256_castsi256_ps(b);
}

»)
m4_define(«km_row_value_f16», «km_use(«words»)km_inline(«lanes», «value_f16(bits b)»)
{
    return _mm256_cvtph_ps(words_of(b));
}

»)
m4_define(«km_row_value_bf16», «km_inline(«lanes», «value_bf16(bits b)»)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
}

»)
m4_define(«km_row_round_f16», «km_use(«half»)km_inline(«lanes», «round_f16(lanes v)»)
{
    return _mm256_cvtph_ps(half_of(v));
}

»)
m4_define(«km_row_round_bf16», «km_use(«brain»)km_inline(«lanes», «round_bf16(lanes v)»)
{
    return _mm256_castsi256_ps(_mm256_and_si256(brain_above(v), _mm256_set1_epi32((int)0xffff0000)));
}

»)

m4_define(«km_row_any_from», «km_inline(«int», «any_from(bits b, int32_t least)»)
{
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(b, _mm256_set1_epi32(least - 1)));
}

»)
m4_dnl The second operand, when one is not a number.
m4_define(«km_row_at_least», «km_inline(«lanes», «at_least(lanes v, float least)»)
{
    return _mm256_max_ps(_mm256_set1_ps(least), v);
}

»)

m4_dnl The quotients themselves, to the last bit, at a fraction of what a division takes.  Correcting the
m4_dnl product with the inverse by its exact remainder gives the nearest float, if the product is off by no
m4_dnl more than one unit in the last place and the inverse is correctly rounded (Markstein); a first
m4_dnl correction brings it there.  Scales are 1e-5 and more: nothing that gives another code than 0 is
m4_dnl subnormal.  Shorter types have so few operands that all pairs could be tried: none needs a correction.
m4_define(«km_row_corrected», «km_inline(«lanes», «corrected(lanes q, lanes x, lanes s, lanes inverse)»)
{
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, s, x), inverse, q);
}

»)
m4_define(«km_row_quotient_f32», «km_use(«corrected»)km_inline(«lanes», «quotient_f32(lanes x, lanes s, lanes inverse)»)
{
    return corrected(corrected(_mm256_mul_ps(x, inverse), x, s, inverse), x, s, inverse);
}

»)
m4_define(«_km_row_quotient», «km_inline(«lanes», «quotient_$1(lanes x, lanes s, lanes inverse)»)
{
    lanes q = _mm256_mul_ps(x, inverse);
    lanes power = _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(q), _mm256_set1_epi32(0x7f800000))), more = _mm256_set1_ps($2);
    (void)s;
    return _mm256_fnmadd_ps(power, more, _mm256_fmadd_ps(power, more, q));
}

»)

m4_define(«km_row_nearest», «km_inline(«bits», «nearest(lanes v)»)
{
    return _mm256_cvtps_epi32(v);
}

»)
m4_dnl Just below one half: 0.5 minus its last place.
m4_define(«km_row_outwards», «km_inline(«bits», «outwards(lanes v)»)
{
    lanes half = _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32((int)0x80000000)), _mm256_set1_epi32(0x3effffff)));
    return _mm256_cvttps_epi32(_mm256_add_ps(v, half));
}

»)
m4_define(«km_row_whole», «km_inline(«bits», «whole(lanes v)»)
{
    return _mm256_cvttps_epi32(v);
}

»)
m4_dnl Compilers contract products and sums, of intrinsics too, if they see both.
m4_define(«km_row_product», «km_inline(«lanes», «product(lanes x, lanes y)»)
{
    lanes v = _mm256_mul_ps(x, y);
    __asm__("" : "+x"(v));
    return v;
}

»)
m4_define(«km_row_at_most», «km_inline(«bits», «at_most(bits b, int32_t most)»)
{
    return _mm256_min_epi32(b, _mm256_set1_epi32(most));
}

»)

m4_dnl Four vectors with 16 bytes of each in every lane of 16 bytes, put in order.
m4_define(«km_row_in_order», «km_inline(«bits», «in_order(bits b)»)
{
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

»)
m4_define(«km_row_codes», «km_use(«in_order»)km_inline(«bits», «codes_of(bits c0, bits c1, bits c2, bits c3, int most)»)
{
    bits c = _mm256_packs_epi16(_mm256_packs_epi32(c0, c1), _mm256_packs_epi32(c2, c3));
    c = _mm256_max_epi8(_mm256_min_epi8(c, _mm256_set1_epi8((char)most)), _mm256_set1_epi8((char)-most));
    return in_order(c);
}

»)
m4_dnl Bytes 2i and 2i + 1 to one: the first + 16 * the second.
m4_define(«km_row_nibbles», «km_inline(«__m128i», «nibbles_of(bits c)»)
{
    bits b = _mm256_maddubs_epi16(_mm256_and_si256(c, _mm256_set1_epi8(0x0f)), _mm256_set1_epi16(0x1001));
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(b, b), 0x08));
}

»)
m4_define(«km_row_store_i8», «km_use(«codes»)km_inline(«void», «store_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm256_storeu_si256((__m256i *)to, codes_of(c0, c1, c2, c3, 127));
}

»)
m4_define(«km_row_store_i4», «km_use(«codes», «nibbles»)km_inline(«void», «store_i4(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm_storeu_si128((__m128i *)to, nibbles_of(codes_of(c0, c1, c2, c3, 7)));
}

»)
m4_define(«km_row_around_i8», «km_use(«codes»)km_inline(«void», «around_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm256_stream_si256((__m256i *)to, codes_of(c0, c1, c2, c3, 127));
}

»)
m4_define(«km_row_around_i4», «km_use(«codes», «nibbles»)km_inline(«void», «around_i4(unsigned char *to, bits c0, bits c1, bits c2, bits c3)»)
{
    _mm_stream_si128((__m128i *)to, nibbles_of(codes_of(c0, c1, c2, c3, 7)));
}

»)
m4_define(«km_row_store_bytes», «km_use(«words»)km_inline(«void», «store_bytes(unsigned char *to, bits b)»)
{
    __m128i w = words_of(_mm256_and_si256(b, _mm256_set1_epi32(0xff)));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(w, w));
}

»)

m4_define(«km_row_floats_of», «km_inline(«lanes», «floats_of(__m128i codes)»)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
}

»)
m4_define(«km_row_codes_i8», «km_use(«floats_of»)km_inline(«lanes», «codes_i8(const unsigned char *from)»)
{
    return floats_of(_mm_loadl_epi64((const __m128i *)from));
}

»)
m4_define(«km_row_codes_i4», «km_use(«floats_of»)km_inline(«lanes», «codes_i4(const unsigned char *from, int64_t i)»)
{
    __m128i b = _mm_cvtsi32_si128((int)*(const kvmill_word4 *)(from + i / 2)), low = _mm_set1_epi8(0x0f), sign = _mm_set1_epi8(8);
    __m128i c = _mm_unpacklo_epi8(_mm_and_si128(b, low), _mm_and_si128(_mm_srli_epi16(b, 4), low));
    return floats_of(_mm_sub_epi8(_mm_xor_si128(c, sign), sign));
}

»)
m4_define(«km_row_codes_low», «km_use(«floats_of»)km_inline(«lanes», «codes_low(const unsigned char *from)»)
{
    __m128i b = _mm_loadl_epi64((const __m128i *)from);
    return floats_of(_mm_sub_epi8(_mm_and_si128(b, _mm_set1_epi8(0x0f)), _mm_set1_epi8(8)));
}

»)
m4_define(«km_row_codes_high», «km_use(«floats_of»)km_inline(«lanes», «codes_high(const unsigned char *from)»)
{
    __m128i b = _mm_loadl_epi64((const __m128i *)from);
    return floats_of(_mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(b, 4), _mm_set1_epi8(0x0f)), _mm_set1_epi8(8)));
}

»)

m4_dnl ---- Largest magnitudes, compared as integers: infinity is above all numbers, and what is not a
m4_dnl number above infinity.  u16, u32: the size of an element ----

m4_dnl magnitude(from), larger(a, b), nothing ().
m4_define(«_km_row_magnitudes», «km_inline(«bits», «magnitude(const unsigned char *from)»)
{
    return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)from), _mm256_set1_epi$1($2));
}

km_inline(«bits», «larger(bits a, bits b)»)
{
    return _mm256_max_epu$1(a, b);
}

km_inline(«bits», «nothing(void)»)
{
    return _mm256_setzero_si256();
}

»)
m4_dnl Of two vectors whose groups span more than a lane of 16 bytes: half as many lanes for each.
m4_define(«_km_row_fold», «km_inline(«bits», «fold(bits a, bits b)»)
{
    return larger(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

»)
m4_dnl Of four vectors with a group in every lane of 16 bytes: the largest element of each, as words.
m4_define(«_km_row_largest», «km_use(«in_order»)km_inline(«bits», «halves(bits a, bits b)»)
{
    return larger(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

km_inline(«bits», «quarters(bits a, bits b)»)
{
    __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    return larger(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)), _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd)));
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
m4_define(«km_row_largest_u16», «_km_row_largest(«    m = _mm256_and_si256(larger(m, _mm256_srli_epi32(m, 16)), _mm256_set1_epi32(0xffff));
»)»)
m4_define(«km_row_largest_u32», «_km_row_largest(«»)»)
m4_divert(0)m4_dnl
