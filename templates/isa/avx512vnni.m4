m4_divert(-1)
m4_dnl avx512vnni.m4 -- integer dot products, in addition to avx512.m4.
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
    return turn_bytes((vi)_mm512_permutexvar_epi32(lanes, (__m512i)x));
»)
m4_divert(0)m4_dnl
