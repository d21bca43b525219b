/* Write rows: each element rounded to the type of the cache.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_f32_f16_none_d16_g0__avx2_cast */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
load_f32(const void *from)
{
    return *(const vf_any *)from;
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

__attribute__((target("avx2,fma,f16c")))
static void
store_row(const unsigned char *from, unsigned char *to)
{
    store_f16(to, load_f32(from));
    store_f16(to + 16, load_f32(from + 32));
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; store_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * p.cache.row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            store_row(from, to);
            from += p.head_stride;
            to += p.cache.head_stride;
        }
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_write_rows_f32_f16_none_d16_g0__avx2_cast_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F32,
    .format = {.element = KVMILL_F16, .dim = 16, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_write_rows_f32_f16_none_d16_g0__avx2_cast = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_f32_f16_none_d16_g0__avx2_cast",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_f32_f16_none_d16_g0__avx2_cast_run,
};
