/* Write rows: codes with a scale for each group of elements.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))

enum { LANES = 16 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

INLINED vf
from_halves(halves h)
{
    return _mm512_cvtph_ps((__m256i)h);
}

INLINED halves
narrowed(vi b)
{
    return (halves)_mm512_cvtepi32_epi16((__m512i)b);
}

INLINED vf
value_f16(vi b)
{
    return from_halves(narrowed(b));
}

INLINED halves
to_halves(vf x)
{
    return (halves)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

INLINED vf
round_f16(vf x)
{
    return from_halves(to_halves(x));
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED void
store_f16(void *to, vf x)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

INLINED __m512i
in_order(__m512i b)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), b);
}

INLINED vf
broadcast_pair(const float *p)
{
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(p[0]), 0xff00, _mm_load_ss(p + 1));
}

INLINED int
any_from(vi b, int32_t least)
{
    return _mm512_cmpge_epi32_mask((__m512i)b, _mm512_set1_epi32(least));
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word64 *)to));
}

INLINED vf
max_f32(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINED vi
round_even(vf x)
{
    return (vi)_mm512_cvtps_epi32(x);
}

INLINED vi
code_f16(vf x, vf s, vf inverse)
{
    (void)s;
    vu q = (vu)(x * inverse) + 4096;
    return round_even((vf)(q & ~8191));
}

INLINED __m512i
codes_of(vi c0, vi c1, vi c2, vi c3)
{
    __m512i low = _mm512_packs_epi32((__m512i)c0, (__m512i)c1), high = _mm512_packs_epi32((__m512i)c2, (__m512i)c3);
    return in_order(_mm512_max_epi8(_mm512_packs_epi16(low, high), _mm512_set1_epi8(-127)));
}

INLINED void
store_i8(void *to, vi c0, vi c1, vi c2, vi c3)
{
    _mm512_storeu_si512((__m512i *)to, codes_of(c0, c1, c2, c3));
}

INLINED void
stream_i8(void *to, vi c0, vi c1, vi c2, vi c3)
{
    _mm512_stream_si512((__m512i *)to, codes_of(c0, c1, c2, c3));
}

INLINED vi
magnitudes_u16(const void *from)
{
    return (vi)_mm512_and_si512(_mm512_loadu_si512((const __m512i *)from), _mm512_set1_epi16(0x7fff));
}

INLINED vi
larger_u16(vi a, vi b)
{
    return (vi)_mm512_max_epu16((__m512i)a, (__m512i)b);
}

INLINED vi
halved_u16(vi a, vi b)
{
    return larger_u16((vi)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b),
                      (vi)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b));
}

INLINED vi
quartered_u16(vi a, vi b)
{
    return larger_u16((vi)_mm512_shuffle_ps((vf)a, (vf)b, 0x88), (vi)_mm512_shuffle_ps((vf)a, (vf)b, 0xdd));
}

INLINED vi
largest_u16(vi a, vi b, vi c, vi d)
{
    vi m = quartered_u16(halved_u16(a, b), halved_u16(c, d));
    m = larger_u16(m, (vi)((vu)m >> 16)) & 0xffff;
    return (vi)in_order((__m512i)m);
}

/* Groups whose scale is not finite get codes of 0, and NaN has the same bits everywhere.  */
static __attribute__((noinline, cold)) void
mend_groups(const float *scale, unsigned char *to)
{
    static const unsigned char codes[8];
    for (int g = 0; g < 16; g++)
        if (scale[g] - scale[g] != 0)
            memcpy(to + g * 8, codes, sizeof codes);
}

static __attribute__((noinline, cold)) void
put_nans(const float *scale, int count, unsigned char *stored)
{
    static const unsigned char nan[] = {0, 0x7e};
    for (int i = 0; i < count; i++)
        if (scale[i] != scale[i])
            memcpy(stored + i * 2, nan, sizeof nan);
}

