m4_divert(-1)
m4_dnl avx512.m4 -- 64-byte vectors.  The runtime tests for the features in km_target.
m4_define(«km_isa», «avx512»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq»)
m4_define(«km_bits», 512)
m4_define(«km_sums», 16)
m4_define(«km_spreads», 1)
m4_define(«km_register», «v»)
km_include(«x86»)

m4_define(«km_widths», «64, 32, 16, 8, 4, 2, 1»)
m4_define(«km_stream_64», «km_stream_by(64, «$1», «$2»)»)
m4_dnl 0xD8: each bit of the third operand chooses the second operand (1) or the first (0).
m4_define(«km_join_widths», «64, 8, 1»)
m4_define(«km_join_64», «_mm512_storeu_si512($1, _mm512_ternarylogic_epi32(_mm512_srli_epi16(_mm512_loadu_si512($2), 4),
    _mm512_slli_epi16(_mm512_loadu_si512(($2) + 1), 4), _mm512_set1_epi8((char)0xf0), 0xD8))»)

m4_define(«km_half», «_mm256_$1»)
m4_define(«km_load_quarter», «_mm_loadu_si128((const __m128i *)$1)»)

m4_dnl ---- Elements ----

km_helper(«brain_above», «km_inline(«__m512i», «brain_above(vf x)»)
{
    __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
}

»)
km_define(«narrowed», «
    return (halves)_mm512_cvtepi32_epi16((__m512i)b);
»)
km_define(«store_low_bytes», «
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)x));
»)
km_define(«store_some_words», «
    _mm512_mask_storeu_epi32(to, (__mmask16)((1U << count) - 1), (__m512i)x);
»)

m4_dnl ---- Arithmetic ----

km_define(«broadcast_pair», «
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(p[0]), 0xff00, _mm_load_ss(p + 1));
»)
km_define(«nearest_whole», «
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
»)
km_define(«times_power», «
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, broadcast(-127.f), _CMP_NLE_UQ), x, n);
»)

m4_dnl ---- Reductions and masks ----

km_define(«largest_of», «
    return _mm512_reduce_max_ps(x);
»)
km_define(«sum_of», «
    return _mm512_reduce_add_ps(x);
»)
km_define(«any_from», «
    return _mm512_cmpge_epi32_mask((__m512i)b, _mm512_set1_epi32(least));
»)
km_define(«is_any_negative», «
    return _mm512_movepi32_mask((__m512i)b) != 0;
»)
km_define(«lanes_from», «
    return _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least);
»)
km_define(«add_lanes_from», «
    return (vi)_mm512_mask_sub_epi32((__m512i)sum, _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least), (__m512i)sum,
        _mm512_set1_epi32(-1));
»)
km_define(«pack_lanes», «
    return (vi)_mm512_maskz_compress_epi32((__mmask16)lanes, (__m512i)x);
»)

m4_dnl ---- Moving lanes ----

km_define(«load_quad», «
    return _mm512_broadcast_f32x4(_mm_loadu_ps(from));
»)
km_define(«load_quads», «
    __m512 x = _mm512_broadcast_f32x4(_mm_loadu_ps(a));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(b));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(c));
    return _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(d));
»)
km_define(«store_quads», «
km_each(«Q», 0, 3, 1, «    _mm_storeu_ps(to + Q * step, _mm512_extractf32x4_ps(x, Q));
»)»)
m4_dnl Only the last two steps move lanes across 16-byte pieces.
km_define(«transpose», «
    vf y[16];
km_each(«I», 0, 7, 1, «    y[m4_eval(I * 2)] = _mm512_unpacklo_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
    y[m4_eval(I * 2 + 1)] = _mm512_unpackhi_ps(x[m4_eval(I * 2)], x[m4_eval(I * 2 + 1)]);
»)km_each(«I», 0, 3, 1,
    «km_each(«J», 0, 1, 1, «    x[m4_eval(I * 4 + J * 2)] = (vf)_mm512_unpacklo_pd((__m512d)y[m4_eval(I * 4 + J)],
    (__m512d)y[m4_eval(I * 4 + J + 2)]);
    x[m4_eval(I * 4 + J * 2 + 1)] = (vf)_mm512_unpackhi_pd((__m512d)y[m4_eval(I * 4 + J)],
        (__m512d)y[m4_eval(I * 4 + J + 2)]);
»)»)km_each(«I», 0, 1, 1,
    «km_each(«J», 0, 3, 1,
    «    y[m4_eval(I * 8 + J)] = _mm512_shuffle_f32x4(x[m4_eval(I * 8 + J)], x[m4_eval(I * 8 + J + 4)], 0x88);
    y[m4_eval(I * 8 + J + 4)] = _mm512_shuffle_f32x4(x[m4_eval(I * 8 + J)], x[m4_eval(I * 8 + J + 4)], 0xdd);
»)»)km_each(«J», 0, 7, 1, «    x[J] = _mm512_shuffle_f32x4(y[J], y[m4_eval(J + 8)], 0x88);
    x[m4_eval(J + 8)] = _mm512_shuffle_f32x4(y[J], y[m4_eval(J + 8)], 0xdd);
»)»)

m4_dnl ---- Codes ----

km_helper(«in_order», «km_inline(«__m512i», «in_order(__m512i b)»)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), b);
}

»)
m4_define(«for_unpacking», «in_order($1)»)
km_define(«load_pairs», «
    __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(a)), y = _mm512_cvtepu16_epi32(_mm256_loadu_si256(b));
    return (vi)_mm512_or_si512(x, _mm512_slli_epi32(y, 16));
»)
km_define(«packed_words», «
    return (vi)_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtsepi32_epi16((__m512i)a)),
        _mm512_cvtsepi32_epi16((__m512i)b), 1);
»)
m4_define(«both_halves», «_mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)$1))»)
m4_define(«low_then_high»,
    «_mm512_mask_unpackhi_epi8(_mm512_unpacklo_epi8($1, $2), 0xffffffff00000000, $1, $2)»)
m4_define(«low_bytes», «_mm512_cvtepi16_epi8($1)»)
m4_define(«equal_16», «_mm512_cmpeq_epi16_mask($1, $2)»)
m4_define(«signs_16», «_mm512_movepi16_mask($1)»)
m4_define(«equal_32», «_mm512_cmpeq_epi32_mask($1, $2)»)
m4_define(«signs_32», «_mm512_movepi32_mask($1)»)
m4_define(«even_pieces», «(vi)_mm512_shuffle_i32x4((__m512i)$1, (__m512i)$2, 0x88)»)
m4_define(«odd_pieces», «(vi)_mm512_shuffle_i32x4((__m512i)$1, (__m512i)$2, 0xdd)»)
m4_divert(0)m4_dnl
