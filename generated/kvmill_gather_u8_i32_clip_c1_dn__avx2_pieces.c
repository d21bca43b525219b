/* Gather windows: long ones, in pieces.
   Generated; to reproduce:
   kvmill explain --source kvmill_gather_u8_i32_clip_c1_dn__avx2_pieces */
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

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

struct starts {
    struct kvmill_gather_component component[1];
};

/* A place in the indices, the operand and the result.  */
struct place {
    const unsigned char *indices, *operand;
    unsigned char *result;
};

INLINED struct starts
starts_of(const struct kvmill_gather_geometry *g)
{
    struct starts starts = { { { 0 } } };
    starts.component[0] = g->component[0];
    return starts;
}

INLINED int64_t
clamped(int64_t start, int64_t most)
{
    if (__builtin_expect((uint64_t)start > (uint64_t)most, 0))
        start = start < 0 ? 0 : most;
    return start;
}

INLINED const unsigned char *
window_at(const struct starts *starts, struct place at)
{
    const unsigned char *index0 = at.indices + starts->component[0].index;
    at.operand += clamped((int32_t)*(const kvmill_word4 *)index0, starts->component[0].most) *
        starts->component[0].from;
    return at.operand;
}

INLINED void
move(struct place *place, const struct kvmill_gather_axis *axis, int64_t turns)
{
    place->indices += turns * axis->index;
    place->operand += turns * axis->from;
    place->result += turns * axis->to;
}

/* The place of a window; `turn` gets its coordinates along the axes.  */
__attribute__((target("avx2,fma,f16c")))
static struct place
place_of(const struct kvmill_gather_windows *p, int64_t window, int64_t *turn)
{
    const struct kvmill_gather_geometry *g = p->geometry;
    struct place place = { p->indices, p->operand, p->result };
    for (int64_t a = g->axes - 1; a >= 0; a--) {
        turn[a] = window % g->axis[a].extent;
        window /= g->axis[a].extent;
        move(&place, &g->axis[a], turn[a]);
    }
    return place;
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_gather_u8_i32_clip_c1_dn__avx2_pieces_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_gather_windows *p = problem;
    const struct kvmill_gather_geometry *g = p->geometry;
    const struct starts starts = starts_of(g);
    int64_t turn[KVMILL_MOST_GATHER_AXES];
    int64_t around = g->result_bytes >= g->around ? g->streams : 0;
    /* The loop nest: pieces of windows; in copy_long() the bytes of a piece.  */
    for (int64_t u = first; u < last; u++) {
        struct place at = place_of(p, u / g->pieces, turn);
        int64_t begin = u % g->pieces * g->piece, left = g->bytes - begin;
        int64_t count = left < g->piece ? left : g->piece;
        copy_long(at.result, begin, window_at(&starts, at), begin, count, around);
    }
}

static const struct kvmill_gather_shape shape = {
    .index_bits = 32,
    .index_signed = 1,
    .fill = 0,
    .components = 1,
    .bytes = KVMILL_ANY,
    .loop = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
};

const struct kvmill_kernel kvmill_gather_u8_i32_clip_c1_dn__avx2_pieces = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_GATHER,
    .symbol = "kvmill_gather_u8_i32_clip_c1_dn__avx2_pieces",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_gather_u8_i32_clip_c1_dn__avx2_pieces_run,
};
