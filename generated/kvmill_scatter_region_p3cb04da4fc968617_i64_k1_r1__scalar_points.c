/* Scatter by a region: one element for each index vector.
   slot bf16 bf16;
   slot i32 i32;
   v0 compare_GT i1 bf16 u0 r0;
   v1 select bf16 bf16 v0 u0 r0;
   v2 select i32 i32 v0 u1 r1;
   return v1 v2.
   Generated; to reproduce:
   kvmill explain --kernels specs.json --source kvmill_scatter_region_p3cb04da4fc968617_i64_k1_r1__scalar_points */
#include "kvmill_kernel.h"

#define INLINED static inline __attribute__((always_inline))

INLINED float
float_of(uint32_t u)
{
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

INLINED uint16_t
chosen_16(int truth, uint16_t a, uint16_t b)
{
    return (uint16_t)(b ^ ((a ^ b) & (uint16_t)-truth));
}

INLINED uint32_t
chosen_32(int truth, uint32_t a, uint32_t b)
{
    return (uint32_t)(b ^ ((a ^ b) & (uint32_t)-truth));
}

typedef uint16_t memory_bf16 __attribute__((may_alias, aligned(1)));
typedef uint32_t memory_i32 __attribute__((may_alias, aligned(1)));

INLINED void
elements(const struct kvmill_scatter_slots *slots, unsigned char *restrict to_0, unsigned char *restrict to_1,
         const unsigned char *restrict from_0, const unsigned char *restrict from_1, int64_t count)
{
    (void)slots;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t r0 = ((const memory_bf16 *)to_0)[i];
        const uint16_t u0 = ((const memory_bf16 *)from_0)[i];
        const uint32_t r1 = ((const memory_i32 *)to_1)[i];
        const uint32_t u1 = ((const memory_i32 *)from_1)[i];
        const _Bool v0 = float_of((uint32_t)u0 << 16) > float_of((uint32_t)r0 << 16);
        const uint16_t v1 = chosen_16(v0, u0, r0);
        const uint32_t v2 = chosen_32(v0, u1, r1);
        ((memory_bf16 *)to_0)[i] = v1;
        ((memory_i32 *)to_1)[i] = v2;
    }
}

static void
combine_row(const struct kvmill_scatter_windows *p, unsigned char *to, const unsigned char *from, int64_t count)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, to, slots->result[1] + (to - p->result) / 2 * 4, from,
             slots->updates[1] + (from - p->updates) / 2 * 4, count);
}

INLINED void
combine_one(const struct kvmill_scatter_windows *p, unsigned char *to, const unsigned char *from)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, to, slots->result[1] + (to - p->result) / 2 * 4, from,
             slots->updates[1] + (from - p->updates) / 2 * 4, 1);
}

typedef int64_t component __attribute__((may_alias, aligned(1)));

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

INLINED void
points_by(const struct kvmill_scatter_windows *p, struct place at, struct inside inside,
          const struct kvmill_scatter_loop step, const int64_t last_step)
{
    const int64_t offset_0 = p->start[0].index_offset, step_0 = last_step;
    const int64_t low_0 = inside.low[0];
    const uint64_t count_0 = inside.count[0];
    int64_t i = 0;
    for (; i + 4 <= step.count; i += 4) {
        if (i + 64 < step.count) {
            const unsigned char *vector = at.vector + (i + 64) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)((i + 64) * step.result_step);
            address += (uint64_t)load_index(vector + offset_0) * (uint64_t)step_0;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
        int64_t start_0_0 = load_index(at.vector + i * step.index_step + offset_0);
        if (i + 65 < step.count) {
            const unsigned char *vector = at.vector + (i + 65) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)((i + 65) * step.result_step);
            address += (uint64_t)load_index(vector + offset_0) * (uint64_t)step_0;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
        int64_t start_0_1 = load_index(at.vector + (i + 1) * step.index_step + offset_0);
        if (i + 66 < step.count) {
            const unsigned char *vector = at.vector + (i + 66) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)((i + 66) * step.result_step);
            address += (uint64_t)load_index(vector + offset_0) * (uint64_t)step_0;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
        int64_t start_0_2 = load_index(at.vector + (i + 2) * step.index_step + offset_0);
        if (i + 67 < step.count) {
            const unsigned char *vector = at.vector + (i + 67) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)((i + 67) * step.result_step);
            address += (uint64_t)load_index(vector + offset_0) * (uint64_t)step_0;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
        int64_t start_0_3 = load_index(at.vector + (i + 3) * step.index_step + offset_0);
        if ((uint64_t)start_0_0 - (uint64_t)low_0 < count_0)
            combine_one(p, at.to + i * step.result_step + start_0_0 * step_0, at.from + i * step.update_step);
        if ((uint64_t)start_0_1 - (uint64_t)low_0 < count_0)
            combine_one(p, at.to + (i + 1) * step.result_step + start_0_1 * step_0,
                        at.from + (i + 1) * step.update_step);
        if ((uint64_t)start_0_2 - (uint64_t)low_0 < count_0)
            combine_one(p, at.to + (i + 2) * step.result_step + start_0_2 * step_0,
                        at.from + (i + 2) * step.update_step);
        if ((uint64_t)start_0_3 - (uint64_t)low_0 < count_0)
            combine_one(p, at.to + (i + 3) * step.result_step + start_0_3 * step_0,
                        at.from + (i + 3) * step.update_step);
    }
    for (; i < step.count; i++) {
        if (i + 64 < step.count) {
            const unsigned char *vector = at.vector + (i + 64) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)((i + 64) * step.result_step);
            address += (uint64_t)load_index(vector + offset_0) * (uint64_t)step_0;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
        int64_t start_0_0 = load_index(at.vector + i * step.index_step + offset_0);
        if ((uint64_t)start_0_0 - (uint64_t)low_0 < count_0)
            combine_one(p, at.to + i * step.result_step + start_0_0 * step_0, at.from + i * step.update_step);
    }
}

