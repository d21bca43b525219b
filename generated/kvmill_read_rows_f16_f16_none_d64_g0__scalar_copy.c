/* Read rows: copies.
   Generated; to reproduce:
   kvmill explain --source kvmill_read_rows_f16_f16_none_d64_g0__scalar_copy */
#include "kvmill_kernel.h"

static void
store_row(unsigned char *to, const unsigned char *from)
{
    *(kvmill_word8 *)to = *(const kvmill_word8 *)from;
    *(kvmill_word8 *)(to + 8) = *(const kvmill_word8 *)(from + 8);
    *(kvmill_word8 *)(to + 16) = *(const kvmill_word8 *)(from + 16);
    *(kvmill_word8 *)(to + 24) = *(const kvmill_word8 *)(from + 24);
    *(kvmill_word8 *)(to + 32) = *(const kvmill_word8 *)(from + 32);
    *(kvmill_word8 *)(to + 40) = *(const kvmill_word8 *)(from + 40);
    *(kvmill_word8 *)(to + 48) = *(const kvmill_word8 *)(from + 48);
    *(kvmill_word8 *)(to + 56) = *(const kvmill_word8 *)(from + 56);
    *(kvmill_word8 *)(to + 64) = *(const kvmill_word8 *)(from + 64);
    *(kvmill_word8 *)(to + 72) = *(const kvmill_word8 *)(from + 72);
    *(kvmill_word8 *)(to + 80) = *(const kvmill_word8 *)(from + 80);
    *(kvmill_word8 *)(to + 88) = *(const kvmill_word8 *)(from + 88);
    *(kvmill_word8 *)(to + 96) = *(const kvmill_word8 *)(from + 96);
    *(kvmill_word8 *)(to + 104) = *(const kvmill_word8 *)(from + 104);
    *(kvmill_word8 *)(to + 112) = *(const kvmill_word8 *)(from + 112);
    *(kvmill_word8 *)(to + 120) = *(const kvmill_word8 *)(from + 120);
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
kvmill_read_rows_f16_f16_none_d64_g0__scalar_copy_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_convert *p = problem;
    store_rows(p, first, last);
}

static const struct kvmill_convert_shape shape = {
    .activation = KVMILL_F16,
    .format = {.element = KVMILL_F16, .dim = 64, .scale = 0, .quant_group = 0},
};

const struct kvmill_kernel kvmill_read_rows_f16_f16_none_d64_g0__scalar_copy = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_READ_ROWS,
    .symbol = "kvmill_read_rows_f16_f16_none_d64_g0__scalar_copy",
    .isa = "scalar",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_read_rows_f16_f16_none_d64_g0__scalar_copy_run,
};
