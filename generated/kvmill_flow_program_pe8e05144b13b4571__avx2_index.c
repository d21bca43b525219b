/* Score the pages of a row.
   index 2 16;
   field f0 f16 1 128;
   query q f16 4 128;
   atom r0 1 4;
   over 1 r1 1 4 Softmax 0x1.70a3d8p-4 0 r0;
   page 1 r2 1 1 Max 2 r1;
   keep r0;
   keep r1;
   keep r2.
   Generated; to reproduce:
   kvmill explain --kernels specs.json --source kvmill_flow_program_pe8e05144b13b4571__avx2_index */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED uint32_t
bits_of(float value)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

INLINED float
float_of(uint32_t u)
{
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
from_halves(halves h)
{
    return _mm256_cvtph_ps((__m128i)h);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word32 *)to));
}

INLINED void
load_floats_f16(float *to, const unsigned char *from, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        store_kept(to + i, load_f16(from + 2 * i));
    if (i < count) {
        unsigned char part[16] = {0};
        float rest[8];
        memcpy(part, from + 2 * i, (size_t)(count - i) * 2);
        store_kept(rest, load_f16(part));
        memcpy(to + i, rest, (size_t)(count - i) * sizeof *to);
    }
}

struct values {
    float f0[128];
    float q[512];
};

INLINED float
exponential(float x, float minus_0)
{
    float above = x > 89.f ? 89.f : x, within = above < -104.f ? -104.f : above;
    float shifted = within * 1.44269504f + minus_0 + 0x1.8p23f, n = shifted - 0x1.8p23f;
    float first = within - (n * 0x1.63p-1f + minus_0), r = first - (n * -2.12194440e-4f + minus_0);
    float y = 1.9875691500e-4f;
    y = y * r + minus_0 + 1.3981999507e-3f;
    y = y * r + minus_0 + 8.3334519073e-3f;
    y = y * r + minus_0 + 4.1665795894e-2f;
    y = y * r + minus_0 + 1.6666665459e-1f;
    y = y * r + minus_0 + 5.0000001201e-1f;
    y = (y * r + minus_0) * r + minus_0 + r + 1.f;
    int32_t k = (int32_t)(bits_of(shifted) - 0x4b400000u), half = k >> 1;
    return (y * float_of((uint32_t)(half + 127) << 23) + minus_0) * float_of((uint32_t)(k - half + 127) << 23) +
           minus_0;
}

enum { TERMS = 16 };

INLINED float
added(float lane[TERMS])
{
    for (int l = 0; l < 8; l++)
        lane[l] += lane[l + 8];
    for (int l = 0; l < 4; l++)
        lane[l] += lane[l + 4];
    return lane[0] + lane[2] + (lane[1] + lane[3]);
}

INLINED float
sum_across(const float *x, int64_t count, float minus_0)
{
    float lane[TERMS] = {0};
    int64_t i = 0;
    (void)minus_0;
    for (; i + TERMS <= count; i += TERMS)
        for (int l = 0; l < TERMS; l++)
            lane[l] += x[i + l];
    for (int l = 0; l < count % TERMS; l++)
        lane[l] += x[i + l];
    return added(lane);
}

INLINED float
largest_across(const float *x, int64_t count)
{
    float y = x[0];
    for (int64_t i = 1; i < count; i++)
        y = x[i] > y ? x[i] : y;
    return y;
}

/* -0, in a form from which compilers cannot tell that adding it changes nothing.  */
INLINED float
hidden_zero(void)
{
    float zero = -0.f;
    __asm__("" : "+m"(zero));
    return zero;
}

INLINED void
sum_over(float *to, const float *x, int64_t pages, int64_t size, float minus_0)
{
    if (size == 1) {
        *to = sum_across(x, pages, minus_0);
        return;
    }
    for (int64_t first = 0; first < size; first += TERMS) {
        float lane[TERMS][TERMS] = {{0}};
        int64_t some = size - first < TERMS ? size - first : TERMS;
        for (int64_t s = 0; s < pages; s++)
            for (int64_t e = 0; e < some; e++)
                lane[s % TERMS][e] += x[s * size + first + e];
        for (int apart = TERMS / 2; apart > 0; apart /= 2)
            for (int l = 0; l < apart; l++)
                for (int64_t e = 0; e < some; e++)
                    lane[l][e] += lane[l + apart][e];
        for (int64_t e = 0; e < some; e++)
            to[first + e] = lane[0][e];
    }
}

