/* Write rows: a scale for the row, and codes.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_bf16_q8_kv_none_d64_g0__avx2_row */
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
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
}

INLINED vf
abs_f32(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
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

INLINED vf
multiply(vf x, vf y)
{
    vf v = x * y;
    __asm__("" : "+x"(v));
    return v;
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

INLINED float
largest_of(vf x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

INLINED float
sum_of(vf x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

INLINED vf
max_f32(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINED vi
round_even(vf x)
{
    return (vi)_mm256_cvtps_epi32(x);
}

/* A row with an element that is not finite gets a scale that is not finite, and codes of 0.  If the scale has no finite
   inverse, codes are as far from 0 as possible.  */
static __attribute__((noinline, cold)) void
mend_row(const float *x, unsigned char *to)
{
    float scale;
    uint32_t largest = 0, nan = 0x7fc00000;
    int32_t sum = 0;
    for (int i = 0; i < 64; i++) {
        uint32_t magnitude;
        memcpy(&magnitude, x + i, sizeof magnitude);
        magnitude &= 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    memcpy(&scale, largest > 0x7f800000 ? &nan : &largest, sizeof scale);
    for (int i = 0; i < 64; i++) {
        int code = largest >= 0x7f800000 ? 0 : 127 * ((x[i] > 0) - (x[i] < 0));
        to[8 + i] = (unsigned char)code;
        sum += code;
    }
    scale /= 127.0f;
    memcpy(to, &scale, sizeof scale);
    memcpy(to + 4, &sum, sizeof sum);
}

__attribute__((target("avx2,fma,f16c")))
static void
quantise_row(const unsigned char *from, unsigned char *to)
{
    vf most = broadcast(0.f), none = most;
    vi sums = {0};
    {
        vf x = load_bf16(from);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 16);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 32);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 48);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 64);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 80);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 96);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    {
        vf x = load_bf16(from + 112);
        most = max_f32(abs_f32(x), most);
        none += x - x;
    }
    const float scale = largest_of(most) / 127.0f, inverse = scale == 0.f ? 0.f : 1.f / scale;
    const float wild = sum_of(none) + (inverse - inverse);
    if (wild != 0.f) {
        float x[64];
        store_f32(x, load_bf16(from));
        store_f32(x + 8, load_bf16(from + 16));
        store_f32(x + 16, load_bf16(from + 32));
        store_f32(x + 24, load_bf16(from + 48));
        store_f32(x + 32, load_bf16(from + 64));
        store_f32(x + 40, load_bf16(from + 80));
        store_f32(x + 48, load_bf16(from + 96));
        store_f32(x + 56, load_bf16(from + 112));
        mend_row(x, to);
        return;
    }
    {
        vi codes = round_even(multiply(load_bf16(from), broadcast(inverse)));
        store_low_bytes(to + 8, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 16), broadcast(inverse)));
        store_low_bytes(to + 16, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 32), broadcast(inverse)));
        store_low_bytes(to + 24, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 48), broadcast(inverse)));
        store_low_bytes(to + 32, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 64), broadcast(inverse)));
        store_low_bytes(to + 40, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 80), broadcast(inverse)));
        store_low_bytes(to + 48, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 96), broadcast(inverse)));
        store_low_bytes(to + 56, codes);
        sums += codes;
    }
    {
        vi codes = round_even(multiply(load_bf16(from + 112), broadcast(inverse)));
        store_low_bytes(to + 64, codes);
        sums += codes;
    }
    const int32_t sum = (int32_t)sum_of(__builtin_convertvector(sums, vf));
    memcpy(to, &scale, sizeof scale);
    memcpy(to + 4, &sum, sizeof sum);
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
stream_together(const struct row *row, unsigned char (*together)[72], int count)
{
    const unsigned char *from = together[0];
    unsigned char *to = row[0].to;
    if ((uintptr_t)to % 64 == 0 && follow_each_other(row, count, 72) == 8) {
        for (int i = 0; i < 576; i += 64) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + i)) :
                             "x"(*(const kvmill_word32 *)(from + i)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + i + 32)) :
                             "x"(*(const kvmill_word32 *)(from + i + 32)));
        }
        return;
    }
    for (int r = 0; r < count; r++)
        memcpy(row[r].to, together[r], 72);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_batch(struct row *row, int count, int64_t ahead)
{
    __attribute__((aligned(64))) unsigned char together[8][72];
    for (int r = count; r < 8; r++)
        row[r] = row[0];
    for (int r = 0; r < count; r++) {
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        quantise_row(row[r].from, together[r]);
    }
    stream_together(row, together, count);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_tokens(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[8];
    int count = 0;
    const int64_t token = p.heads * 128;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; stream_batch() goes through 8 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            if (++count == 8) {
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
    struct row row[8];
    /* The loop nest: runs of tokens whose rows are together, heads, and the tokens of a run; stream_batch()
       goes through 8 rows at a time.  */
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
                if (++count == 8) {
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
    if (p->cache.row_stride == 72)
        stream_heads(p, first, last);
    else
        stream_tokens(p, first, last);
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c")))
static void
store_batch(struct row *row, int count, int64_t ahead)
{
    for (int r = count; r < 8; r++)
        row[r] = row[0];
    for (int r = 0; r < count; r++) {
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        quantise_row(row[r].from, row[r].to);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[8];
    int count = 0;
    const int64_t token = p.heads * 128;
    const int64_t ahead = p.stream ? (8192 + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; store_batch() goes through 8 rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < p.heads; h++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] * p.cache.row_stride + h * p.cache.head_stride;
            if (++count == 8) {
                store_batch(row, count, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0)
        store_batch(row, count, ahead * p.token_stride);
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_write_rows_bf16_q8_kv_none_d64_g0__avx2_row_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    if (p->stream && ((p->cache.row_stride == 72 && last - first >= 8) ||
                      (p->cache.head_stride == 72 && p->heads >= 8)))
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_BF16,
    .format = {.element = KVMILL_Q8_KV, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_write_rows_bf16_q8_kv_none_d64_g0__avx2_row = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_bf16_q8_kv_none_d64_g0__avx2_row",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_bf16_q8_kv_none_d64_g0__avx2_row_run,
};
