/* Write rows: elements of keys whose pages are transposed.
   Generated; to reproduce:
   kvmill explain --source kvmill_write_rows_f16_f16t_none_d64_g16__avx2_pages */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

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
transpose(vf x[LANES])
{
    vf y[8];
    y[0] = _mm256_unpacklo_ps(x[0], x[1]);
    y[1] = _mm256_unpackhi_ps(x[0], x[1]);
    y[2] = _mm256_unpacklo_ps(x[2], x[3]);
    y[3] = _mm256_unpackhi_ps(x[2], x[3]);
    y[4] = _mm256_unpacklo_ps(x[4], x[5]);
    y[5] = _mm256_unpackhi_ps(x[4], x[5]);
    y[6] = _mm256_unpacklo_ps(x[6], x[7]);
    y[7] = _mm256_unpackhi_ps(x[6], x[7]);
    x[0] = _mm256_shuffle_ps(y[0], y[2], 0x44);
    x[1] = _mm256_shuffle_ps(y[0], y[2], 0xee);
    x[2] = _mm256_shuffle_ps(y[1], y[3], 0x44);
    x[3] = _mm256_shuffle_ps(y[1], y[3], 0xee);
    x[4] = _mm256_shuffle_ps(y[4], y[6], 0x44);
    x[5] = _mm256_shuffle_ps(y[4], y[6], 0xee);
    x[6] = _mm256_shuffle_ps(y[5], y[7], 0x44);
    x[7] = _mm256_shuffle_ps(y[5], y[7], 0xee);
    y[0] = _mm256_permute2f128_ps(x[0], x[4], 0x20);
    y[4] = _mm256_permute2f128_ps(x[0], x[4], 0x31);
    y[1] = _mm256_permute2f128_ps(x[1], x[5], 0x20);
    y[5] = _mm256_permute2f128_ps(x[1], x[5], 0x31);
    y[2] = _mm256_permute2f128_ps(x[2], x[6], 0x20);
    y[6] = _mm256_permute2f128_ps(x[2], x[6], 0x31);
    y[3] = _mm256_permute2f128_ps(x[3], x[7], 0x20);
    y[7] = _mm256_permute2f128_ps(x[3], x[7], 0x31);
    for (int i = 0; i < 8; i++)
        x[i] = y[i];
}

INLINED void
row_to_tile(const unsigned char *row, unsigned char *to)
{
    for (int i = 0; i < 128; i += 2)
        memcpy(to + i * 16, row + i, 2);
}

struct row {
    const unsigned char *from;
    unsigned char *to;
};

INLINED int
follow_each_other(const struct row *row, int count, int step)
{
    int n = 1;
    while (n < count && row[n].to == row[n - 1].to + step)
        n++;
    return n;
}

INLINED void
store_tile(unsigned char (*row)[128], unsigned char *to)
{
    for (int i = 0; i < 64; i += 8) {
        vf x[LANES];
        x[0] = load_f16(row[0] + i * 2);
        x[1] = load_f16(row[1] + i * 2);
        x[2] = load_f16(row[2] + i * 2);
        x[3] = load_f16(row[3] + i * 2);
        x[4] = load_f16(row[4] + i * 2);
        x[5] = load_f16(row[5] + i * 2);
        x[6] = load_f16(row[6] + i * 2);
        x[7] = load_f16(row[7] + i * 2);
        transpose(x);
        store_f16(to + i * 32, x[0]);
        store_f16(to + (i + 1) * 32, x[1]);
        store_f16(to + (i + 2) * 32, x[2]);
        store_f16(to + (i + 3) * 32, x[3]);
        store_f16(to + (i + 4) * 32, x[4]);
        store_f16(to + (i + 5) * 32, x[5]);
        store_f16(to + (i + 6) * 32, x[6]);
        store_f16(to + (i + 7) * 32, x[7]);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_together(const struct row *row, unsigned char (*together)[128], int count)
{
    for (int r = 0; r < count;) {
        const int rows = follow_each_other(row + r, count - r, 2);
        if (rows == 8)
            store_tile(together + r, row[r].to);
        else
            for (int n = r; n < r + rows; n++)
                row_to_tile(together[n], row[n].to);
        r += rows;
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
store_batch(struct row *row, int count, int64_t ahead)
{
    __attribute__((aligned(64))) unsigned char together[8][128];
    for (int r = count; r < 8; r++)
        row[r] = row[0];
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = together[r];
        __builtin_prefetch(row[r].from + ahead);
        __builtin_prefetch(row[r].from + ahead + 64);
        store_f16(to, load_f16(from));
        store_f16(to + 16, load_f16(from + 16));
        store_f16(to + 32, load_f16(from + 32));
        store_f16(to + 48, load_f16(from + 48));
        store_f16(to + 64, load_f16(from + 64));
        store_f16(to + 80, load_f16(from + 80));
        store_f16(to + 96, load_f16(from + 96));
        store_f16(to + 112, load_f16(from + 112));
    }
    store_together(row, together, count);
}

__attribute__((target("avx2,fma,f16c")))
static void
store_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert p = *problem;
    const int64_t heads = p.heads, heads_ahead = p.stream ? 8 : 0;
    struct row row[8];
    /* The loop nest: runs of tokens whose rows are together, heads, and the tokens of a run; store_batch()
       goes through 8 rows at a time.  */
    for (int64_t begin = first, end; begin < last; begin = end) {
        int count = 0;
        int64_t ahead = 0;
        end = begin + 16 - p.slot[begin] % 16;
        end = end < last ? end : last;
        for (int64_t h = 0; h < heads; h++) {
            ahead = (h + heads_ahead) / heads * 16 * p.token_stride + ((h + heads_ahead) % heads - h) * p.head_stride;
            for (int64_t t = begin; t < end; t++) {
                row[count].from = p.activation + t * p.token_stride + h * p.head_stride;
                row[count].to = p.cache.data + p.slot[t] / 16 * 16 * p.cache.row_stride + p.slot[t] % 16 * 2 +
                    h * p.cache.head_stride;
                if (++count == 8) {
                    store_batch(row, count, ahead);
                    count = 0;
                }
            }
        }
        if (count > 0)
            store_batch(row, count, ahead);
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