struct row {
    const unsigned char *from;
    unsigned char *to;
    unsigned char *scales;
};

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
stream_batch(struct row *row, int count, int64_t ahead)
{
    for (int r = count; r < 8; r++)
        row[r] = row[0];
    __attribute__((aligned(64))) float scale[128];
    __attribute__((aligned(64))) float inverses[128];
    unsigned char stored[256];
    int wild = 0;
    /* Compute the scales.  */
    for (int r = 0; r < count; r++) {
        vi peak0 = magnitudes_u16(row[r].from);
        vi peak1 = magnitudes_u16(row[r].from + 64);
        vi peak2 = magnitudes_u16(row[r].from + 128);
        vi peak3 = magnitudes_u16(row[r].from + 192);
        vi peak = largest_u16(peak0, peak1, peak2, peak3);
        vf s = max_f32(broadcast(0x1.5p-17f), round_f16(value_f16(peak) * (1 / 127.0f)));
        store_kept(scale + 16 * r, s);
        store_kept(inverses + 16 * r, 1.0f / s);
        store_f16(stored + 32 * r, s);
        wild |= any_from(peak, 0x7c00);
    }
    if (wild)
        put_nans(scale, count * 16, stored);
    for (int r = 0; r < count; r++) {
        memcpy(row[r].scales, stored + 32 * r, 32);
        __builtin_prefetch(row[r].scales + 512, 1);
    }
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = row[r].to;
        const float *divisor = scale + 16 * r, *inverse = inverses + 16 * r;
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        __builtin_prefetch(row[r].from + ahead + 128);
        __builtin_prefetch(row[r].from + ahead + 192);
        {
            vi c0 = code_f16(load_f16(from), broadcast_pair(divisor), broadcast_pair(inverse));
            vi c1 = code_f16(load_f16(from + 32), broadcast_pair(divisor + 2), broadcast_pair(inverse + 2));
            vi c2 = code_f16(load_f16(from + 64), broadcast_pair(divisor + 4), broadcast_pair(inverse + 4));
            vi c3 = code_f16(load_f16(from + 96), broadcast_pair(divisor + 6), broadcast_pair(inverse + 6));
            stream_i8(to, c0, c1, c2, c3);
        }
        {
            vi c0 = code_f16(load_f16(from + 128), broadcast_pair(divisor + 8), broadcast_pair(inverse + 8));
            vi c1 = code_f16(load_f16(from + 160), broadcast_pair(divisor + 10), broadcast_pair(inverse + 10));
            vi c2 = code_f16(load_f16(from + 192), broadcast_pair(divisor + 12), broadcast_pair(inverse + 12));
            vi c3 = code_f16(load_f16(from + 224), broadcast_pair(divisor + 14), broadcast_pair(inverse + 14));
            stream_i8(to + 64, c0, c1, c2, c3);
        }
        if (wild)
            mend_groups(divisor, to);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
stream_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[8];
    int count = 0;
    const int64_t token = p.heads * 256;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; stream_batch() goes through 8 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            row[count].scales = p.cache.scale + p.slot[t] * p.cache.scale_row_stride + h * p.cache.scale_head_stride;
            if (++count == 8) {
                stream_batch(row, count, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0)
        stream_batch(row, count, ahead * p.token_stride);
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store_batch(struct row *row, int count, int64_t ahead)
{
    for (int r = count; r < 8; r++)
        row[r] = row[0];
    __attribute__((aligned(64))) float scale[128];
    __attribute__((aligned(64))) float inverses[128];
    unsigned char stored[256];
    int wild = 0;
    /* Compute the scales.  */
    for (int r = 0; r < count; r++) {
        vi peak0 = magnitudes_u16(row[r].from);
        vi peak1 = magnitudes_u16(row[r].from + 64);
        vi peak2 = magnitudes_u16(row[r].from + 128);
        vi peak3 = magnitudes_u16(row[r].from + 192);
        vi peak = largest_u16(peak0, peak1, peak2, peak3);
        vf s = max_f32(broadcast(0x1.5p-17f), round_f16(value_f16(peak) * (1 / 127.0f)));
        store_kept(scale + 16 * r, s);
        store_kept(inverses + 16 * r, 1.0f / s);
        store_f16(stored + 32 * r, s);
        wild |= any_from(peak, 0x7c00);
    }
    if (wild)
        put_nans(scale, count * 16, stored);
    for (int r = 0; r < count; r++) {
        memcpy(row[r].scales, stored + 32 * r, 32);
    }
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = row[r].to;
        const float *divisor = scale + 16 * r, *inverse = inverses + 16 * r;
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        __builtin_prefetch(row[r].from + ahead + 128);
        __builtin_prefetch(row[r].from + ahead + 192);
        {
            vi c0 = code_f16(load_f16(from), broadcast_pair(divisor), broadcast_pair(inverse));
            vi c1 = code_f16(load_f16(from + 32), broadcast_pair(divisor + 2), broadcast_pair(inverse + 2));
            vi c2 = code_f16(load_f16(from + 64), broadcast_pair(divisor + 4), broadcast_pair(inverse + 4));
            vi c3 = code_f16(load_f16(from + 96), broadcast_pair(divisor + 6), broadcast_pair(inverse + 6));
            store_i8(to, c0, c1, c2, c3);
        }
        {
            vi c0 = code_f16(load_f16(from + 128), broadcast_pair(divisor + 8), broadcast_pair(inverse + 8));
            vi c1 = code_f16(load_f16(from + 160), broadcast_pair(divisor + 10), broadcast_pair(inverse + 10));
            vi c2 = code_f16(load_f16(from + 192), broadcast_pair(divisor + 12), broadcast_pair(inverse + 12));
            vi c3 = code_f16(load_f16(from + 224), broadcast_pair(divisor + 14), broadcast_pair(inverse + 14));
            store_i8(to + 64, c0, c1, c2, c3);
        }
        if (wild)
            mend_groups(divisor, to);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[8];
    int count = 0;
    const int64_t token = p.heads * 256;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; store_batch() goes through 8 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            row[count].scales = p.cache.scale + p.slot[t] * p.cache.scale_row_stride + h * p.cache.scale_head_stride;
            if (++count == 8) {
                store_batch(row, count, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0)
        store_batch(row, count, ahead * p.token_stride);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    if (p->stream && ((int64_t)(uintptr_t)p->cache.data | p->cache.row_stride | p->cache.head_stride) % 64 == 0)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F16,
    .format = {.element = KVMILL_I8, .dim = 128, .scale = KVMILL_F16, .quant_group = 8},
};

const struct kvmill_kernel kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_f16_i8_f16_d128_g8__avx512_groups_run,
};
