/* Store rows: all heads of a batch entry in straight-line code.
   Generated; to reproduce:
   kvmill explain --source kvmill_store_rows_u8_h2_mn_s1_d128_linear_pb131072_ph65536_pr128_ub256_uh128__avx512_line */
#include "kvmill_kernel.h"

static int64_t
first_slot(const struct kvmill_rows *p, int64_t b)
{
    if (p->starts == NULL)
        return 0;
    int64_t start = p->starts[b * p->starts_stride];
    return start;
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store_around(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    unsigned char *to = p.present;
    const unsigned char *from = p.update;
    /* The loop nest: batch entries, the heads of each, and the new rows of each head.  */
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * INT64_C(131072), begin = b * INT64_C(256);
        int64_t slot = first_slot(&p, b);
        int64_t slot_0 = slot * INT64_C(128);

        /* Head 0.  */
        __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(to + slot_0 + at)) :
                         "v"(*(const kvmill_word64 *)(from + begin)));
        __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(to + slot_0 + at + 64)) :
                         "v"(*(const kvmill_word64 *)(from + begin + 64)));
        at += INT64_C(65536);
        begin += INT64_C(128);
        /* Head 1.  */
        __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(to + slot_0 + at)) :
                         "v"(*(const kvmill_word64 *)(from + begin)));
        __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(to + slot_0 + at + 64)) :
                         "v"(*(const kvmill_word64 *)(from + begin + 64)));
        at += INT64_C(65536);
        begin += INT64_C(128);
    }
    __builtin_ia32_sfence();
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
store(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    unsigned char *to = p.present;
    const unsigned char *from = p.update;
    /* The loop nest: batch entries, the heads of each, and the new rows of each head.  */
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * INT64_C(131072), begin = b * INT64_C(256);
        int64_t slot = first_slot(&p, b);
        int64_t slot_0 = slot * INT64_C(128);

        /* Head 0.  */
        *(kvmill_word64 *)(to + slot_0 + at) = *(const kvmill_word64 *)(from + begin);
        *(kvmill_word64 *)(to + slot_0 + at + 64) = *(const kvmill_word64 *)(from + begin + 64);
        at += INT64_C(65536);
        begin += INT64_C(128);
        /* Head 1.  */
        *(kvmill_word64 *)(to + slot_0 + at) = *(const kvmill_word64 *)(from + begin);
        *(kvmill_word64 *)(to + slot_0 + at + 64) = *(const kvmill_word64 *)(from + begin + 64);
        at += INT64_C(65536);
        begin += INT64_C(128);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_store_rows_u8_h2_mn_s1_d128_linear_pb131072_ph65536_pr128_ub256_uh128__avx512_line_run(const void *problem,
    int64_t first, int64_t last)
{
    const struct kvmill_rows *p = problem;
    int64_t all = (int64_t)(uintptr_t)p->present | INT64_C(131072) | INT64_C(65536) | INT64_C(128);
    if (p->stream_store && all % 64 == 0)
        store_around(p, first, last);
    else
        store(p, first, last);
}

static const struct kvmill_rows_shape shape = {
    .unit_bits = 8,
    .circular = 0,
    .heads = 2,
    .capacity = KVMILL_ANY,
    .rows = 1,
    .row = 128,
};

static const struct kvmill_constant constants[] = {
    {"present_stride.batch", offsetof(struct kvmill_rows, present_stride.batch), INT64_C(131072)},
    {"present_stride.head", offsetof(struct kvmill_rows, present_stride.head), INT64_C(65536)},
    {"present_stride.row", offsetof(struct kvmill_rows, present_stride.row), INT64_C(128)},
    {"update_stride.batch", offsetof(struct kvmill_rows, update_stride.batch), INT64_C(256)},
    {"update_stride.head", offsetof(struct kvmill_rows, update_stride.head), INT64_C(128)},
};

const struct kvmill_kernel kvmill_store_rows_u8_h2_mn_s1_d128_linear_pb131072_ph65536_pr128_ub256_uh128__avx512_line = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_STORE_ROWS,
    .symbol = "kvmill_store_rows_u8_h2_mn_s1_d128_linear_pb131072_ph65536_pr128_ub256_uh128__avx512_line",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 1,
    .run = kvmill_store_rows_u8_h2_mn_s1_d128_linear_pb131072_ph65536_pr128_ub256_uh128__avx512_line_run,
    .constants = constants,
    .constant_count = sizeof constants / sizeof *constants,
};
