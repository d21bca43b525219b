/* Store rows: one head in straight-line code, in a loop over the heads.
   Generated; to reproduce:
   kvmill explain --source kvmill_store_rows_u8_h32_m4096_s1_d192_circular__neon_heads */
#include "kvmill_kernel.h"

static int64_t
first_slot(const struct kvmill_rows *p, int64_t b)
{
    if (p->starts == NULL)
        return 0;
    int64_t start = p->starts[b * p->starts_stride];
    return start & 4095;
}

static void
kvmill_store_rows_u8_h32_m4096_s1_d192_circular__neon_heads_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    unsigned char *to = p.present;
    const unsigned char *from = p.update;
    /* The loop nest: batch entries, the heads of each, and the new rows of each head.  */
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * p.present_stride.batch, begin = b * p.update_stride.batch;
        int64_t slot = first_slot(&p, b);
        int64_t slot_0 = slot * p.present_stride.row;

        for (int h = 0; h < 32; h++) {
            *(kvmill_word16 *)(to + slot_0 + at) = *(const kvmill_word16 *)(from + begin);
            *(kvmill_word16 *)(to + slot_0 + at + 16) = *(const kvmill_word16 *)(from + begin + 16);
            *(kvmill_word16 *)(to + slot_0 + at + 32) = *(const kvmill_word16 *)(from + begin + 32);
            *(kvmill_word16 *)(to + slot_0 + at + 48) = *(const kvmill_word16 *)(from + begin + 48);
            *(kvmill_word16 *)(to + slot_0 + at + 64) = *(const kvmill_word16 *)(from + begin + 64);
            *(kvmill_word16 *)(to + slot_0 + at + 80) = *(const kvmill_word16 *)(from + begin + 80);
            *(kvmill_word16 *)(to + slot_0 + at + 96) = *(const kvmill_word16 *)(from + begin + 96);
            *(kvmill_word16 *)(to + slot_0 + at + 112) = *(const kvmill_word16 *)(from + begin + 112);
            *(kvmill_word16 *)(to + slot_0 + at + 128) = *(const kvmill_word16 *)(from + begin + 128);
            *(kvmill_word16 *)(to + slot_0 + at + 144) = *(const kvmill_word16 *)(from + begin + 144);
            *(kvmill_word16 *)(to + slot_0 + at + 160) = *(const kvmill_word16 *)(from + begin + 160);
            *(kvmill_word16 *)(to + slot_0 + at + 176) = *(const kvmill_word16 *)(from + begin + 176);
            at += p.present_stride.head;
            begin += p.update_stride.head;
        }
    }
}

static const struct kvmill_rows_shape shape = {
    .unit_bits = 8,
    .circular = 1,
    .heads = 32,
    .capacity = 4096,
    .rows = 1,
    .row = 192,
};

const struct kvmill_kernel kvmill_store_rows_u8_h32_m4096_s1_d192_circular__neon_heads = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_STORE_ROWS,
    .symbol = "kvmill_store_rows_u8_h32_m4096_s1_d192_circular__neon_heads",
    .isa = "neon",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_store_rows_u8_h32_m4096_s1_d192_circular__neon_heads_run,
};
