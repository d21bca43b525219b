/* Read rows: products of codes and the scales of their groups.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_f32_i8_f32_d64_g8__avx2_groups */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
}

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
load_i8(const void *from)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
    __asm__("" : "+m"(*(kvmill_word32 *)to));
}

INLINED void
stream_f32(void *to, vf x)
{
    _mm256_stream_ps((float *)to, x);
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_row(unsigned char *to, const unsigned char *from, const unsigned char *scales)
{
    __attribute__((aligned(64))) float scale[8];
    store_kept(scale, load_f32(scales));
    {
        vf x = load_i8(from) * broadcast(scale[0]);
        stream_f32(to, x);
    }
    {
        vf x = load_i8(from + 8) * broadcast(scale[1]);
        stream_f32(to + 32, x);
    }
    {
        vf x = load_i8(from + 16) * broadcast(scale[2]);
        stream_f32(to + 64, x);
    }
    {
        vf x = load_i8(from + 24) * broadcast(scale[3]);
        stream_f32(to + 96, x);
    }
    {
        vf x = load_i8(from + 32) * broadcast(scale[4]);
        stream_f32(to + 128, x);
    }
    {
        vf x = load_i8(from + 40) * broadcast(scale[5]);
        stream_f32(to + 160, x);
    }
    {
        vf x = load_i8(from + 48) * broadcast(scale[6]);
        stream_f32(to + 192, x);
    }
    {
        vf x = load_i8(from + 56) * broadcast(scale[7]);
        stream_f32(to + 224, x);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; stream_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = p.cache.data + p.slot[t] * p.cache.row_stride;
        const unsigned char *scales = p.cache.scale + p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            for (int64_t r = 0; r < p.repeat; r++, to += p.head_stride)
                stream_row(to, from, scales);
            from += p.cache.head_stride;
            scales += p.cache.scale_head_stride;
        }
    }
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c")))
static void
store_row(unsigned char *to, const unsigned char *from, const unsigned char *scales)
{
    __attribute__((aligned(64))) float scale[8];
    store_kept(scale, load_f32(scales));
    {
        vf x = load_i8(from) * broadcast(scale[0]);
        store_f32(to, x);
    }
    {
        vf x = load_i8(from + 8) * broadcast(scale[1]);
        store_f32(to + 32, x);
    }
    {
        vf x = load_i8(from + 16) * broadcast(scale[2]);
        store_f32(to + 64, x);
    }
    {
        vf x = load_i8(from + 24) * broadcast(scale[3]);
        store_f32(to + 96, x);
    }
    {
        vf x = load_i8(from + 32) * broadcast(scale[4]);
        store_f32(to + 128, x);
    }
    {
        vf x = load_i8(from + 40) * broadcast(scale[5]);
        store_f32(to + 160, x);
    }
    {
        vf x = load_i8(from + 48) * broadcast(scale[6]);
        store_f32(to + 192, x);
    }
    {
        vf x = load_i8(from + 56) * broadcast(scale[7]);
        store_f32(to + 224, x);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; store_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = p.cache.data + p.slot[t] * p.cache.row_stride;
        const unsigned char *scales = p.cache.scale + p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            for (int64_t r = 0; r < p.repeat; r++, to += p.head_stride)
                store_row(to, from, scales);
            from += p.cache.head_stride;
            scales += p.cache.scale_head_stride;
        }
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_read_rows_f32_i8_f32_d64_g8__avx2_groups_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    if (p->stream && ((int64_t)(uintptr_t)p->activation | p->token_stride | p->head_stride) % 64 == 0)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F32,
    .format = {.element = KVMILL_I8, .dim = 64, .scale = KVMILL_F32, .quant_group = 8},
};

const struct kvmill_kernel kvmill_read_rows_f32_i8_f32_d64_g8__avx2_groups = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_f32_i8_f32_d64_g8__avx2_groups",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_f32_i8_f32_d64_g8__avx2_groups_run,
};
