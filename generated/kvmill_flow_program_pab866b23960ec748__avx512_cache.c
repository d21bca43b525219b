/* Summarise a page of one kv head.
   cache 16 growing;
   rows k f16 none 0 n 128;
   field f0 f16 1 128;
   field f1 f16 1 128;
   step f0 1 128 Max 1 k;
   step f1 1 128 Min 1 k.
   Generated; to reproduce:
   kvmill explain --kernels specs.json --source kvmill_flow_program_pab866b23960ec748__avx512_cache */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))

enum { LANES = 16 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
load_f32(const void *from)
{
    return *(const vf_any *)from;
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
from_halves(halves h)
{
    return _mm512_cvtph_ps((__m256i)h);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED halves
to_halves(vf x)
{
    return (halves)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

INLINED void
store_f16(void *to, vf x)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word64 *)to));
}

INLINED void
load_floats_f16(float *to, const unsigned char *from, int64_t count)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        store_kept(to + i, load_f16(from + 2 * i));
    if (i < count) {
        unsigned char part[32] = {0};
        float rest[16];
        memcpy(part, from + 2 * i, (size_t)(count - i) * 2);
        store_kept(rest, load_f16(part));
        memcpy(to + i, rest, (size_t)(count - i) * sizeof *to);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static __attribute__((noinline)) void
store_some_floats_f16(unsigned char *to, float *from, size_t some, int direction)
{
    float exact[16] = {0}, near[16];
    uint16_t half[16];
    memcpy(exact, from, some * sizeof *exact);
    store_f16((unsigned char *)half, load_f32(exact));
    store_kept(near, load_f16((const unsigned char *)half));
    for (int l = 0; direction != 0 && l < 16; l++) {
        uint32_t u = half[l], is_negative = u >> 15;
        uint32_t beyond = direction > 0 ? near[l] < exact[l] : near[l] > exact[l];
        uint32_t inwards = direction > 0 ? is_negative : 1 - is_negative;
        half[l] = (uint16_t)(u + beyond - 2 * (beyond & inwards));
    }
    store_kept(near, load_f16((const unsigned char *)half));
    memcpy(to, half, some * sizeof *half);
    memcpy(from, near, some * sizeof *near);
}

INLINED void
store_floats_f16(unsigned char *to, float *from, int64_t count, int direction)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        store_some_floats_f16(to + 2 * i, from + i, 16, direction);
    if (i < count)
        store_some_floats_f16(to + 2 * i, from + i, (size_t)(count - i), direction);
}

INLINED void
load_k(float *to, const unsigned char *from, const unsigned char *scales)
{
    (void)scales;
    load_floats_f16(to, from, 128);
}

struct values {
    float k[2048];
    float f0[128];
    float f1[128];
};

INLINED void
largest_down(float *restrict to, const float *restrict x, int64_t count, int64_t columns, float minus_0)
{
    for (int64_t j = 0; j < columns; j++)
        to[j] = x[j] + minus_0;
    for (int64_t r = 1; r < count; r++)
        for (int64_t j = 0; j < columns; j++)
            to[j] = x[r * columns + j] > to[j] ? x[r * columns + j] : to[j];
}

INLINED void
least_down(float *restrict to, const float *restrict x, int64_t count, int64_t columns, float minus_0)
{
    for (int64_t j = 0; j < columns; j++)
        to[j] = x[j] + minus_0;
    for (int64_t r = 1; r < count; r++)
        for (int64_t j = 0; j < columns; j++)
            to[j] = x[r * columns + j] < to[j] ? x[r * columns + j] : to[j];
}

/* -0, in a form from which compilers cannot tell that adding it changes nothing.  */
INLINED float
hidden_zero(void)
{
    float zero = -0.f;
    __asm__("" : "+m"(zero));
    return zero;
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
summarise(const struct kvmill_flow_summary *p, int64_t head, struct values *w)
{
    const int64_t rows = p->rows;
    const float minus_0 = hidden_zero();
    /* The loop nest: the rows of the page; then step after step, each over its rows and columns.  */
    for (int64_t r = 0; r < rows; r++)
        load_k(w->k + r * 128, p->key.data + r * p->key.row_stride + head * p->key.head_stride, NULL);

    largest_down(w->f0, w->k, rows, 128, minus_0);
    store_floats_f16(p->field[0] + (p->page * p->kv_heads + head) * 256, w->f0, 128, 1);

    least_down(w->f1, w->k, rows, 128, minus_0);
    store_floats_f16(p->field[1] + (p->page * p->kv_heads + head) * 256, w->f1, 128, -1);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_flow_program_pab866b23960ec748__avx512_cache_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_flow_summary *p = problem;
    for (int64_t head = first; head < last; head++)
        summarise(p, head, (struct values *)(void *)p->workspace);
}

static const struct kvmill_flow_program_shape shape = {
    .program = "cache 16 growing; "
        "rows k f16 none 0 n 128; "
        "field f0 f16 1 128; "
        "field f1 f16 1 128; "
        "step f0 1 128 Max 1 k; "
        "step f1 1 128 Min 1 k",
};

const struct kvmill_kernel kvmill_flow_program_pab866b23960ec748__avx512_cache = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_FLOW_PROGRAM,
    .symbol = "kvmill_flow_program_pab866b23960ec748__avx512_cache",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_flow_program_pab866b23960ec748__avx512_cache_run,
};