INLINED void
largest_over(float *to, const float *x, int64_t pages, int64_t size)
{
    for (int64_t e = 0; e < size; e++)
        to[e] = pages > 0 ? x[e] : 0;
    for (int64_t s = 1; s < pages; s++)
        for (int64_t e = 0; e < size; e++)
            to[e] = x[s * size + e] > to[e] ? x[s * size + e] : to[e];
}

__attribute__((target("avx2,fma,f16c")))
static void
begin_0(const struct kvmill_flow_scores *p)
{
    struct values *w = (struct values *)(void *)p->workspace;
    for (int64_t r = 0; r < 4; r++)
        load_floats_f16(w->q + r * 128, p->query + r * p->query_stride, 128);
}

__attribute__((target("avx2,fma,f16c")))
static void
begin_1(const struct kvmill_flow_scores *p)
{
    float *restrict const all_r0 = p->workspace + 640;
    float *restrict const all_r1 = p->workspace + 640 + 4 * p->pages;
    const float minus_0 = hidden_zero();

    float of_row[4];
    for (int64_t s = 0; s < p->pages; s++)
        for (int64_t e = 0; e < 4; e++)
            all_r1[s * 4 + e] = 0x1.70a3d8p-4f * all_r0[s * 4 + e] + minus_0;
    largest_over(of_row, all_r1, p->pages, 4);
    for (int64_t s = 0; s < p->pages; s++)
        for (int64_t e = 0; e < 4; e++)
            all_r1[s * 4 + e] = exponential(all_r1[s * 4 + e] - of_row[e], minus_0);
    sum_over(of_row, all_r1, p->pages, 4, minus_0);
    for (int64_t s = 0; s < p->pages; s++)
        for (int64_t e = 0; e < 4; e++)
            all_r1[s * 4 + e] = all_r1[s * 4 + e] / of_row[e];
}

INLINED void
page_1(const struct kvmill_flow_scores *p, int64_t s, float minus_0)
{
    float *restrict const all_r1 = p->workspace + 640 + 4 * p->pages;
    float *restrict const all_r2 = p->workspace + 640 + 8 * p->pages;
    (void)minus_0;

    all_r2[s] = largest_across(all_r1 + s * 4, 4);
}

__attribute__((target("avx2,fma,f16c")))
static void
pages_1(const struct kvmill_flow_scores *p)
{
    const float minus_0 = hidden_zero();
    for (int64_t s = 0; s < p->pages; s++)
        page_1(p, s, minus_0);
}

__attribute__((target("avx2,fma,f16c")))
static void
nothing(const struct kvmill_flow_scores *p)
{
    (void)p;
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_flow_program_pe8e05144b13b4571__avx2_index_run(const void *problem, int64_t first, int64_t last)
{
    static void (*const phases[])(const struct kvmill_flow_scores *p) = {begin_0, nothing, begin_1, pages_1, nothing};
    /* The loop nest: phases, and the pages of each; for these step after step, each over its rows and columns.  */
    for (int64_t phase = first; phase < last; phase++)
        phases[phase](problem);
}

static const struct kvmill_flow_program_shape shape = {
    .program = "index 2 16; "
        "field f0 f16 1 128; "
        "query q f16 4 128; "
        "atom r0 1 4; "
        "over 1 r1 1 4 Softmax 0x1.70a3d8p-4 0 r0; "
        "page 1 r2 1 1 Max 2 r1; "
        "keep r0; "
        "keep r1; "
        "keep r2",
};

const struct kvmill_kernel kvmill_flow_program_pe8e05144b13b4571__avx2_index = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_FLOW_PROGRAM,
    .symbol = "kvmill_flow_program_pe8e05144b13b4571__avx2_index",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_flow_program_pe8e05144b13b4571__avx2_index_run,
};
