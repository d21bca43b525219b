/* Scatter: rows of windows.
   Generated; to reproduce:
   kvmill explain --source kvmill_scatter_maximum_bf16_i64_k2_r12__avx2_rows */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED uint32_t
bits_of(float value)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

INLINED float
float_of(uint32_t u)
{
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

INLINED uint32_t
brain_of(float value)
{
    uint32_t u = bits_of(value);
    return (u & 0x7fffffff) > 255u << 23 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

INLINED float
load_one_bf16(const void *from)
{
    return float_of((uint32_t)*(const kvmill_word2 *)from << 16);
}

INLINED void
store_one_bf16(void *to, float x)
{
    *(kvmill_word2 *)to = (uint16_t)brain_of(x);
}

INLINED vu
widened(halves h)
{
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
}

INLINED vf
load_bf16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
}

INLINED halves
narrowed(vi b)
{
    return (halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)b, (__m256i)b), 0x08));
}

INLINED __m256i
brain_above(vf x)
{
    __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(u, _mm256_set1_epi32(0x400000)));
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), quiet,
                                                _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

INLINED halves
to_brains(vf x)
{
    return narrowed((vi)_mm256_srli_epi32(brain_above(x), 16));
}

INLINED void
store_bf16(void *to, vf x)
{
    halves h = to_brains(x);
    memcpy(to, &h, sizeof h);
}

typedef int32_t mask __attribute__((vector_size(32)));

INLINED void
combine_16(unsigned char *to, const unsigned char *from)
{
    vf a = load_bf16(to), b = load_bf16(from);
    store_bf16(to, (vf)(((mask)((a > b) | (a != a)) & (mask)a) |
                        (~(mask)((a > b) | (a != a)) & ((mask)b & ((mask)a | ~(mask)(a == b))))));
}

INLINED void
combine_one(unsigned char *to, const unsigned char *from)
{
    float a = load_one_bf16(to), b = load_one_bf16(from);
    store_one_bf16(to, a != a || a > b || (a == b && !__builtin_signbit(a)) ? a : b);
}

__attribute__((target("avx2,fma,f16c")))
static void
combine_row(unsigned char *to, const unsigned char *from, int64_t count)
{
    int64_t i = 0, bytes = count * 2;
    for (; i + 32 <= bytes; i += 32) {
        combine_16(to + i, from + i);
        combine_16(to + i + 16, from + i + 16);
    }
    for (; i + 16 <= bytes; i += 16)
        combine_16(to + i, from + i);
    for (; i < bytes; i += 2)
        combine_one(to + i, from + i);
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
    int64_t low[2], turn[2];
    uint64_t count[2];
};

/* Combine the elements along a loop.  */
__attribute__((target("avx2,fma,f16c")))
static void
combine_along(const struct kvmill_scatter_loop *loop, unsigned char *to, const unsigned char *from)
{
    if (loop->result_step == 2 && loop->update_step == 2) {
        combine_row(to, from, loop->count);
        return;
    }
    for (int64_t i = 0; i < loop->count; i++)
        combine_one(to + i * loop->result_step, from + i * loop->update_step);
}

__attribute__((target("avx2,fma,f16c")))
static __attribute__((noinline)) void
walk(const struct kvmill_scatter_loop *loop, int loops, unsigned char *to, const unsigned char *from)
{
    if (loops == 0)
        combine_one(to, from);
    else if (loops == 1)
        combine_along(loop, to, from);
    else
        for (int64_t i = 0; i < loop->count; i++)
            walk(loop + 1, loops - 1, to + i * loop->result_step, from + i * loop->update_step);
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
    for (int k = 0; k < 2; k++) {
        const struct kvmill_scatter_start *s = &p->start[k];
        int64_t low, high;
        if (!clip(s, start[k], inside->turn[k], &low, &high))
            return;
        to += start[k] * s->result_step;
        if (s->axis >= 0)
            cut(&loop[s->axis], low, high, &to, &from);
    }
    walk(loop, p->window_loops, to, from);
}

__attribute__((target("avx2,fma,f16c")))
static __attribute__((noinline)) void
combine_rows(const struct kvmill_scatter_windows *p, const struct kvmill_scatter_loop *loop, int loops,
             unsigned char *to, const unsigned char *from)
{
    if (!p->fits) {
        walk(loop, loops, to, from);
        return;
    }
    if (loops > 1) {
        for (int64_t i = 0; i < loop->count; i++)
            combine_rows(p, loop + 1, loops - 1, to + i * loop->result_step, from + i * loop->update_step);
        return;
    }
    combine_16(to, from);
    combine_one(to + 16, from + 16);
    combine_one(to + 18, from + 18);
    combine_one(to + 20, from + 20);
    combine_one(to + 22, from + 22);
}

INLINED void
points_by(const struct kvmill_scatter_windows *p, struct place at, struct inside inside,
          const struct kvmill_scatter_loop step, const int64_t last_step)
{
    const int64_t offset_0 = p->start[0].index_offset, step_0 = p->start[0].result_step;
    const int64_t low_0 = inside.low[0];
    const uint64_t count_0 = inside.count[0];
    const int64_t offset_1 = p->start[1].index_offset, step_1 = last_step;
    const int64_t low_1 = inside.low[1];
    const uint64_t count_1 = inside.count[1];
    int64_t i = 0;
    for (; i < step.count; i++) {
        int64_t start_0_0 = load_index(at.vector + i * step.index_step + offset_0);
        int64_t start_1_0 = load_index(at.vector + i * step.index_step + offset_1);
        if (((uint64_t)start_0_0 - (uint64_t)low_0 < count_0) & ((uint64_t)start_1_0 - (uint64_t)low_1 < count_1))
            combine_rows(p, p->rows, p->row_loops, at.to + i * step.result_step + start_0_0 * step_0 +
                         start_1_0 * step_1, at.from + i * step.update_step);
        else
            {
                const int64_t start[] = {start_0_0, start_1_0, 0};
                partial(p, &inside, start, at.to + i * step.result_step, at.from + i * step.update_step);
            }
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
points(const struct kvmill_scatter_windows *p, struct place at, struct inside inside)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    const int64_t last_step = p->start[1].result_step;
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
    for (int k = 0; k < 2; k++) {
        const struct kvmill_scatter_start *s = &p->start[k];
        inside.turn[k] = s->point < 0 ? 0 : turn[s->point];
        inside.low[k] = s->low - inside.turn[k];
        int64_t last = s->high - inside.turn[k] - s->extent;
        if (s->most != UINT64_MAX) {
            inside.low[k] = max(inside.low[k], 0);
            last = min(last, (int64_t)s->most);
        }
        inside.count[k] = (uint64_t)max(last - inside.low[k] + 1, 0);
    }
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
kvmill_scatter_maximum_bf16_i64_k2_r12__avx2_rows_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_scatter_windows *p = problem;
    struct place at = {p->result, p->updates, p->indices};
    int64_t turn[KVMILL_MOST_SCATTER_LOOPS] = {0};
    (void)first;
    (void)last;
    walk_points(p, 0, at, turn);
}

static const struct kvmill_scatter_shape shape = {
    .combiner = 6,
    .element_code = 4,
    .element_bits = 16,
    .index_code = 0,
    .index_bits = 64,
    .components = 2,
    .row = 12,
};

const struct kvmill_kernel kvmill_scatter_maximum_bf16_i64_k2_r12__avx2_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCATTER,
    .symbol = "kvmill_scatter_maximum_bf16_i64_k2_r12__avx2_rows",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_scatter_maximum_bf16_i64_k2_r12__avx2_rows_run,
};
