/* Gather windows: of a known size, one after the other.
   Generated; to reproduce:
   kvmill explain --source kvmill_gather_u8_u8_fill_c2_d4_x3_f40_t12__neon_windows */
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

struct starts {
    struct kvmill_gather_component component[2];
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
    starts.component[1] = g->component[1];
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
    at.operand += clamped(*index0, starts->component[0].most) * starts->component[0].from;
    const unsigned char *index1 = at.indices + starts->component[1].index;
    at.operand += clamped(*index1, starts->component[1].most) * starts->component[1].from;
    return at.operand;
}

INLINED int
is_outside(const struct starts *starts, struct place at)
{
    int outside = 0;
    const unsigned char *index0 = at.indices + starts->component[0].index;
    outside |= (uint64_t)(int64_t)(*index0) > (uint64_t)starts->component[0].most;
    const unsigned char *index1 = at.indices + starts->component[1].index;
    outside |= (uint64_t)(int64_t)(*index1) > (uint64_t)starts->component[1].most;
    return outside;
}

static void
fill_bytes(unsigned char *to, const unsigned char *fill, int64_t count)
{
    for (; count > 64; count -= 64, to += 64)
        memcpy(to, fill, 64);
    memcpy(to, fill, (size_t)count);
}

INLINED void
move(struct place *place, const struct kvmill_gather_axis *axis, int64_t turns)
{
    place->indices += turns * axis->index;
    place->operand += turns * axis->from;
    place->result += turns * axis->to;
}

/* The place of a window; `turn` gets its coordinates along the axes.  */
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

static void
gather_line(const struct kvmill_gather_geometry *g, struct place at, int64_t count)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
        if (is_outside(&starts, at)) {
            fill_bytes(at.result, g->fill, 4);
            fill_bytes(at.result + 12, g->fill, 4);
            fill_bytes(at.result + 24, g->fill, 4);
        } else {
            *(kvmill_word4 *)(at.result) = *(const kvmill_word4 *)from;
            *(kvmill_word4 *)(at.result + 12) = *(const kvmill_word4 *)(from + 40);
            *(kvmill_word4 *)(at.result + 24) = *(const kvmill_word4 *)(from + 80);
        }
        move(&at, &axis, 1);
    }
}

/* Go to the first window of the next line.  */
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

static void
kvmill_gather_u8_u8_fill_c2_d4_x3_f40_t12__neon_windows_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_gather_windows *p = problem;
    const struct kvmill_gather_geometry *g = p->geometry;
    int64_t turn[KVMILL_MOST_GATHER_AXES], inner = g->axes - 1;
    struct place at = place_of(p, first, turn);
    /* The loop nest: lines of windows; in gather_line() the windows of a line, and the bytes of each.  */
    while (first < last) {
        int64_t line = g->axis[inner].extent - turn[inner], left = last - first;
        int64_t count = line < left ? line : left;
        gather_line(g, at, count);
        first += count;
        next_line(g, turn, &at);
    }
}

static const struct kvmill_gather_shape shape = {
    .index_bits = 8,
    .index_signed = 0,
    .fill = 1,
    .components = 2,
    .bytes = 4,
    .loop = { { 3, 40, 12 }, { 0, 0, 0 }, { 0, 0, 0 } },
};

const struct kvmill_kernel kvmill_gather_u8_u8_fill_c2_d4_x3_f40_t12__neon_windows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_GATHER,
    .symbol = "kvmill_gather_u8_u8_fill_c2_d4_x3_f40_t12__neon_windows",
    .isa = "neon",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_gather_u8_u8_fill_c2_d4_x3_f40_t12__neon_windows_run,
};
