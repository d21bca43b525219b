/* Store rows: as runs of rows that follow each other.
   Generated; to reproduce:
   kvmill explain --source kvmill_store_rows_u8_hn_mn_sn_d256_circular__avx2_run */
#include "kvmill_kernel.h"

__attribute__((target("avx2,fma,f16c")))
static void
copy_long(unsigned char *to, int64_t at, const unsigned char *from, int64_t begin, int64_t count, int64_t stream)
{
    enum { PAGE = 4096, PAGES = 4 };
    unsigned char *target = to + at;
    const unsigned char *source = from + begin;
    if (stream && count >= 32) {
        int64_t head = -(uintptr_t)target & 31;
        memcpy(target, source, (size_t)head);
        target += head;
        source += head;
        count -= head;
        for (; stream > 1 && count >= PAGE * PAGES; count -= PAGE * PAGES) {
            for (int64_t i = 0; i < PAGE; i += 128) {
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i)) :
                                 "x"(*(const kvmill_word32 *)(source + i)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 32)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 32)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 64)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 96)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 96)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + PAGE)) :
                                 "x"(*(const kvmill_word32 *)(source + i + PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + PAGE + 32)) :
                                 "x"(*(const kvmill_word32 *)(source + i + PAGE + 32)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + PAGE + 64)) :
                                 "x"(*(const kvmill_word32 *)(source + i + PAGE + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + PAGE + 96)) :
                                 "x"(*(const kvmill_word32 *)(source + i + PAGE + 96)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 2 * PAGE)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 2 * PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 2 * PAGE + 32)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 2 * PAGE + 32)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 2 * PAGE + 64)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 2 * PAGE + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 2 * PAGE + 96)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 2 * PAGE + 96)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 3 * PAGE)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 3 * PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 3 * PAGE + 32)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 3 * PAGE + 32)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 3 * PAGE + 64)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 3 * PAGE + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)(target + i + 3 * PAGE + 96)) :
                                 "x"(*(const kvmill_word32 *)(source + i + 3 * PAGE + 96)));
            }
            target += PAGE * PAGES;
            source += PAGE * PAGES;
        }
        for (; count >= 32; count -= 32) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)target) : "x"(*(const kvmill_word32 *)source));
            target += 32;
            source += 32;
        }
        __builtin_ia32_sfence();
    }
    memcpy(target, source, (size_t)count);
}

static inline int64_t
floored(int64_t start, int64_t capacity)
{
    if (start >= 0 && start < capacity)
        return start;
    int64_t slot = start % capacity;
    return slot < 0 ? slot + capacity : slot;
}

static int64_t
first_slot(const struct kvmill_rows *p, int64_t b)
{
    if (p->starts == NULL)
        return 0;
    int64_t start = p->starts[b * p->starts_stride];
    return floored(start, p->capacity);
}

__attribute__((target("avx2,fma,f16c")))
static void
copy_run(const struct kvmill_rows *p, int64_t at, int64_t at_step, const unsigned char *from, int64_t begin,
         int64_t begin_step, int64_t count)
{
    unsigned char *to = p->present;
    if (count <= 0)
        return;
    if (at_step == p->row && begin_step == p->row) {
        copy_long(to, at, from, begin, count * p->row, p->stream_store);
        return;
    }
    for (; count > 0; count--, at += at_step, begin += begin_step) {
        *(kvmill_word32 *)(to + at) = *(const kvmill_word32 *)(from + begin);
        *(kvmill_word32 *)(to + at + 32) = *(const kvmill_word32 *)(from + begin + 32);
        *(kvmill_word32 *)(to + at + 64) = *(const kvmill_word32 *)(from + begin + 64);
        *(kvmill_word32 *)(to + at + 96) = *(const kvmill_word32 *)(from + begin + 96);
        *(kvmill_word32 *)(to + at + 128) = *(const kvmill_word32 *)(from + begin + 128);
        *(kvmill_word32 *)(to + at + 160) = *(const kvmill_word32 *)(from + begin + 160);
        *(kvmill_word32 *)(to + at + 192) = *(const kvmill_word32 *)(from + begin + 192);
        *(kvmill_word32 *)(to + at + 224) = *(const kvmill_word32 *)(from + begin + 224);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_store_rows_u8_hn_mn_sn_d256_circular__avx2_run_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    const int64_t step = p.present_stride.row, from_step = p.update_stride.row;
    /* The loop nest: chunks of the slots of a head; in copy_run() the rows of a chunk.  */
    for (int64_t u = first; u < last; u++) {
        int64_t slab = u / p.chunks, chunk = u % p.chunks;
        int64_t b = slab / p.heads, h = slab % p.heads;
        int64_t at = b * p.present_stride.batch + h * p.present_stride.head;
        int64_t begin = b * p.update_stride.batch + h * p.update_stride.head;
        int64_t row = p.rows * chunk / p.chunks, end = p.rows * (chunk + 1) / p.chunks;
        int64_t slot = first_slot(&p, b);
        int64_t turn = p.capacity - slot; /* from this row on, rows continue at slot 0 */
        int64_t middle = turn < row ? row : turn < end ? turn : end;
        copy_run(&p, at + (slot + row) * step, step, p.update, begin + row * from_step, from_step, middle - row);
        copy_run(&p, at + (middle - turn) * step, step, p.update, begin + middle * from_step, from_step, end - middle);
    }
}

static const struct kvmill_rows_shape shape = {
    .unit_bits = 8,
    .circular = 1,
    .heads = KVMILL_ANY,
    .capacity = KVMILL_ANY,
    .rows = KVMILL_ANY,
    .row = 256,
};

const struct kvmill_kernel kvmill_store_rows_u8_hn_mn_sn_d256_circular__avx2_run = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_STORE_ROWS,
    .symbol = "kvmill_store_rows_u8_hn_mn_sn_d256_circular__avx2_run",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_store_rows_u8_hn_mn_sn_d256_circular__avx2_run_run,
};
