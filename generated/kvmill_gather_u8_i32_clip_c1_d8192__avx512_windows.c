/* Gather windows: of a known size, one after the other.
   Generated; to reproduce:
   kvmill explain --source kvmill_gather_u8_i32_clip_c1_d8192__avx512_windows */
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))

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
__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
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

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line_in_turn(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
    for (; i < count - 1; i++) {
        struct place later = at;
        move(&later, &axis, 1);
        const unsigned char *from = window_at(&starts, at), *next = window_at(&starts, later);
        for (int64_t byte = 0; byte + 128 <= 4096; byte += 128) {
            __builtin_prefetch(next + byte);
            __builtin_prefetch(next + byte + 64);
            *(kvmill_word64 *)(at.result + byte) = *(const kvmill_word64 *)(from + byte);
            *(kvmill_word64 *)(at.result + byte + 64) = *(const kvmill_word64 *)(from + byte + 64);
            __builtin_prefetch(next + byte + 4096);
            __builtin_prefetch(next + byte + 4160);
            *(kvmill_word64 *)(at.result + byte + 4096) = *(const kvmill_word64 *)(from + byte + 4096);
            *(kvmill_word64 *)(at.result + byte + 4160) = *(const kvmill_word64 *)(from + byte + 4160);
        }
        move(&at, &axis, 1);
    }
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
        for (int64_t byte = 0; byte + 128 <= 4096; byte += 128) {
            *(kvmill_word64 *)(at.result + byte) = *(const kvmill_word64 *)(from + byte);
            *(kvmill_word64 *)(at.result + byte + 64) = *(const kvmill_word64 *)(from + byte + 64);
            *(kvmill_word64 *)(at.result + byte + 4096) = *(const kvmill_word64 *)(from + byte + 4096);
            *(kvmill_word64 *)(at.result + byte + 4160) = *(const kvmill_word64 *)(from + byte + 4160);
        }
        move(&at, &axis, 1);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line_in_order(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
    for (; i < count - 1; i++) {
        struct place later = at;
        move(&later, &axis, 1);
        const unsigned char *from = window_at(&starts, at), *next = window_at(&starts, later);
        for (int64_t byte = 0; byte + 128 <= 8192; byte += 128) {
            __builtin_prefetch(next + byte);
            __builtin_prefetch(next + byte + 64);
            *(kvmill_word64 *)(at.result + byte) = *(const kvmill_word64 *)(from + byte);
            *(kvmill_word64 *)(at.result + byte + 64) = *(const kvmill_word64 *)(from + byte + 64);
        }
        move(&at, &axis, 1);
    }
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
        for (int64_t byte = 0; byte + 128 <= 8192; byte += 128) {
            *(kvmill_word64 *)(at.result + byte) = *(const kvmill_word64 *)(from + byte);
            *(kvmill_word64 *)(at.result + byte + 64) = *(const kvmill_word64 *)(from + byte + 64);
        }
        move(&at, &axis, 1);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    if (g->streams > 1)
        gather_line_in_turn(g, at, count);
    else
        gather_line_in_order(g, at, count);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line_around_in_turn(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
    for (; i < count - 1; i++) {
        struct place later = at;
        move(&later, &axis, 1);
        const unsigned char *from = window_at(&starts, at), *next = window_at(&starts, later);
        for (int64_t byte = 0; byte + 128 <= 4096; byte += 128) {
            __builtin_prefetch(next + byte);
            __builtin_prefetch(next + byte + 64);
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte)) :
                             "v"(*(const kvmill_word64 *)(from + byte)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 64)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 64)));
            __builtin_prefetch(next + byte + 4096);
            __builtin_prefetch(next + byte + 4160);
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 4096)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 4096)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 4160)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 4160)));
        }
        move(&at, &axis, 1);
    }
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
        for (int64_t byte = 0; byte + 128 <= 4096; byte += 128) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte)) :
                             "v"(*(const kvmill_word64 *)(from + byte)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 64)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 64)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 4096)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 4096)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 4160)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 4160)));
        }
        move(&at, &axis, 1);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line_around_in_order(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
    for (; i < count - 1; i++) {
        struct place later = at;
        move(&later, &axis, 1);
        const unsigned char *from = window_at(&starts, at), *next = window_at(&starts, later);
        for (int64_t byte = 0; byte + 128 <= 8192; byte += 128) {
            __builtin_prefetch(next + byte);
            __builtin_prefetch(next + byte + 64);
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte)) :
                             "v"(*(const kvmill_word64 *)(from + byte)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 64)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 64)));
        }
        move(&at, &axis, 1);
    }
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
        for (int64_t byte = 0; byte + 128 <= 8192; byte += 128) {
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte)) :
                             "v"(*(const kvmill_word64 *)(from + byte)));
            __asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)(at.result + byte + 64)) :
                             "v"(*(const kvmill_word64 *)(from + byte + 64)));
        }
        move(&at, &axis, 1);
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
gather_line_around(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    if (g->streams > 1)
        gather_line_around_in_turn(g, at, count);
    else
        gather_line_around_in_order(g, at, count);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static int
goes_around(const struct kvmill_gather_windows *p)
{
    const struct kvmill_gather_geometry *g = p->geometry;
    int64_t all = (int64_t)(uintptr_t)p->result;
    for (int64_t a = 0; a < g->axes; a++)
        all |= g->axis[a].to;
    return g->result_bytes >= g->around && all % 64 == 0;
}

/* Go to the first window of the next line.  */
__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
next_line(const struct kvmill_gather_geometry *g, int64_t *turn, struct place *at)
{
    int64_t a = g->axes - 1;
    move(at, &g->axis[a], -turn[a]);
    turn[a] = 0;
    while (--a >= 0) {
        move(at, &g->axis[a], 1);
        if (++turn[a] < g->axis[a].extent)
            return;
        move(at, &g->axis[a], -turn[a]);
        turn[a] = 0;
    }
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_gather_u8_i32_clip_c1_d8192__avx512_windows_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_gather_windows *p = problem;
    const struct kvmill_gather_geometry *g = p->geometry;
    int64_t turn[KVMILL_MOST_GATHER_AXES], inner = g->axes - 1;
    struct place at = place_of(p, first, turn);
    int around = goes_around(p);
    /* The loop nest: lines of windows; in gather_line() the windows of a line, and the bytes of each.  */
    while (first < last) {
        int64_t line = g->axis[inner].extent - turn[inner], left = last - first;
        int64_t count = line < left ? line : left;
        if (around)
            gather_line_around(g, at, count);
        else
            gather_line(g, at, count);
        first += count;
        next_line(g, turn, &at);
    }
    if (around)
        __builtin_ia32_sfence();
}

static const struct kvmill_gather_shape shape = {
    .index_bits = 32,
    .index_signed = 1,
    .fill = 0,
    .components = 1,
    .bytes = 8192,
    .loop = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
};

const struct kvmill_kernel kvmill_gather_u8_i32_clip_c1_d8192__avx512_windows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_GATHER,
    .symbol = "kvmill_gather_u8_i32_clip_c1_d8192__avx512_windows",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_gather_u8_i32_clip_c1_d8192__avx512_windows_run,
};
