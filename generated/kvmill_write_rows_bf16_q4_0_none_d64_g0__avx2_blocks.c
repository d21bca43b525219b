/* Write rows: blocks of 32 elements with their scale.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_bf16_q4_0_none_d64_g0__avx2_blocks */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint16_t elements_u16 __attribute__((vector_size(4 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
}

INLINED vf
choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

INLINED vf
abs_f32(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

INLINED vf
value_bf16(vi b)
{
    return (vf)(b << 16);
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED halves
to_halves(vf x)
{
    return (halves)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

INLINED void
store_f16(void *to, vf x)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

INLINED vu
widened(halves h)
{
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
}

INLINED vf
load_bf16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}

INLINED void
store_words(int32_t *to, vi x)
{
    *(vi_any *)to = x;
}

INLINED vi
bits_u16(const void *from)
{
    vi x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINED vi
flipped_u16(const void *from)
{
    elements_u16 x;
    memcpy(&x, from, sizeof x);
    return (vi)(x ^ 32768U);
}

INLINED vf
multiply(vf x, vf y)
{
    vf v = x * y;
    __asm__("" : "+x"(v));
    return v;
}

INLINED vi
in_lanes(uint32_t lanes)
{
    const vu above = {31, 30, 29, 28, 27, 26, 25, 24};
    return (vi)(((vu){0} + lanes) << above) >> 31;
}

INLINED int
signs_16(__m256i x)
{
    return _mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}

INLINED __m256i
in_order(__m256i b)
{
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

INLINED halves
narrowed(vi b)
{
    return (halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)b, (__m256i)b), 0x08));
}

INLINED void
store_low_bytes(void *to, vi x)
{
    __m128i w = (__m128i)narrowed(x & 0xff);
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(w, w));
}

INLINED int
any_from(vi b, int32_t least)
{
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32((__m256i)b, _mm256_set1_epi32(least - 1)));
}

INLINED int
is_any_negative(vi b)
{
    return _mm256_movemask_ps((__m256)b) != 0;
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word32 *)to));
}

INLINED vi
at_most(vi b, int32_t most)
{
    return (vi)_mm256_min_epi32((__m256i)b, _mm256_set1_epi32(most));
}

INLINED vi
truncate(vf x)
{
    return (vi)_mm256_cvttps_epi32(x);
}

INLINED vi
larger_u16(vi a, vi b)
{
    return (vi)_mm256_max_epu16((__m256i)a, (__m256i)b);
}

INLINED vi
fold_u16(vi a, vi b)
{
    return larger_u16((vi)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x20),
                      (vi)_mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x31));
}

INLINED vi
halved_u16(vi a, vi b)
{
    return larger_u16((vi)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b),
                      (vi)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b));
}

INLINED vi
quartered_u16(vi a, vi b)
{
    return larger_u16((vi)_mm256_shuffle_ps((vf)a, (vf)b, 0x88), (vi)_mm256_shuffle_ps((vf)a, (vf)b, 0xdd));
}

INLINED vi
largest_u16(vi a, vi b, vi c, vi d)
{
    vi m = quartered_u16(halved_u16(a, b), halved_u16(c, d));
    m = larger_u16(m, (vi)((vu)m >> 16)) & 0xffff;
    return (vi)in_order((__m256i)m);
}

INLINED uint32_t
starts_negative_u16(const void *from, int32_t magnitude)
{
    uint32_t equal = 0, negative = 0;
    {
        __m256i x = _mm256_loadu_si256((const __m256i *)((const char *)from));
        __m256i magnitudes = _mm256_and_si256(x, _mm256_set1_epi16(0x7fff));
        equal |= (uint32_t)signs_16(_mm256_cmpeq_epi16(magnitudes, _mm256_set1_epi16((int16_t)magnitude)));
        negative |= (uint32_t)signs_16(x);
    }
    {
        __m256i x = _mm256_loadu_si256((const __m256i *)((const char *)from + 32));
        __m256i magnitudes = _mm256_and_si256(x, _mm256_set1_epi16(0x7fff));
        equal |= (uint32_t)signs_16(_mm256_cmpeq_epi16(magnitudes, _mm256_set1_epi16((int16_t)magnitude))) << 16;
        negative |= (uint32_t)signs_16(x) << 16;
    }
    return (equal & -equal & negative) != 0;
}

