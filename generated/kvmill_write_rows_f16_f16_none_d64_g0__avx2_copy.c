/* Write rows: copies.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_f16_f16_none_d64_g0__avx2_copy */
#include "kvmill_kernel.h"

__attribute__((target("avx2,fma,f16c")))
static void
stream_row(const unsigned char *from, unsigned char *to)
{
    __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)to) : "x"(*(const kvmill_word32 *)from));
    __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + 32)) : "x"(*(const kvmill_word32 *)(from + 32)));
    __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + 64)) : "x"(*(const kvmill_word32 *)(from + 64)));
    __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(to + 96)) : "x"(*(const kvmill_word32 *)(from + 96)));
}

__attribute__((target("avx2,fma,f16c")))
static void
stream_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; stream_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * p.cache.row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            stream_row(from, to);
            from += p.head_stride;
            to += p.cache.head_stride;
        }
    }
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c")))
static void
store_row(const unsigned char *from, unsigned char *to)
{
    *(kvmill_word32 *)to = *(const kvmill_word32 *)from;
    *(kvmill_word32 *)(to + 32) = *(const kvmill_word32 *)(from + 32);
    *(kvmill_word32 *)(to + 64) = *(const kvmill_word32 *)(from + 64);
    *(kvmill_word32 *)(to + 96) = *(const kvmill_word32 *)(from + 96);
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
kvmill_write_rows_f16_f16_none_d64_g0__avx2_copy_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    if (p->stream && ((int64_t)(uintptr_t)p->cache.data | p->cache.row_stride | p->cache.head_stride) % 64 == 0)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F16,
    .format = {.element = KVMILL_F16, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_write_rows_f16_f16_none_d64_g0__avx2_copy = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_f16_f16_none_d64_g0__avx2_copy",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_f16_f16_none_d64_g0__avx2_copy_run,
};
