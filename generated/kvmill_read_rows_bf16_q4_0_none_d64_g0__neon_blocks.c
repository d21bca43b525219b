/* Read rows: products of the codes of blocks and their scale.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_bf16_q4_0_none_d64_g0__neon_blocks */
#include <arm_neon.h>
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x};
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
from_halves(halves h)
{
    return (vf)vcvt_f32_f16((float16x4_t)h);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED vf
choose(vi mask, vf a, vf b)
{
    return (vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}

INLINED halves
to_brains(vf x)
{
    vu bits = (vu)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu result = (vu)choose(x != x, (vf)(bits | 0x400000), (vf)rounded) >> 16;
    return __builtin_convertvector(result, halves);
}

INLINED void
store_bf16(void *to, vf x)
{
    halves h = to_brains(x);
    memcpy(to, &h, sizeof h);
}

INLINED void
store_kept(float *to, vf x)
{
    store_f32(to, x);
}

INLINED uint8x8_t
four_bytes(const void *from)
{
    return vcreate_u8(*(const kvmill_word4 *)from);
}

INLINED vi
load_u8(const void *from)
{
    return (vi)vmovl_u16(vget_low_u16(vmovl_u8(four_bytes(from))));
}

INLINED vf
load_q4_0(const void *codes, int64_t i, int shift)
{
    return __builtin_convertvector((load_u8((const char *)codes + i) >> shift & 15) - 8, vf);
}

static void
store_row(unsigned char *to, const unsigned char *from)
{
    unsigned char halves[8] = {0};
    float scale[4];
    for (int e = 0; e + 32 <= 64; e += 32)
        {
            memcpy(halves, from + e / 32 * 18, 2);
            store_kept(scale, load_f16(halves));
            for (int i = 0; i + 4 <= 16; i += 4)
                store_bf16(to + (e + i) * 2, load_q4_0(from + e / 32 * 18 + 2, i, 0) * broadcast(scale[0]));
            for (int i = 0; i + 4 <= 16; i += 4)
                store_bf16(to + (e + 16 + i) * 2, load_q4_0(from + e / 32 * 18 + 2, i, 4) * broadcast(scale[0]));
        }
}

static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; store_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = p.cache.data + p.slot[t] * p.cache.row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            for (int64_t r = 0; r < p.repeat; r++, to += p.head_stride)
                store_row(to, from);
            from += p.cache.head_stride;
        }
    }
}

static void
kvmill_read_rows_bf16_q4_0_none_d64_g0__neon_blocks_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_BF16,
    .format = {.element = KVMILL_Q4_0, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_read_rows_bf16_q4_0_none_d64_g0__neon_blocks = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_bf16_q4_0_none_d64_g0__neon_blocks",
    .isa = "neon",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_bf16_q4_0_none_d64_g0__neon_blocks_run,
};
