m4_divert(-1)
m4_dnl avx512fp16.m4 -- what arithmetic on float16 adds to avx512vnni.m4.
m4_define(«km_isa», «avx512fp16»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512fp16»)

m4_define(«km_vector_float16», «enum { HALVES = 2 * LANES, OCTS = HALVES / 8 };
typedef _Float16 vh __attribute__((vector_size(2 * HALVES)));

km_inline(«vh», «load_whole_halves(const void *from)»)
{
    return (vh)_mm512_loadu_si512(from);
}

km_inline(«vh», «load_halves(const void *from, unsigned count)»)
{
    return (vh)_mm512_maskz_loadu_epi16(count < 32 ? (1U << count) - 1 : ~0U, from);
}

km_inline(«void», «store_halves(void *to, vh x)»)
{
    _mm512_storeu_si512(to, (__m512i)x);
}

/* Eight in each of the quarters.  */
km_inline(«vh», «repeat_halves(const void *from)»)
{
    return (vh)_mm512_broadcast_i32x4(_mm_loadu_si128(from));
}

km_inline(«vh», «all_halves(_Float16 x)»)
{
    return (vh)_mm512_set1_ph(x);
}

/* Quad q of the result has the sum of which is that of the eight halves in quarter q.  */
km_inline(«vf», «sum_octs(vh x)»)
{
    __m512 a = _mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)x));
    __m512 b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)x, 1));
    return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
}

/* to = grow * to + x.  */
km_inline(«void», «add_halves(float *to, float grow, vh x)»)
{
    vf a = _mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)x));
    vf b = _mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)x, 1));
    store(to, load(to) * grow + a);
    store(to + LANES, load(to + LANES) * grow + b);
}
»)
m4_divert(0)m4_dnl
