/* Store rows: all heads of a batch entry in straight-line code.
   Generated; to reproduce:
   kvmill explain --source kvmill_store_rows_u4_h2_mn_s1_d5_linear__scalar_line */
#include "kvmill_kernel.h"

static unsigned
nibble_at(const unsigned char *from, int64_t begin)
{
    return from[begin / 2] >> (begin % 2 * 4) & 0x0f;
}

static void
set_low(unsigned char *to, unsigned nibble)
{
    *to = (unsigned char)((*to & 0xf0) | nibble);
}

static void
set_high(unsigned char *to, unsigned nibble)
{
    *to = (unsigned char)((*to & 0x0f) | nibble << 4);
}

static int64_t
first_slot(const struct kvmill_rows *p, int64_t b)
{
    if (p->starts == NULL)
        return 0;
    int64_t start = p->starts[b * p->starts_stride];
    return start;
}

static void
kvmill_store_rows_u4_h2_mn_s1_d5_linear__scalar_line_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    unsigned char *to = p.present;
    const unsigned char *from = p.update;
    /* The loop nest: batch entries, the heads of each, and the new rows of each head.  */
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * p.present_stride.batch, begin = b * p.update_stride.batch;
        int64_t slot = first_slot(&p, b);
        int64_t slot_0 = slot * p.present_stride.row;

        /* Head 0.  */
        {
            unsigned char *t = to + (slot_0 + at) / 2 + (slot_0 + at) % 2;
            if ((slot_0 + at) % 2 == 0)
                set_low(t + 2, nibble_at(from, begin + 4));
            else
                set_high(t - 1, nibble_at(from, begin));
            const unsigned char *f = from + (begin + (slot_0 + at) % 2) / 2;
            if ((slot_0 + at + begin) % 2 == 0) {
                *(kvmill_word2 *)t = *(const kvmill_word2 *)f;
            } else {
                *t = (unsigned char)(*f >> 4 | *(f + 1) << 4);
                *(t + 1) = (unsigned char)(*(f + 1) >> 4 | *(f + 2) << 4);
            }
        }
        at += p.present_stride.head;
        begin += p.update_stride.head;
        /* Head 1.  */
        {
            unsigned char *t = to + (slot_0 + at) / 2 + (slot_0 + at) % 2;
            if ((slot_0 + at) % 2 == 0)
                set_low(t + 2, nibble_at(from, begin + 4));
            else
                set_high(t - 1, nibble_at(from, begin));
            const unsigned char *f = from + (begin + (slot_0 + at) % 2) / 2;
            if ((slot_0 + at + begin) % 2 == 0) {
                *(kvmill_word2 *)t = *(const kvmill_word2 *)f;
            } else {
                *t = (unsigned char)(*f >> 4 | *(f + 1) << 4);
                *(t + 1) = (unsigned char)(*(f + 1) >> 4 | *(f + 2) << 4);
            }
        }
        at += p.present_stride.head;
        begin += p.update_stride.head;
    }
}

static const struct kvmill_rows_shape shape = {
    .unit_bits = 4,
    .circular = 0,
    .heads = 2,
    .capacity = KVMILL_ANY,
    .rows = 1,
    .row = 5,
};

const struct kvmill_kernel kvmill_store_rows_u4_h2_mn_s1_d5_linear__scalar_line = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_STORE_ROWS,
    .symbol = "kvmill_store_rows_u4_h2_mn_s1_d5_linear__scalar_line",
    .isa = "scalar",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_store_rows_u4_h2_mn_s1_d5_linear__scalar_line_run,
};
