/* Write rows: codes with a scale for each group of elements.
   Generated; to reproduce: kvmill explain --source kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline, unused, target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))

typedef __m512 lanes;
typedef __m512i bits;

INLINED lanes
all(const float *p)
{
    return _mm512_set1_ps(*p);
}

INLINED lanes
each(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINED void
keep(float *p, lanes v)
{
    _mm512_storeu_ps(p, v);
    __asm__("" : "+m"(*(kvmill_word64 *)p));
}

INLINED lanes
pairs(const float *p)
{
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(p[0]), 0xff00, _mm_load_ss(p + 1));
}

INLINED int
any_from(bits b, int32_t least)
{
    return _mm512_cmpge_epi32_mask(b, _mm512_set1_epi32(least));
}

INLINED lanes
at_least(lanes v, float least)
{
    return _mm512_max_ps(_mm512_set1_ps(least), v);
}

INLINED bits
nearest(lanes v)
{
    return _mm512_cvtps_epi32(v);
}

INLINED bits
magnitude(const unsigned char *from)
{
    return _mm512_and_si512(_mm512_loadu_si512(from), _mm512_set1_epi16(0x7fff));
}

INLINED bits
larger(bits a, bits b)
{
    return _mm512_max_epu16(a, b);
}

INLINED bits
nothing(void)
{
    return _mm512_setzero_si512();
}

INLINED bits
fold(bits a, bits b)
{
    return larger(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

INLINED bits
in_order(bits b)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), b);
}

INLINED bits
halves(bits a, bits b)
{
    return larger(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

INLINED bits
quarters(bits a, bits b)
{
    __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return larger(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)), _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
}

INLINED bits
largest(bits a, bits b, bits c, bits d)
{
    bits m = quarters(halves(a, b), halves(c, d));
    m = _mm512_and_si512(larger(m, _mm512_srli_epi32(m, 16)), _mm512_set1_epi32(0xffff));
    return in_order(m);
}

INLINED lanes
value_f16(bits b)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(b));
}

INLINED lanes
load_f16(const unsigned char *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}

INLINED lanes
quotient_f16(lanes x, lanes s, lanes inverse)
{
    lanes q = _mm512_mul_ps(x, inverse);
    lanes power = _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(q), _mm512_set1_epi32(0x7f800000))), more = _mm512_set1_ps(0x1.8p13f);
    (void)s;
    return _mm512_fnmadd_ps(power, more, _mm512_fmadd_ps(power, more, q));
}

INLINED __m256i
half_of(lanes v)
{
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
}

INLINED void
store_f16(unsigned char *to, lanes v)
{
    _mm256_storeu_si256((__m256i *)to, half_of(v));
}

INLINED bits
codes_of(bits c0, bits c1, bits c2, bits c3, int most)
{
    bits c = _mm512_packs_epi16(_mm512_packs_epi32(c0, c1), _mm512_packs_epi32(c2, c3));
    c = _mm512_max_epi8(_mm512_min_epi8(c, _mm512_set1_epi8((char)most)), _mm512_set1_epi8((char)-most));
    return in_order(c);
}

INLINED void
store_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)
{
    _mm512_storeu_si512(to, codes_of(c0, c1, c2, c3, 127));
}

INLINED void
around_i8(unsigned char *to, bits c0, bits c1, bits c2, bits c3)
{
    _mm512_stream_si512((__m512i *)to, codes_of(c0, c1, c2, c3, 127));
}

INLINED lanes
round_f16(lanes v)
{
    return _mm512_cvtph_ps(half_of(v));
}

/* Groups with an element that is not finite have a scale that is not, and codes 0.  */
static __attribute__((noinline, cold)) void
empty_groups(const float *scale, unsigned char *to, unsigned char *scales)
{
    static const unsigned char codes[8];
    static const unsigned char nan[] = {0, 0x7e};
    for (int g = 0; g < 16; g++) {
        if (scale[g] - scale[g] == 0)
            continue;
        memcpy(to + g * 8, codes, sizeof codes);
        if (scale[g] != scale[g])
            memcpy(scales + g * 2, nan, sizeof nan);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
stream_row(const unsigned char *from, unsigned char *to, unsigned char *scales)
{
    int wild = 0;
    __attribute__((aligned(64))) float scale[16];
    __attribute__((aligned(64))) float inverse[16];
    {
        bits peak_bits = largest(
            magnitude(from + 0),
            magnitude(from + 64),
            magnitude(from + 128),
            magnitude(from + 192));
        lanes s = at_least(round_f16(value_f16(peak_bits) / 127.0f), 0x1.5p-17f);
        keep(scale + 0, s);
        keep(inverse + 0, 1.0f / s);
        wild |= any_from(peak_bits, 0x7c00);
        store_f16(scales + 0, s);
    }
    {
        bits c0 = nearest(quotient_f16(load_f16(from + 0), pairs(scale + 0), pairs(inverse + 0)));
        bits c1 = nearest(quotient_f16(load_f16(from + 32), pairs(scale + 2), pairs(inverse + 2)));
        bits c2 = nearest(quotient_f16(load_f16(from + 64), pairs(scale + 4), pairs(inverse + 4)));
        bits c3 = nearest(quotient_f16(load_f16(from + 96), pairs(scale + 6), pairs(inverse + 6)));
        around_i8(to + 0, c0, c1, c2, c3);
    }
    {
        bits c0 = nearest(quotient_f16(load_f16(from + 128), pairs(scale + 8), pairs(inverse + 8)));
        bits c1 = nearest(quotient_f16(load_f16(from + 160), pairs(scale + 10), pairs(inverse + 10)));
        bits c2 = nearest(quotient_f16(load_f16(from + 192), pairs(scale + 12), pairs(inverse + 12)));
        bits c3 = nearest(quotient_f16(load_f16(from + 224), pairs(scale + 14), pairs(inverse + 14)));
        around_i8(to + 64, c0, c1, c2, c3);
    }
    if (wild)
        empty_groups(scale, to, scales);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
stream_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * p.cache.row_stride;
        unsigned char *scales = p.cache.scale;
        if (scales != NULL)
            scales += p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            stream_row(from, to, scales);
            from += p.head_stride;
            to += p.cache.head_stride;
            if (scales != NULL)
                scales += p.cache.scale_head_stride;
        }
    }
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store_row(const unsigned char *from, unsigned char *to, unsigned char *scales)
{
    int wild = 0;
    __attribute__((aligned(64))) float scale[16];
    __attribute__((aligned(64))) float inverse[16];
    {
        bits peak_bits = largest(
            magnitude(from + 0),
            magnitude(from + 64),
            magnitude(from + 128),
            magnitude(from + 192));
        lanes s = at_least(round_f16(value_f16(peak_bits) / 127.0f), 0x1.5p-17f);
        keep(scale + 0, s);
        keep(inverse + 0, 1.0f / s);
        wild |= any_from(peak_bits, 0x7c00);
        store_f16(scales + 0, s);
    }
    {
        bits c0 = nearest(quotient_f16(load_f16(from + 0), pairs(scale + 0), pairs(inverse + 0)));
        bits c1 = nearest(quotient_f16(load_f16(from + 32), pairs(scale + 2), pairs(inverse + 2)));
        bits c2 = nearest(quotient_f16(load_f16(from + 64), pairs(scale + 4), pairs(inverse + 4)));
        bits c3 = nearest(quotient_f16(load_f16(from + 96), pairs(scale + 6), pairs(inverse + 6)));
        store_i8(to + 0, c0, c1, c2, c3);
    }
    {
        bits c0 = nearest(quotient_f16(load_f16(from + 128), pairs(scale + 8), pairs(inverse + 8)));
        bits c1 = nearest(quotient_f16(load_f16(from + 160), pairs(scale + 10), pairs(inverse + 10)));
        bits c2 = nearest(quotient_f16(load_f16(from + 192), pairs(scale + 12), pairs(inverse + 12)));
        bits c3 = nearest(quotient_f16(load_f16(from + 224), pairs(scale + 14), pairs(inverse + 14)));
        store_i8(to + 64, c0, c1, c2, c3);
    }
    if (wild)
        empty_groups(scale, to, scales);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * p.cache.row_stride;
        unsigned char *scales = p.cache.scale;
        if (scales != NULL)
            scales += p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            store_row(from, to, scales);
            from += p.head_stride;
            to += p.cache.head_stride;
            if (scales != NULL)
                scales += p.cache.scale_head_stride;
        }
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    int64_t all = (int64_t)(uintptr_t)p->cache.data | p->cache.row_stride | p->cache.head_stride;
    if (p->stream && all % 64 == 0)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F16,
    .format = {.element = KVMILL_I8, .dim = 128, .scale = KVMILL_F16, .group = 8},
};

const struct kvmill_kernel kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 1,
    .run = run,
};
