/* Read rows: products of codes and the scale of their row.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_f32_q8_kv_none_d64_g0__neon_row */
#include <arm_neon.h>
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

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

INLINED uint8x8_t
four_bytes(const void *from)
{
    return vcreate_u8(*(const kvmill_word4 *)from);
}

INLINED vf
load_i8(const void *from)
{
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(four_bytes(from))))));
}

static void
store_row(unsigned char *to, const unsigned char *from)
{
    float scale;
    memcpy(&scale, from, sizeof scale);
    for (int e = 0; e + 4 <= 64; e += 4)
        store_f32(to + e * 4, load_i8(from + e / 32 * 32 + 8 + e % 32) * broadcast(scale));
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
kvmill_read_rows_f32_q8_kv_none_d64_g0__neon_row_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F32,
    .format = {.element = KVMILL_Q8_KV, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_read_rows_f32_q8_kv_none_d64_g0__neon_row = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_f32_q8_kv_none_d64_g0__neon_row",
    .isa = "neon",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_f32_q8_kv_none_d64_g0__neon_row_run,
};
