/* Scatter by a region: rows of windows.
   slot f32 f32;
   v0 capture f32 f32 0;
   v1 multiply f32 f32 u0 v0;
   v2 add f32 f32 r0 v1;
   return v2.
   Generated; to reproduce:
   kvmill explain --kernels specs.json --source kvmill_scatter_region_p99b359ff12d3a099_i32_k1_rn__avx2_rows */
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

typedef float memory_f32 __attribute__((may_alias, aligned(1)));

typedef float memory_of_v0 __attribute__((may_alias, aligned(1)));

INLINED void
elements(const struct kvmill_scatter_slots *slots, unsigned char *restrict to_0, const unsigned char *restrict from_0,
         int64_t count)
{
    float zero_f32 = -(float)0;
    __asm__("" : "+m"(zero_f32));
    const float minus_0_f32 = zero_f32;
    const float v0 = *(const memory_of_v0 *)slots->capture[0];
    for (int64_t i = 0; i < count; i++) {
        const float r0 = ((const memory_f32 *)to_0)[i];
        const float u0 = ((const memory_f32 *)from_0)[i];
        const float v1 = u0 * v0 + minus_0_f32;
        const float v2 = (float)(r0 + v1);
        ((memory_f32 *)to_0)[i] = v2;
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
combine_row(const struct kvmill_scatter_windows *p, unsigned char *to, const unsigned char *from, int64_t count)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, to, from, count);
}

INLINED void
combine_one(const struct kvmill_scatter_windows *p, unsigned char *to, const unsigned char *from)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, to, from, 1);
}

typedef int32_t component __attribute__((may_alias, aligned(1)));

INLINED int64_t
load_index(const unsigned char *at)
{
    component value = *(const component *)at;
    return value;
}

/* The place of a point.  */
struct place {
    unsigned char *to;
    const unsigned char *from, *vector;
};

/* A window is inside as a whole if start[k] - low[k] is less than count[k] for every component k.  turn[k] is the
   coordinate of the enclosing loop that moves component k, or 0.  */
struct inside {
    int64_t low[1], turn[1];
    uint64_t count[1];
};

/* Combine the elements along a loop.  */
__attribute__((target("avx2,fma,f16c")))
static void
combine_along(const struct kvmill_scatter_windows *p, const struct kvmill_scatter_loop *loop, unsigned char *to,
              const unsigned char *from)
{
    if (loop->result_step == 4 && loop->update_step == 4) {
        combine_row(p, to, from, loop->count);
        return;
    }
    for (int64_t i = 0; i < loop->count; i++)
        combine_one(p, to + i * loop->result_step, from + i * loop->update_step);
}

__attribute__((target("avx2,fma,f16c")))
static __attribute__((noinline)) void
walk(const struct kvmill_scatter_windows *p, const struct kvmill_scatter_loop *loop, int loops, unsigned char *to,
     const unsigned char *from)
{
    if (loops == 0)
        combine_one(p, to, from);
    else if (loops == 1)
        combine_along(p, loop, to, from);
    else
        for (int64_t i = 0; i < loop->count; i++)
            walk(p, loop + 1, loops - 1, to + i * loop->result_step, from + i * loop->update_step);
}

/* Set [*low, *high), the coordinates of a window from `start` on that may be written.  Returns 0 if there are none.  */
static int
clip(const struct kvmill_scatter_start *s, int64_t start, int64_t turn, int64_t *low, int64_t *high)
{
    if ((uint64_t)start > s->most || start >= s->high - turn || start <= s->low - turn - s->extent)
        return 0;
    *low = s->low - turn - start;
    *high = s->high - turn - start;
    return 1;
}

/* Restrict a loop to the coordinates [low, high), and move `to` and `from` to its new beginning.  */
static void
cut(struct kvmill_scatter_loop *loop, int64_t low, int64_t high, unsigned char **to, const unsigned char **from)
{
    int64_t first = low > 0 ? low : 0, last = high < loop->count ? high : loop->count;
    *to += first * loop->result_step;
    *from += first * loop->update_step;
    loop->count = last - first;
}

