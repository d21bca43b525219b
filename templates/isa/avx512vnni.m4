m4_divert(-1)
m4_dnl avx512vnni.m4 -- what the integer dot products add to avx512.m4.
m4_define(«km_isa», «avx512vnni»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni»)

km_define(«add_products», «
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
»)
km_define(«load_four», «
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128(a));
    x = _mm512_inserti32x4(x, _mm_loadu_si128(b), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128(c), 2);
    return (vi)_mm512_inserti32x4(x, _mm_loadu_si128(d), 3);
»)
km_define(«side_by_side», «
    const __m512i lanes = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i turn = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return (vi)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(lanes, (__m512i)x), turn);
»)
km_define(«load_some_bytes», «
    return (vi)_mm512_maskz_loadu_epi8(count < 64 ? (1ULL << count) - 1 : ~0ULL, from);
»)
km_define(«low_codes», «
    return (vi)_mm512_sub_epi8((__m512i)(x & 0x0f0f0f0f), _mm512_set1_epi8(8));
»)
km_define(«with_signs», «
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512i all = _mm512_castsi128_si512(_mm_srai_epi32(_mm_loadu_si128((const __m128i *)scale), 31));
    __m512i mask = _mm512_permutexvar_epi32(quarter, all);
    return (vi)_mm512_sub_epi8(_mm512_xor_si512((__m512i)x, mask), mask);
»)
m4_divert(0)m4_dnl
