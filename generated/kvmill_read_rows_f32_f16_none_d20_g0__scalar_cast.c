/* Read rows: each element rounded to the type of the activations.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_f32_f16_none_d20_g0__scalar_cast */
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
from_halves(halves h)
{
    vu bits = __builtin_convertvector(h, vu), magnitude = bits & 0x7fff;
    vf normal = (vf)((magnitude << 13) + (112U << 23));
    vf special = (vf)((magnitude << 13) | 0x7f800000U);
    vf small = __builtin_convertvector((vi)magnitude, vf) * 0x1p-24f;
    vf x = choose((vi)magnitude >= 0x7c00, special, choose((vi)magnitude < 0x400, small, normal));
    return (vf)((vu)x | (bits & 0x8000) << 16);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

static void
store_row(unsigned char *to, const unsigned char *from)
{
    for (int e = 0; e + 4 <= 20; e += 4)
        {
            store_f32(to + e * 4, load_f16(from + e * 2));
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
kvmill_read_rows_f32_f16_none_d20_g0__scalar_cast_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F32,
    .format = {.element = KVMILL_F16, .dim = 20, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_read_rows_f32_f16_none_d20_g0__scalar_cast = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_f32_f16_none_d20_g0__scalar_cast",
    .isa = "scalar",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_f32_f16_none_d20_g0__scalar_cast_run,
};
