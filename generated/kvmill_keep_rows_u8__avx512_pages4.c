/* Keep rows: what no update replaces.
   Generated; to reproduce:
   kvmill explain --source kvmill_keep_rows_u8__avx512_pages4 */
#include "kvmill_kernel.h"

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
copy_long(unsigned char *to, int64_t at, const unsigned char *from, int64_t begin, int64_t count, int64_t stream)
{
    enum { PAGE = 4096, PAGES = 4 };
    unsigned char *target = to + at;
    const unsigned char *source = from + begin;
    if (stream && count >= 64) {
        int64_t head = -(uintptr_t)target & 63;
        memcpy(target, source, (size_t)head);
        target += head;
        source += head;
        count -= head;
        for (; stream > 1 && count >= PAGE * PAGES; count -= PAGE * PAGES) {
            for (int64_t i = 0; i < PAGE; i += 128) {
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i)) :
                                 "v"(*(const kvmill_word64 *)(source + i)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + 64)) :
                                 "v"(*(const kvmill_word64 *)(source + i + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + PAGE)) :
                                 "v"(*(const kvmill_word64 *)(source + i + PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + PAGE + 64)) :
                                 "v"(*(const kvmill_word64 *)(source + i + PAGE + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + 2 * PAGE)) :
                                 "v"(*(const kvmill_word64 *)(source + i + 2 * PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + 2 * PAGE + 64)) :
                                 "v"(*(const kvmill_word64 *)(source + i + 2 * PAGE + 64)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + 3 * PAGE)) :
                                 "v"(*(const kvmill_word64 *)(source + i + 3 * PAGE)));
                __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(target + i + 3 * PAGE + 64)) :
                                 "v"(*(const kvmill_word64 *)(source + i + 3 * PAGE + 64)));
            }
            target += PAGE * PAGES;
            source += PAGE * PAGES;
        }
        for (; count >= 64; count -= 64) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)target) : "v"(*(const kvmill_word64 *)source));
            target += 64;
            source += 64;
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

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
copy_run(const struct kvmill_rows *p, int64_t at, int64_t at_step, const unsigned char *from, int64_t begin,
         int64_t begin_step, int64_t count)
{
    unsigned char *to = p->present;
    if (count <= 0)
        return;
    if (at_step == p->row && begin_step == p->row) {
        copy_long(to, at, from, begin, count * p->row, p->stream_keep);
        return;
    }
    for (; count > 0; count--, at += at_step, begin += begin_step) {
        copy_long(to, at, from, begin, p->row, 0);
    }
}

static int64_t
max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t
min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_keep_rows_u8__avx512_pages4_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    const int64_t step = p.present_stride.row, past_step = p.past_stride.row;
    /* The loop nest: chunks of the slots of a head; in copy_run() the rows of a chunk.  */
    for (int64_t u = first; u < last; u++) {
        int64_t slab = u / p.chunks, chunk = u % p.chunks;
        int64_t b = slab / p.heads, h = slab % p.heads;
        int64_t at = b * p.present_stride.batch + h * p.present_stride.head;
        int64_t begin = b * p.past_stride.batch + h * p.past_stride.head;
        int64_t low = p.capacity * chunk / p.chunks, high = p.capacity * (chunk + 1) / p.chunks;
        int64_t slot = first_slot(&p, b), end = slot + p.rows;
        int64_t below = max(low, end - p.capacity), above = max(low, end);
        copy_run(&p, at + below * step, step, p.past, begin + below * past_step, past_step, min(high, slot) - below);
        copy_run(&p, at + above * step, step, p.past, begin + above * past_step, past_step, high - above);
    }
}

static const struct kvmill_rows_shape shape = {
    .unit_bits = 8,
    .circular = 1,
    .heads = KVMILL_ANY,
    .capacity = KVMILL_ANY,
    .rows = KVMILL_ANY,
    .row = KVMILL_ANY,
};

const struct kvmill_kernel kvmill_keep_rows_u8__avx512_pages4 = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_KEEP_ROWS,
    .symbol = "kvmill_keep_rows_u8__avx512_pages4",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_keep_rows_u8__avx512_pages4_run,
};
