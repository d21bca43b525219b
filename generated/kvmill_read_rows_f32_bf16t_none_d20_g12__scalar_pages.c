/* Read rows: elements of keys whose pages are transposed.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_f32_bf16t_none_d20_g12__scalar_pages */
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

enum { LANES = 4 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vu
widened(halves h)
{
    return __builtin_convertvector(h, vu);
}

INLINED vf
load_bf16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}

INLINED void
row_from_tile(unsigned char *row, const unsigned char *from)
{
    for (int i = 0; i < 40; i += 2)
        memcpy(row + i, from + i * 12, 2);
}

static void
store_row(unsigned char *to, const unsigned char *from)
{
    unsigned char in_turn[40];
    row_from_tile(in_turn, from);
    from = in_turn;
    for (int e = 0; e + 4 <= 20; e += 4)
        {
            store_f32(to + e * 4, load_bf16(from + e * 2));
        }
}

static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; store_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = p.cache.data + p.slot[t] / 12 * 12 * p.cache.row_stride + p.slot[t] % 12 * 2;
        for (int64_t h = 0; h < p.heads; h++) {
            for (int64_t r = 0; r < p.repeat; r++, to += p.head_stride)
                store_row(to, from);
            from += p.cache.head_stride;
        }
    }
}

static void
kvmill_read_rows_f32_bf16t_none_d20_g12__scalar_pages_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F32,
    .format = {.element = KVMILL_BF16T, .dim = 20, .scale = 0, .quant_group = 12},
};

const struct kvmill_kernel kvmill_read_rows_f32_bf16t_none_d20_g12__scalar_pages = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_f32_bf16t_none_d20_g12__scalar_pages",
    .isa = "scalar",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_f32_bf16t_none_d20_g12__scalar_pages_run,
};