static int
is_finite(float x)
{
    return x - x == 0;
}

/* The code if the inverse of the scale overflows: the farthest one on the side of the element.  */
static int
extreme_code(uint32_t element, float inverse)
{
    if (element << 17 == 0)
        return 8;
    return (element >> 15 & 1) == (inverse < 0) ? 15 : 0;
}

/* Store a code in a block that was cleared before.  */
static void
put_code(unsigned char *to, int i, int code)
{
    to[2 + i % 16] |= (unsigned char)((code & 15) << i / 16 * 4);
}

static void
extreme_block(const unsigned char *from, float inverse, unsigned char *to)
{
    memset(to + 2, 0, 16);
    for (int i = 0; i < 32; i++)
        put_code(to, i, extreme_code(*(const kvmill_word2 *)(from + i * 2), inverse));
}

static void
empty_block(float scale, unsigned char *to)
{
    uint16_t half = scale == scale ? scale > 0 ? 0x7c00 : 0xfc00 : 0x7e00;
    memset(to, 0, 18);
    memcpy(to, &half, sizeof half);
    for (int i = 0; i < 32; i++)
        put_code(to, i, 8);
}

/* Blocks whose scale is not finite get codes of 0.  Blocks whose scale has no finite inverse get extreme codes.  */
static __attribute__((noinline, cold)) void
mend_blocks(const unsigned char *from, const float *scale, const float *inverse, unsigned char *to)
{
    for (int b = 0; b < 2; b++, from += 64, to += 18) {
        if (!is_finite(scale[b]))
            empty_block(scale[b], to);
        else if (!is_finite(inverse[b]))
            extreme_block(from, inverse[b], to);
    }
}

struct row {
    const unsigned char *from;
    unsigned char *to;
};

