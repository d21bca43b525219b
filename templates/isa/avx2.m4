m4_divert(-1)
m4_dnl avx2.m4 -- 32-byte vectors.  The runtime tests for the features in km_target.
m4_define(«km_isa», «avx2»)
m4_define(«km_target», «avx2,fma,f16c»)
m4_define(«km_bits», 256)
m4_define(«km_sums», 8)
m4_define(«km_register», «x»)
km_include(«x86»)

m4_define(«km_widths», «32, 16, 8, 4, 2, 1»)
m4_define(«km_stream_32», «km_stream_by(32, «$1», «$2»)»)
m4_define(«km_join_widths», «32, 8, 1»)
m4_define(«km_join_32», «_mm256_storeu_si256((__m256i *)($1),
    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const __m256i *)($2)), 4),
    _mm256_set1_epi8(0x0f)), _mm256_andnot_si256(_mm256_set1_epi8(0x0f),
    _mm256_slli_epi16(_mm256_loadu_si256((const __m256i *)(($2) + 1)), 4))))»)

m4_define(«km_half», «_mm_$1»)
m4_define(«km_load_quarter», «_mm_loadl_epi64((const __m128i *)$1)»)

m4_dnl ---- Elements ----

km_helper(«brain_above», «km_inline(«__m256i», «brain_above(vf x)»)
{
    __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)));
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet,
        _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

»)
km_define(«narrowed», «
    return (halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)b, (__m256i)b), 0x08));
»)
km_define(«store_low_bytes», «
    __m128i w = (__m128i)narrowed(x & 0xff);
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(w, w));
»)
km_define(«store_some_words», «
    const vi lane = {km_lane_list(«L»)};
    _mm256_maskstore_epi32(to, (__m256i)(lane < count), (__m256i)x);
»)

m4_dnl ---- Arithmetic ----

km_define(«where_negative», «
    return _mm256_blendv_ps(b, a, x);
»)
km_define(«nearest_whole», «
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
»)
km_define(«times_power», «
    vu exponent = (vu)_mm256_cvtps_epi32(n); /* NaN gives 2^31, which the shift removes */
    return (vf)((vu)x + (exponent << 23));
»)

m4_dnl ---- Reductions and masks ----

km_define(«largest_of», «
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
»)
km_define(«sum_of», «
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
»)
km_define(«any_from», «
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32((__m256i)b, _mm256_set1_epi32(least - 1)));
»)
km_define(«is_any_negative», «
    return _mm256_movemask_ps((__m256)b) != 0;
»)
km_define(«lanes_from», «
    return 255 & ~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x));
»)
km_define(«add_lanes_from», «
    return sum + 1 + (vi)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x);
»)
m4_dnl A table says which lane goes where.
m4_define(«_km_packed_lanes», «{ km_each(«L», 0, 7, 1, «km_if($1 >> L & 1, «L, »)»)}»)
km_helper(«numbers_of_lanes», «static const uint8_t numbers_of_lanes[256][8] = {
km_each(«M», 0, 255, 1, «    _km_packed_lanes(M),
»)};

»)
km_define(«pack_lanes», «
    return (vi)_mm256_permutevar8x32_epi32((__m256i)x,
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)numbers_of_lanes[lanes])));
»)

m4_dnl ---- Moving lanes ----

km_define(«load_quad», «
    return _mm256_broadcast_ps((const __m128 *)from);
»)
m4_dnl Loads that broadcast do not use the shuffle port, as an insertion would.
km_define(«load_quads», «
    (void)c, (void)d;
    return _mm256_blend_ps(_mm256_broadcast_ps((const __m128 *)a), _mm256_broadcast_ps((const __m128 *)b), 0xf0);
»)
km_define(«store_quads», «
    _mm_storeu_ps(to, _mm256_castps256_ps128(x));
    _mm_storeu_ps(to + step, _mm256_extractf128_ps(x, 1));
»)
km_define(«transpose», «
    vf y[8];
km_each(«I», 0, 3, 1, «    y[m4_eval(I * 2)] = _mm256_unpacklo_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
    y[m4_eval(I * 2 + 1)] = _mm256_unpackhi_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
»)km_each(«I», 0, 1, 1, «km_each(«J», 0, 1, 1, «    x[m4_eval(I * 4 + J * 2)] = _mm256_shuffle_ps(y[m4_eval(I * 4 + J)],
    y[m4_eval(I * 4 + J + 2)], 0x44);
    x[m4_eval(I * 4 + J * 2 + 1)] = _mm256_shuffle_ps(y[m4_eval(I * 4 + J)], y[m4_eval(I * 4 + J + 2)], 0xee);
»)»)km_each(«I», 0, 3, 1, «    y[I] = _mm256_permute2f128_ps(x[I], x[m4_eval(I + 4)], 0x20);
    y[m4_eval(I + 4)] = _mm256_permute2f128_ps(x[I], x[m4_eval(I + 4)], 0x31);
»)    for (int i = 0; i < 8; i++)
        x[i] = y[i];
»)

m4_dnl ---- Codes ----

km_helper(«in_order», «km_inline(«__m256i», «in_order(__m256i b)»)
{
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

»)
km_helper(«for_unpacking», «km_inline(«__m256i», «for_unpacking(__m256i b)»)
{
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

»)
km_helper(«low_bytes», «km_inline(«__m128i», «low_bytes(__m256i b)»)
{
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi16(b, b), 0x08));
}

»)
km_define(«load_pairs», «
    __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128(a)), y = _mm256_broadcastsi128_si256(_mm_loadu_si128(b));
    return (vi)_mm256_blend_epi32(_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y), 0xf0);
»)
km_define(«packed_words», «
    return (vi)_mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)a, (__m256i)b), 0xd8);
»)
m4_dnl Loads that broadcast, and blends, do not use the shuffle port.
m4_define(«_km_eight_bytes», «_mm256_set1_epi64x((long long)*(const kvmill_word8 *)$1)»)
km_define(«load_four», «
    __m256i x = _mm256_blend_epi32(_km_eight_bytes(a), _km_eight_bytes(b), 0x0c);
    return (vi)_mm256_blend_epi32(x, _mm256_blend_epi32(_km_eight_bytes(c), _km_eight_bytes(d), 0xc0), 0xf0);
»)
km_define(«side_by_side», «
    const __m256i lanes = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    return turn_bytes((vi)_mm256_permutevar8x32_epi32((__m256i)x, lanes));
»)
km_helper(«signs_16», «km_inline(«int», «signs_16(__m256i x)»)
{
    return _mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}

»)
m4_define(«equal_16», «signs_16(_mm256_cmpeq_epi16($1, $2))»)
m4_define(«equal_32», «_mm256_movemask_ps((vf)_mm256_cmpeq_epi32($1, $2))»)
m4_define(«signs_32», «_mm256_movemask_ps((vf)$1)»)
m4_define(«both_halves», «_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)$1))»)
m4_define(«low_then_high», «_mm256_blend_epi32(_mm256_unpacklo_epi8($1, $2), _mm256_unpackhi_epi8($1, $2), 0xf0)»)
m4_define(«even_pieces», «(vi)_mm256_permute2x128_si256((__m256i)$1, (__m256i)$2, 0x20)»)
m4_define(«odd_pieces», «(vi)_mm256_permute2x128_si256((__m256i)$1, (__m256i)$2, 0x31)»)
m4_divert(0)m4_dnl
