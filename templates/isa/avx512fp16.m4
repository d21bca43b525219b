m4_divert(-1)
m4_dnl avx512fp16.m4 -- arithmetic on float16, in addition to avx512vnni.m4.
m4_define(«km_isa», «avx512fp16»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512fp16»)

km_define(«load_vh», «
    return (vh)_mm512_loadu_si512(from);
»)
km_define(«store_vh», «
    _mm512_storeu_si512(to, (__m512i)x);
»)
km_define(«store_twice», «
    __m512i half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    _mm512_storeu_si512(to, _mm512_or_si512(half, _mm512_slli_epi32(half, 16)));
»)
km_define(«broadcast_twice», «
    return (vh)_mm512_set1_epi32((int32_t)pair);
»)
km_define(«join_halves», «
    __m512i x = _mm512_castsi256_si512(_mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    return (vh)_mm512_inserti64x4(x, _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT), 1);
»)
km_define(«load_vh_i8», «
    return (vh)_mm512_cvtepi16_ph(_mm512_cvtepi8_epi16(_mm256_loadu_si256(from)));
»)
m4_dnl 0x6400 + n is the float16 number 1024 + n; here n is the code plus 8.
km_define(«load_vh_i4», «
    __m512i pair = _mm512_cvtepu8_epi32(_mm_loadu_si128(from));
    __m512i code = _mm512_ternarylogic_epi32(pair, _mm512_slli_epi32(pair, 12), _mm512_set1_epi32(0x000f000f), 0xa8);
    return (vh)_mm512_xor_si512(code, _mm512_set1_epi32(0x64086408)) - broadcast_twice(0x64086408);
»)
km_define(«spread_halves», «
    typedef uint16_t numbers __attribute__((vector_size(2 * HALVES)));
    const __m512i lane = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13,
        12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i factor = _mm512_loadu_si512(from);
    return (vh)_mm512_permutexvar_epi16((__m512i)((numbers)lane / (uint16_t)group), factor);
»)
km_define(«add_halves», «
    vf a = _mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)x));
    vf b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)x, 1));
    store_f32(to, load_f32(to) * grow + a);
    store_f32(to + LANES, load_f32(to + LANES) * grow + b);
»)
m4_divert(0)m4_dnl