/* Write the part of a window that is inside, for a point whose window is not inside as a whole.  */
__attribute__((target("avx2,fma,f16c")))
static __attribute__((noinline)) void
partial(const struct kvmill_scatter_windows *p, const struct inside *inside, const int64_t *start, unsigned char *to,
        const unsigned char *from)
{
    struct kvmill_scatter_loop loop[KVMILL_MOST_SCATTER_LOOPS];
    memcpy(loop, p->window, (size_t)p->window_loops * sizeof *loop);
    const struct kvmill_scatter_start *s = &p->start[0];
    int64_t low, high;
    if (!clip(s, start[0], inside->turn[0], &low, &high))
        return;
    to += start[0] * s->result_step;
    if (s->axis >= 0)
        cut(&loop[s->axis], low, high, &to, &from);
    walk(p, loop, p->window_loops, to, from);
}

__attribute__((target("avx2,fma,f16c")))
static void
combine_rows(const struct kvmill_scatter_windows *p, const struct kvmill_scatter_loop *loop, int loops,
             unsigned char *to, const unsigned char *from)
{
    walk(p, loop, loops, to, from);
}

INLINED void
points_by(const struct kvmill_scatter_windows *p, struct place at, struct inside inside,
          const struct kvmill_scatter_loop step, const int64_t last_step)
{
    const int64_t offset_0 = p->start[0].index_offset, step_0 = last_step;
    const int64_t low_0 = inside.low[0];
    const uint64_t count_0 = inside.count[0];
    int64_t i = 0;
    for (; i < step.count; i++) {
        int64_t start_0_0 = load_index(at.vector + i * step.index_step + offset_0);
        if ((uint64_t)start_0_0 - (uint64_t)low_0 < count_0)
            combine_rows(p, p->rows, p->row_loops, at.to + i * step.result_step + start_0_0 * step_0,
                         at.from + i * step.update_step);
        else
            {
                const int64_t start[] = {start_0_0, 0};
                partial(p, &inside, start, at.to + i * step.result_step, at.from + i * step.update_step);
            }
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
points(const struct kvmill_scatter_windows *p, struct place at, struct inside inside)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    const int64_t last_step = p->start[0].result_step;
    points_by(p, at, inside, step, last_step);
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

/* The limits for index components of windows that are inside as a whole, at these turns of the loops over points.  */
static struct inside
inside_at(const struct kvmill_scatter_windows *p, const int64_t *turn)
{
    struct inside inside = {{0}, {0}, {0}};
    const struct kvmill_scatter_start *s = &p->start[0];
    inside.turn[0] = s->point < 0 ? 0 : turn[s->point];
    inside.low[0] = s->low - inside.turn[0];
    int64_t last = s->high - inside.turn[0] - s->extent;
    if (s->most != UINT64_MAX) {
        inside.low[0] = max(inside.low[0], 0);
        last = min(last, (int64_t)s->most);
    }
    inside.count[0] = (uint64_t)max(last - inside.low[0] + 1, 0);
    return inside;
}

__attribute__((target("avx2,fma,f16c")))
static __attribute__((noinline)) void
walk_points(const struct kvmill_scatter_windows *p, int depth, struct place at, int64_t *turn)
{
    const struct kvmill_scatter_loop *loop = &p->point[depth];
    if (depth == p->point_loops - 1) {
        points(p, at, inside_at(p, turn));
        return;
    }
    /* The loop nest: loops over points, one inside the other, down to points(); there windows, or their elements.  */
    for (int64_t i = 0; i < loop->count; i++) {
        turn[depth] = i;
        walk_points(p, depth + 1, at, turn);
        at.to += loop->result_step;
        at.from += loop->update_step;
        at.vector += loop->index_step;
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_scatter_region_p99b359ff12d3a099_i32_k1_rn__avx2_rows_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_scatter_windows *p = problem;
    struct place at = {p->result, p->updates, p->indices};
    int64_t turn[KVMILL_MOST_SCATTER_LOOPS] = {0};
    (void)first;
    (void)last;
    walk_points(p, 0, at, turn);
}

static const struct kvmill_scatter_region_shape shape = {
    .program = "slot f32 f32; "
        "v0 capture f32 f32 0; "
        "v1 multiply f32 f32 u0 v0; "
        "v2 add f32 f32 r0 v1; "
        "return v2",
    .index_code = 0,
    .index_bits = 32,
    .components = 1,
    .row = KVMILL_ANY,
};

const struct kvmill_kernel kvmill_scatter_region_p99b359ff12d3a099_i32_k1_rn__avx2_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCATTER_REGION,
    .symbol = "kvmill_scatter_region_p99b359ff12d3a099_i32_k1_rn__avx2_rows",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_scatter_region_p99b359ff12d3a099_i32_k1_rn__avx2_rows_run,
};