static void
points(const struct kvmill_scatter_windows *p, struct place at, struct inside inside)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    const int64_t last_step = p->start[0].result_step;
    const struct kvmill_scatter_loop dense = {step.count, 0, 2, 8};
    if (step.result_step == 0 && step.update_step == dense.update_step && step.index_step == dense.index_step &&
        last_step == 2) {
        points_by(p, at, inside, dense, 2);
        return;
    }
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

enum { MOST_RUNS = 512, LEAST_TURNS = 4, LEAST_RUN = 4 };

/* Points [first, first + count), whose results are adjacent from `to` on.  */
struct run {
    int64_t to, first, count;
};

static int
continues(const struct run *run, int64_t to, int64_t i)
{
    return to == run->to + run->count * 2 && i == run->first + run->count;
}

/* Find the runs.  Returns their number, or more than MOST_RUNS if there are too many.  */
static __attribute__((noinline)) int
find_runs(const struct kvmill_scatter_windows *p, struct place at, struct inside inside, struct run *runs)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    int count = 0;
    const int64_t offset_0 = p->start[0].index_offset, step_0 = p->start[0].result_step;
    const int64_t low_0 = inside.low[0];
    const uint64_t count_0 = inside.count[0];
    for (int64_t i = 0; i < step.count; i++) {
        int64_t start_0_0 = load_index(at.vector + i * step.index_step + offset_0);
        if (!((uint64_t)start_0_0 - (uint64_t)low_0 < count_0))
            continue;
        int64_t to = i * step.result_step + start_0_0 * step_0;
        if (count > 0 && continues(&runs[count - 1], to, i))
            runs[count - 1].count++;
        else if (count == MOST_RUNS)
            return MOST_RUNS + 1;
        else
            runs[count++] = (struct run){to, i, 1};
    }
    return count;
}

/* Combine by runs, if the loop at `depth` around the points repeats their index vectors.  Returns whether it did.  */
static int
repeat(const struct kvmill_scatter_windows *p, int depth, struct place at, const int64_t *turn)
{
    const struct kvmill_scatter_loop *loop = &p->point[depth], *point = loop + 1;
    struct run runs[MOST_RUNS];
    if (loop->index_step != 0 || loop->count < LEAST_TURNS || point->update_step != 2)
        return 0;
    if (p->start[0].point == depth)
        return 0;
    int count = find_runs(p, at, inside_at(p, turn), runs);
    if (count > MOST_RUNS || count * LEAST_RUN > point->count)
        return 0;
    for (int64_t i = 0; i < loop->count; i++)
        for (int r = 0; r < count; r++)
            combine_row(p, at.to + i * loop->result_step + runs[r].to,
                        at.from + i * loop->update_step + runs[r].first * 2, runs[r].count);
    return 1;
}

static __attribute__((noinline)) void
walk_points(const struct kvmill_scatter_windows *p, int depth, struct place at, int64_t *turn)
{
    const struct kvmill_scatter_loop *loop = &p->point[depth];
    if (depth == p->point_loops - 1) {
        points(p, at, inside_at(p, turn));
        return;
    }
    if (depth == p->point_loops - 2 && repeat(p, depth, at, turn))
        return;
    /* The loop nest: loops over points, one inside the other, down to points(); there windows, or their elements.  */
    for (int64_t i = 0; i < loop->count; i++) {
        turn[depth] = i;
        walk_points(p, depth + 1, at, turn);
        at.to += loop->result_step;
        at.from += loop->update_step;
        at.vector += loop->index_step;
    }
}

static void
kvmill_scatter_region_p3cb04da4fc968617_i64_k1_r1__scalar_points_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_scatter_windows *p = problem;
    struct place at = {p->result, p->updates, p->indices};
    int64_t turn[KVMILL_MOST_SCATTER_LOOPS] = {0};
    (void)first;
    (void)last;
    walk_points(p, 0, at, turn);
}

static const struct kvmill_scatter_region_shape shape = {
    .program = "slot bf16 bf16; "
        "slot i32 i32; "
        "v0 compare_GT i1 bf16 u0 r0; "
        "v1 select bf16 bf16 v0 u0 r0; "
        "v2 select i32 i32 v0 u1 r1; "
        "return v1 v2",
    .index_code = 0,
    .index_bits = 64,
    .components = 1,
    .row = 1,
};

const struct kvmill_kernel kvmill_scatter_region_p3cb04da4fc968617_i64_k1_r1__scalar_points = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCATTER_REGION,
    .symbol = "kvmill_scatter_region_p3cb04da4fc968617_i64_k1_r1__scalar_points",
    .isa = "scalar",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_scatter_region_p3cb04da4fc968617_i64_k1_r1__scalar_points_run,
};
