/* Write rows: elements of keys whose pages are transposed.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages */
#include <immintrin.h>
#include "kvmill_kernel.h"

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

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

INLINED void
row_to_tile(const unsigned char *row, unsigned char *to)
{
    for (int i = 0; i < 128; i += 2)
        memcpy(to + i * 16, row + i, 2);
}

INLINED void
rows_to_tile(unsigned char (*row)[128], unsigned char *to)
{
    for (int i = 0; i < 128; i += 2)
        for (int r = 0; r < 8; r++)
            memcpy(to + i * 16 + r * 2, row[r] + i, 2);
}

struct row {
    const unsigned char *from;
    unsigned char *to;
};

INLINED int
follow_each_other(const struct row *row, int count)
{
    int n = 1;
    while (n < count && row[n].to == row[n - 1].to + 2)
        n++;
    return n;
}

INLINED void
put_in_tiles(const struct row *row, unsigned char (*codes)[128], int count)
{
    for (int r = 0; r < count;)
        if (follow_each_other(row + r, count - r) >= 8) {
            rows_to_tile(codes + r, row[r].to);
            r += 8;
        } else {
            row_to_tile(codes[r], row[r].to);
            r++;
        }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_batch(struct row *row, int count, int64_t ahead)
{
    unsigned char codes[8][128];
    (void)ahead;
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = codes[r];
        {
            store_f16(to, load_f16(from));
        }
        {
            store_f16(to + 16, load_f16(from + 16));
        }
        {
            store_f16(to + 32, load_f16(from + 32));
        }
        {
            store_f16(to + 48, load_f16(from + 48));
        }
        {
            store_f16(to + 64, load_f16(from + 64));
        }
        {
            store_f16(to + 80, load_f16(from + 80));
        }
        {
            store_f16(to + 96, load_f16(from + 96));
        }
        {
            store_f16(to + 112, load_f16(from + 112));
        }
    }
    put_in_tiles(row, codes, count);
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    struct row row[8];
    int count = 0;
    const int64_t token = 128;
    const int64_t ahead = p.stream ? (4096 + token - 1) / token : 0;
    /* The loop nest: heads, then tokens, which share tiles; store_batch() goes through 8 rows.  */
    for (int64_t h = 0; h < p.heads; h++)
        for (int64_t t = first; t < last; t++) {
            row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
            row[count].to = p.cache.data + p.slot[t] / 16 * 16 * p.cache.row_stride + p.slot[t] % 16 * 2 +
                h * p.cache.head_stride;
            if (++count == 8) {
                store_batch(row, 8, ahead * p.token_stride);
                count = 0;
            }
        }
    if (count > 0) {
        for (int r = count; r < 8; r++)
            row[r] = row[0];
        store_batch(row, count, ahead * p.token_stride);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F16,
    .format = {.element = KVMILL_F16T, .dim = 64, .scale = 0, .quant_group = 16},
};

const struct kvmill_kernel kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages_run,
};