INLINED int
follow_each_other(const struct row *row, int count, int step)
{
    int n = 1;
    while (n < count && row[n].to == row[n - 1].to + step)
        n++;
    return n;
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_together(const struct row *row, unsigned char (*together)[36], int count)
{
    const unsigned char *from = together[0];
    unsigned char *to = row[0].to;
    if ((uintptr_t)to % 64 == 0 && follow_each_other(row, count, 36) == 16) {
        for (int i = 0; i < 576; i += 64) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + i)) :
                             "x"(*(const kvmill_word32 *)(from + i)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + i + 32)) :
                             "x"(*(const kvmill_word32 *)(from + i + 32)));
        }
        return;
    }
    for (int r = 0; r < count; r++)
        memcpy(row[r].to, together[r], 36);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_batch(struct row *row, int count, int64_t ahead)
{
    __attribute__((aligned(64))) unsigned char together[16][36];
    for (int r = count; r < 16; r++)
        row[r] = row[0];
    __attribute__((aligned(64))) float scale[32];
    __attribute__((aligned(64))) float inverses[32];
    unsigned char halves[64];
    int wild = 0;
    /* Compute the scales.  */
    for (int r = 0; r < count; r += 4) {
        vi lowest0 = fold_u16(larger_u16(bits_u16(row[r].from), bits_u16(row[r].from + 32)),
                              larger_u16(bits_u16(row[r].from + 64), bits_u16(row[r].from + 96)));
        vi lowest1 = fold_u16(larger_u16(bits_u16(row[r + 1].from), bits_u16(row[r + 1].from + 32)),
                              larger_u16(bits_u16(row[r + 1].from + 64), bits_u16(row[r + 1].from + 96)));
        vi lowest2 = fold_u16(larger_u16(bits_u16(row[r + 2].from), bits_u16(row[r + 2].from + 32)),
                              larger_u16(bits_u16(row[r + 2].from + 64), bits_u16(row[r + 2].from + 96)));
        vi lowest3 = fold_u16(larger_u16(bits_u16(row[r + 3].from), bits_u16(row[r + 3].from + 32)),
                              larger_u16(bits_u16(row[r + 3].from + 64), bits_u16(row[r + 3].from + 96)));
        vi lowest = largest_u16(lowest0, lowest1, lowest2, lowest3);
        vi highest0 = fold_u16(larger_u16(flipped_u16(row[r].from), flipped_u16(row[r].from + 32)),
                               larger_u16(flipped_u16(row[r].from + 64), flipped_u16(row[r].from + 96)));
        vi highest1 = fold_u16(larger_u16(flipped_u16(row[r + 1].from), flipped_u16(row[r + 1].from + 32)),
                               larger_u16(flipped_u16(row[r + 1].from + 64), flipped_u16(row[r + 1].from + 96)));
        vi highest2 = fold_u16(larger_u16(flipped_u16(row[r + 2].from), flipped_u16(row[r + 2].from + 32)),
                               larger_u16(flipped_u16(row[r + 2].from + 64), flipped_u16(row[r + 2].from + 96)));
        vi highest3 = fold_u16(larger_u16(flipped_u16(row[r + 3].from), flipped_u16(row[r + 3].from + 32)),
                               larger_u16(flipped_u16(row[r + 3].from + 64), flipped_u16(row[r + 3].from + 96)));
        vi highest = largest_u16(highest0, highest1, highest2, highest3);
        const uint32_t sign_bit = (uint32_t)1 << 15;
        vi low = (vi)((vu)lowest - sign_bit), high = (vi)((vu)highest - sign_bit);
        vi peak = (vi)choose(low > high, (vf)low, (vf)high);
        vi is_negative = low > high;
        vi tied = (low == high) & (peak > 0);
        if (is_any_negative(tied)) {
            uint32_t negative = 0;
            int32_t magnitude[8];
            store_words(magnitude, peak & tied);
            if (magnitude[0] != 0)
                negative |= starts_negative_u16(row[r].from, magnitude[0]);
            if (magnitude[1] != 0)
                negative |= starts_negative_u16(row[r].from + 64, magnitude[1]) << 1;
            if (magnitude[2] != 0)
                negative |= starts_negative_u16(row[r + 1].from, magnitude[2]) << 2;
            if (magnitude[3] != 0)
                negative |= starts_negative_u16(row[r + 1].from + 64, magnitude[3]) << 3;
            if (magnitude[4] != 0)
                negative |= starts_negative_u16(row[r + 2].from, magnitude[4]) << 4;
            if (magnitude[5] != 0)
                negative |= starts_negative_u16(row[r + 2].from + 64, magnitude[5]) << 5;
            if (magnitude[6] != 0)
                negative |= starts_negative_u16(row[r + 3].from, magnitude[6]) << 6;
            if (magnitude[7] != 0)
                negative |= starts_negative_u16(row[r + 3].from + 64, magnitude[7]) << 7;
            is_negative |= in_lanes(negative);
        }
        vi sign = (~is_negative | (peak == 0)) & INT32_MIN;
        vf s = (vf)((vi)value_bf16(peak) ^ sign) / 8.0f;
        vf inverse = choose(s == 0.f, s, 1.0f / s);
        store_kept(scale + 2 * r, s);
        store_kept(inverses + 2 * r, inverse);
        store_f16(halves + 4 * r, s);
        wild |= any_from(peak, 0x7f80) | any_from((vi)abs_f32(inverse), 0x7f800000);
    }
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from, *half = halves + 4 * r;
        unsigned char *to = together[r];
        const float *inverse = inverses + 2 * r;
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        for (int b = 0; b < 2; b++)
            memcpy(to + b * 18, half + 2 * b, 2);
        {
            vi low = at_most(truncate(multiply(load_bf16(from), broadcast(inverse[0])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 32), broadcast(inverse[0])) + 8.5f), 15);
            store_low_bytes(to + 2, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 16), broadcast(inverse[0])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 48), broadcast(inverse[0])) + 8.5f), 15);
            store_low_bytes(to + 10, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 64), broadcast(inverse[1])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 96), broadcast(inverse[1])) + 8.5f), 15);
            store_low_bytes(to + 20, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 80), broadcast(inverse[1])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 112), broadcast(inverse[1])) + 8.5f), 15);
            store_low_bytes(to + 28, low | high << 4);
        }
        if (wild)
            mend_blocks(row[r].from, scale + 2 * r, inverse, to);
    }
    stream_together(row, together, count);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_tokens(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[16];
    int count = 0;
    const int64_t token = p.heads * 128;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; stream_batch() goes through 16 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            if (++count == 16) {
                stream_batch(row, count, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0)
        stream_batch(row, count, ahead * p.token_stride);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_heads(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    const int64_t heads = p.heads, heads_ahead = p.stream ? 8 : 0;
    struct row row[16];
    /* The loop nest: runs of tokens whose rows are together, heads, and the tokens of a run; stream_batch()
       goes through 16 rows at a time.  */
    for (int64_t begin = first, end; begin < last; begin = end) {
        int count = 0;
        int64_t ahead = 0;
        end = begin + 16 - p.slot[begin] % 16;
        end = end < last ? end : last;
        for (int64_t h = 0; h < heads; h++) {
            ahead = (h + heads_ahead) / heads * 16 * p.token_stride + ((h + heads_ahead) % heads - h) * p.head_stride;
            for (int64_t t = begin; t < end; t++) {
                row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
                row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
                if (++count == 16) {
                    stream_batch(row, count, ahead);
                    count = 0;
                }
            }
        }
        if (count > 0)
            stream_batch(row, count, ahead);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_rows(const struct kvmill_convert *p, int64_t first, int64_t last)
{
    if (p->cache.row_stride == 36)
        stream_heads(p, first, last);
    else
        stream_tokens(p, first, last);
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c")))
static void
store_batch(struct row *row, int count, int64_t ahead)
{
    for (int r = count; r < 16; r++)
        row[r] = row[0];
    __attribute__((aligned(64))) float scale[32];
    __attribute__((aligned(64))) float inverses[32];
    unsigned char halves[64];
    int wild = 0;
    /* Compute the scales.  */
    for (int r = 0; r < count; r += 4) {
        vi lowest0 = fold_u16(larger_u16(bits_u16(row[r].from), bits_u16(row[r].from + 32)),
                              larger_u16(bits_u16(row[r].from + 64), bits_u16(row[r].from + 96)));
        vi lowest1 = fold_u16(larger_u16(bits_u16(row[r + 1].from), bits_u16(row[r + 1].from + 32)),
                              larger_u16(bits_u16(row[r + 1].from + 64), bits_u16(row[r + 1].from + 96)));
        vi lowest2 = fold_u16(larger_u16(bits_u16(row[r + 2].from), bits_u16(row[r + 2].from + 32)),
                              larger_u16(bits_u16(row[r + 2].from + 64), bits_u16(row[r + 2].from + 96)));
        vi lowest3 = fold_u16(larger_u16(bits_u16(row[r + 3].from), bits_u16(row[r + 3].from + 32)),
                              larger_u16(bits_u16(row[r + 3].from + 64), bits_u16(row[r + 3].from + 96)));
        vi lowest = largest_u16(lowest0, lowest1, lowest2, lowest3);
        vi highest0 = fold_u16(larger_u16(flipped_u16(row[r].from), flipped_u16(row[r].from + 32)),
                               larger_u16(flipped_u16(row[r].from + 64), flipped_u16(row[r].from + 96)));
        vi highest1 = fold_u16(larger_u16(flipped_u16(row[r + 1].from), flipped_u16(row[r + 1].from + 32)),
                               larger_u16(flipped_u16(row[r + 1].from + 64), flipped_u16(row[r + 1].from + 96)));
        vi highest2 = fold_u16(larger_u16(flipped_u16(row[r + 2].from), flipped_u16(row[r + 2].from + 32)),
                               larger_u16(flipped_u16(row[r + 2].from + 64), flipped_u16(row[r + 2].from + 96)));
        vi highest3 = fold_u16(larger_u16(flipped_u16(row[r + 3].from), flipped_u16(row[r + 3].from + 32)),
                               larger_u16(flipped_u16(row[r + 3].from + 64), flipped_u16(row[r + 3].from + 96)));
        vi highest = largest_u16(highest0, highest1, highest2, highest3);
        const uint32_t sign_bit = (uint32_t)1 << 15;
        vi low = (vi)((vu)lowest - sign_bit), high = (vi)((vu)highest - sign_bit);
        vi peak = (vi)choose(low > high, (vf)low, (vf)high);
        vi is_negative = low > high;
        vi tied = (low == high) & (peak > 0);
        if (is_any_negative(tied)) {
            uint32_t negative = 0;
            int32_t magnitude[8];
            store_words(magnitude, peak & tied);
            if (magnitude[0] != 0)
                negative |= starts_negative_u16(row[r].from, magnitude[0]);
            if (magnitude[1] != 0)
                negative |= starts_negative_u16(row[r].from + 64, magnitude[1]) << 1;
            if (magnitude[2] != 0)
                negative |= starts_negative_u16(row[r + 1].from, magnitude[2]) << 2;
            if (magnitude[3] != 0)
                negative |= starts_negative_u16(row[r + 1].from + 64, magnitude[3]) << 3;
            if (magnitude[4] != 0)
                negative |= starts_negative_u16(row[r + 2].from, magnitude[4]) << 4;
            if (magnitude[5] != 0)
                negative |= starts_negative_u16(row[r + 2].from + 64, magnitude[5]) << 5;
            if (magnitude[6] != 0)
                negative |= starts_negative_u16(row[r + 3].from, magnitude[6]) << 6;
            if (magnitude[7] != 0)
                negative |= starts_negative_u16(row[r + 3].from + 64, magnitude[7]) << 7;
            is_negative |= in_lanes(negative);
        }
        vi sign = (~is_negative | (peak == 0)) & INT32_MIN;
        vf s = (vf)((vi)value_bf16(peak) ^ sign) / 8.0f;
        vf inverse = choose(s == 0.f, s, 1.0f / s);
        store_kept(scale + 2 * r, s);
        store_kept(inverses + 2 * r, inverse);
        store_f16(halves + 4 * r, s);
        wild |= any_from(peak, 0x7f80) | any_from((vi)abs_f32(inverse), 0x7f800000);
    }
    /* Compute the codes.  */
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from, *half = halves + 4 * r;
        unsigned char *to = row[r].to;
        const float *inverse = inverses + 2 * r;
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        for (int b = 0; b < 2; b++)
            memcpy(to + b * 18, half + 2 * b, 2);
        {
            vi low = at_most(truncate(multiply(load_bf16(from), broadcast(inverse[0])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 32), broadcast(inverse[0])) + 8.5f), 15);
            store_low_bytes(to + 2, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 16), broadcast(inverse[0])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 48), broadcast(inverse[0])) + 8.5f), 15);
            store_low_bytes(to + 10, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 64), broadcast(inverse[1])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 96), broadcast(inverse[1])) + 8.5f), 15);
            store_low_bytes(to + 20, low | high << 4);
        }
        {
            vi low = at_most(truncate(multiply(load_bf16(from + 80), broadcast(inverse[1])) + 8.5f), 15);
            vi high = at_most(truncate(multiply(load_bf16(from + 112), broadcast(inverse[1])) + 8.5f), 15);
            store_low_bytes(to + 28, low | high << 4);
        }
        if (wild)
            mend_blocks(row[r].from, scale + 2 * r, inverse, to);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[16];
    int count = 0;
    const int64_t token = p.heads * 128;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; store_batch() goes through 16 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            if (++count == 16) {
                store_batch(row, count, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0)
        store_batch(row, count, ahead * p.token_stride);
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_write_rows_bf16_q4_0_none_d64_g0__avx2_blocks_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    if (p->stream && ((p->cache.row_stride == 36 && last - first >= 16) ||
                      (p->cache.head_stride == 36 && p->heads >= 16)))
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_BF16,
    .format = {.element = KVMILL_Q4_0, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_write_rows_bf16_q4_0_none_d64_g0__avx2_blocks = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_bf16_q4_0_none_d64_g0__avx2_blocks",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_bf16_q4_0_none_d64_g0__avx2_blocks_run,
};
