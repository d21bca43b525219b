/* Attend: scores from pairs of integer codes, positions in the lanes.
   Generated; to reproduce:
   kvmill explain --source kvmill_attend_f16_i8_i8_d32_e32_f16_g32_f16_j32_r4_plain_near__avx2_pairs */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef int16_t shorts __attribute__((vector_size(4 * LANES)));

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

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
}

INLINED vi
broadcast_words(int32_t x)
{
    return (vi){x, x, x, x, x, x, x, x};
}

INLINED vf
choose(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

INLINED vf
abs_f32(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

INLINED vf
max_f32(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINED vf
nearest_whole(vf x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINED vf
times_power(vf x, vf n)
{
    vu exponent = (vu)_mm256_cvtps_epi32(n); /* NaN gives 2^31, which the shift removes */
    return (vf)((vu)x + (exponent << 23));
}

INLINED vf
power_of_2(vf x)
{
    x = max_f32(broadcast(-127.f), x);
    vf n = nearest_whole(x), f = x - n;
    vf y = broadcast(0.0001534581201f);
    y = y * f + 0.001339993122f;
    y = y * f + 0.009618488957f;
    y = y * f + 0.05550328777f;
    y = y * f + 0.2402264689f;
    y = y * f + 0.6931472057f;
    y = y * f + 1.0f;
    return times_power(y, n);
}

INLINED vf
hide_outside(vf x, int64_t low, int64_t high)
{
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    int32_t from = (int32_t)(low < 0 ? 0 : low > LANES ? LANES : low);
    int32_t to = (int32_t)(high < 0 ? 0 : high > LANES ? LANES : high);
    return choose((lane >= from) & (lane < to), x, broadcast(-__builtin_inff()));
}

INLINED vf
add_quads(vf a, vf b)
{
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

INLINED vf
larger_quads(vf a, vf b)
{
    return max_f32(__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11),
                   __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15));
}

INLINED vf
load_f32(const void *from)
{
    return *(const vf_any *)from;
}

INLINED void
store_f32(void *to, vf x)
{
    *(vf_any *)to = x;
}

INLINED vf
from_halves(halves h)
{
    return _mm256_cvtph_ps((__m128i)h);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED halves
to_halves(vf x)
{
    return (halves)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

INLINED void
store_f16(void *to, vf x)
{
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
}

INLINED vi
load_words(const int32_t *from)
{
    return *(const vi_any *)from;
}

INLINED void
store_words(int32_t *to, vi x)
{
    *(vi_any *)to = x;
}

INLINED vi
odd_codes(vi x)
{
    return (vi)((shorts)x >> 8);
}

INLINED void
transpose_quads(vf x[4])
{
    vf a = __builtin_shufflevector(x[0], x[1], 0, 8, 1, 9, 4, 12, 5, 13), b =
        __builtin_shufflevector(x[2], x[3], 0, 8, 1, 9, 4, 12, 5, 13);
    vf c = __builtin_shufflevector(x[0], x[1], 2, 10, 3, 11, 6, 14, 7, 15), d =
        __builtin_shufflevector(x[2], x[3], 2, 10, 3, 11, 6, 14, 7, 15);
    x[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13), x[1] =
        __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    x[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13), x[3] =
        __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

INLINED vf
sum_quads(vf a, vf b, vf c, vf d)
{
    vf ab = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13) +
        __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
    vf cd = __builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13) +
        __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15);
    return __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
}

INLINED vf
largest_quads(vf a, vf b, vf c, vf d)
{
    vf ab = max_f32(__builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13),
                    __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15));
    vf cd = max_f32(__builtin_shufflevector(c, d, 0, 8, 1, 9, 4, 12, 5, 13),
                    __builtin_shufflevector(c, d, 2, 10, 3, 11, 6, 14, 7, 15));
    return max_f32(__builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13),
                   __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15));
}

INLINED float
largest_of(vf x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

INLINED float
sum_of(vf x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

INLINED int
is_any_negative(vi b)
{
    return _mm256_movemask_ps((__m256)b) != 0;
}

INLINED vf
load_quads(const void *a, const void *b, const void *c, const void *d)
{
    (void)c;
    (void)d;
    return _mm256_blend_ps(_mm256_broadcast_ps((const __m128 *)a), _mm256_broadcast_ps((const __m128 *)b), 0xf0);
}

INLINED vi
packed_words(vi a, vi b)
{
    return (vi)_mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)a, (__m256i)b), 0xd8);
}

INLINED vi
round_even(vf x)
{
    return (vi)_mm256_cvtps_epi32(x);
}

INLINED vi
add_pairs(vi sum, vi a, vi b)
{
    sum += (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
    __asm__("" : "+x"(sum));
    return sum;
}

INLINED vi
even_codes(vi x)
{
    return (vi)_mm256_maddubs_epi16(_mm256_set1_epi16(1), (__m256i)x);
}

INLINED vi
lower_pairs(vi a, vi b)
{
    return (vi)_mm256_unpacklo_epi16((__m256i)a, (__m256i)b);
}

INLINED vi
upper_pairs(vi a, vi b)
{
    return (vi)_mm256_unpackhi_epi16((__m256i)a, (__m256i)b);
}

enum {
    KEY_DIM = 32,
    KEY_PADDED = 32,
    VALUE_DIM = 32,
    VALUE_PADDED = 32,
    ROWS = 4,
    ALL_ROWS = 8,
    TILE = 4,
    SOFTMAX_ROWS = 4, /* query rows that go through softmax at a time */
    STRIP = 16,
    BLOCK = 64,
    OUTER = 64, /* rows ahead that are brought into the first cache */
    RUN = 8, /* rows of the cache that are found together */
    FOUND = 128, /* rows of a block and ahead of it */
};

/* RUN rows of the cache: row i is step[i] bytes after the first one.  */
struct run {
    const unsigned char *first;
    const int64_t *step;
};

/* The place of a row: `passed` rows into an extent.  After the last extent it is the last row.  */
struct place {
    const struct kvmill_extent *extent;
    int64_t passed;
};

INLINED const unsigned char *
row_of(const struct run *run, int64_t t)
{
    return run[(uint64_t)t / RUN].first + run[(uint64_t)t / RUN].step[t % RUN];
}

/* The rows of a run from row t on.  */
INLINED struct run
run_from(const struct run *run, int64_t t)
{
    return (struct run){run[(uint64_t)t / RUN].first, run[(uint64_t)t / RUN].step + t % RUN};
}

struct work {
    vi query[ROWS][KEY_DIM / 2]; /* pairs, the same in all lanes, in the order of codes */
    float unit[ROWS]; /* of a query's last digit */
    unsigned char wide[ROWS / TILE]; /* whether a row of the tile is wide */
    _Alignas(64) float acc[ROWS][VALUE_PADDED];
    _Alignas(64) float score[ROWS][BLOCK]; /* after softmax: weights */
    _Alignas(64) int16_t weight[TILE][1][BLOCK];
    _Alignas(64) float value_size[1][BLOCK]; /* magnitudes of scales */
    _Alignas(64) float value_unit[1][ALL_ROWS], per_value_unit[1][ALL_ROWS]; /* units of weights; their inverses */
    uint64_t lost[1]; /* a bit for each position that was taken out */
    int has_lost;
    /* Where the rows of the block and those ahead of it are, and where the next block begins.  */
    struct run key_run[FOUND / RUN];
    int64_t key_step[2 + FOUND / RUN][RUN];
    struct run value_run[FOUND / RUN];
    int64_t value_step[2 + FOUND / RUN][RUN];
    struct run key_scale_run[FOUND / RUN];
    int64_t key_scale_step[2 + FOUND / RUN][RUN];
    struct run value_scale_run[FOUND / RUN];
    int64_t value_scale_step[2 + FOUND / RUN][RUN];
    const unsigned char *ahead[2][BLOCK]; /* keys and values OUTER rows ahead */
    struct place next;
    _Alignas(64) float key_scale[1][BLOCK];
    _Alignas(64) float value_scale[1][BLOCK];
    int64_t seen[ALL_ROWS]; /* positions of the block that the row's tile sees */
    float max[ALL_ROWS], sum[ALL_ROWS], rescale[ALL_ROWS];
};

static const float log2_e = 1.44269504f, ln_2 = 0.693147181f;

INLINED int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINED void
list_ahead(const unsigned char *ahead[BLOCK], const struct run *run)
{
    for (int64_t i = 0; i < BLOCK / RUN; i++)
        for (int64_t j = 0; j < RUN; j++)
            ahead[i * RUN + j] = run[i].first + run[i].step[j];
}

INLINED void
fetch_line(const struct work *w, const unsigned char *line)
{
    (void)w;
    __builtin_prefetch(line, 0, 3);
}

/* Prefetch a step's share of the lines of half a block's keys (side 0) or values (1).  Finding a row takes longer than
   fetching three lines of it, so short rows are fetched whole, by every Nth step if there are more steps than rows.  If
   all shares are equal, each `together` lines are in one row.  */
INLINED void
fetch_share(const struct work *w, int side, int lines, int half, int64_t step, int64_t steps)
{
    const int64_t all = BLOCK / 2 * lines, unit = lines <= 3 ? lines : 1;
    const int64_t every = steps * unit % all == 0 ? steps * unit / all : 1;
    const int64_t shares = steps / every, share = step / every;
    const int64_t equal = all % shares == 0 ? all / shares : 0;
    const int64_t first = equal ? share * equal : share * all / shares;
    const int64_t count = equal ? equal : (share + 1) * all / shares - first;
    const int64_t together = equal == 0 ? 1 : lines % equal == 0 ? equal : equal % lines == 0 ? lines : 1;
    if (step % every != 0)
        return;
    for (int64_t i = half * all + first; i < half * all + first + count; i += together)
        for (int64_t j = 0; j < together; j++)
            fetch_line(w, w->ahead[side][i / lines] + (i % lines + j) * 64);
}

/* Prefetch a step's share of keys and values: of a block's first half while it reads keys, then of the second.  */
INLINED void
fetch_step(const struct work *w, int half, int64_t step, int64_t steps)
{
    fetch_share(w, 0, 1, half, step, steps);
    fetch_share(w, 1, 1, half, step, steps);
}

/* If the scales of a run are close together, they are in one or two lines.  */
INLINED void
fetch_scales(struct run run)
{
    int64_t by = (uint64_t)run.step[RUN - 1] < 64 ? RUN - 1 : 1;
    for (int64_t i = 0; i < RUN; i += by)
        __builtin_prefetch(run.first + run.step[i], 0, 3);
}

/* The place n rows further on, in a later extent if there is one.  */
INLINED struct place
place_after(struct place at, int64_t n)
{
    for (at.passed += n; at.passed >= at.extent->count && at.extent[1].count > 0; at.extent++)
        at.passed -= at.extent->count;
    return at;
}

/* Set n runs, one after the other; if the step is 0, all are the same row.  */
INLINED void
lay_runs(struct run *run, int64_t n, const unsigned char *first, const int64_t *step)
{
    for (int64_t i = 0; i < n; i++, first += step[RUN - 1] + step[1])
        run[i] = (struct run){first, step};
}

INLINED int64_t
slot_at(struct place at)
{
    return at.extent->slot + smaller(at.passed, at.extent->count - 1);
}

/* Set the runs for n rows of the block, from row t on.  They are the slots from `slot` on, or, if `stays`, always
   `slot`.  With `after`, they belong to the next call.  */
INLINED void
set_runs(const struct kvmill_attend *p, struct work *w, int64_t t, int64_t n, int64_t slot, int stays, int after)
{
    lay_runs(w->key_run + t / RUN, n / RUN, (after ? p->after_key : p->key) + slot * p->key_stride, w->key_step[stays]);
    lay_runs(w->value_run + t / RUN, n / RUN, (after ? p->after_value : p->value) + slot * p->value_stride,
             w->value_step[stays]);
    lay_runs(w->key_scale_run + t / RUN, n / RUN, (after ? p->after_key_scale : p->key_scale) +
             slot * p->key_scale_stride, w->key_scale_step[stays]);
    lay_runs(w->value_scale_run + t / RUN, n / RUN, (after ? p->after_value_scale : p->value_scale) +
             slot * p->value_scale_stride, w->value_scale_step[stays]);
}

/* List rows t to t + RUN - 1 one by one, because they are not adjacent or do not all belong to the call.  A row that is
   not the call's is replaced by the nearest one that is.  */
__attribute__((noinline)) __attribute__((target("avx2,fma,f16c")))
static void
list_run(const struct kvmill_attend *p, struct work *w, int64_t t, struct place at, int64_t n, int after)
{
    const int64_t first = slot_at(at);
    for (int64_t i = 0; i < RUN; i++) {
        int64_t slot = slot_at(at);
        w->key_step[2 + t / RUN][i] = (slot - first) * p->key_stride;
        w->value_step[2 + t / RUN][i] = (slot - first) * p->value_stride;
        w->key_scale_step[2 + t / RUN][i] = (slot - first) * p->key_scale_stride;
        w->value_scale_step[2 + t / RUN][i] = (slot - first) * p->value_scale_stride;
        if (t + i < n - 1)
            at = place_after(at, 1);
    }
    w->key_run[t / RUN] = (struct run){(after ? p->after_key : p->key) + first * p->key_stride,
                                       w->key_step[2 + t / RUN]};
    w->value_run[t / RUN] = (struct run){(after ? p->after_value : p->value) + first * p->value_stride,
                                         w->value_step[2 + t / RUN]};
    w->key_scale_run[t / RUN] = (struct run){(after ? p->after_key_scale : p->key_scale) + first * p->key_scale_stride,
                                             w->key_scale_step[2 + t / RUN]};
    w->value_scale_run[t / RUN] = (struct run){(after ? p->after_value_scale : p->value_scale) +
                                               first * p->value_scale_stride, w->value_scale_step[2 + t / RUN]};
}

/* Set whole runs of adjacent rows, from row t on: those that lie within this extent and before row `end`.  If there is
   none, list one run.  Returns the number of rows.  */
INLINED int64_t
find_runs(const struct kvmill_attend *p, struct work *w, int64_t t, int64_t end, struct place at, int after)
{
    int64_t n = smaller(end - t, at.extent->count - at.passed) / RUN * RUN;
    if (n > 0) {
        set_runs(p, w, t, n, slot_at(at), 0, after);
        return n;
    }
    list_run(p, w, t, at, end, after);
    return RUN;
}

/* Find the n rows of a block.  The rest of the block repeats the last row.  */
INLINED void
find_block(const struct kvmill_attend *p, struct work *w, struct place at, int64_t n)
{
    int64_t t = 0, count;
    const struct place last = place_after(at, n - 1);
    for (; t < n; t += count, at = place_after(at, count))
        count = find_runs(p, w, t, n, at, 0);
    if (t < BLOCK)
        set_runs(p, w, t, BLOCK - t, slot_at(last), 1, 0);
}

/* Prefetch a line of each extent that begins within the BLOCK rows from a place on.  Translating the address of a page
   may take longer than fetching its lines, so it is started before they are needed.  */
INLINED void
touch_extents(const struct kvmill_attend *p, struct place at, int after)
{
    int64_t row = -at.passed; /* the extent's first row, counted from the place */
    for (; row < BLOCK && at.extent->count > 0; row += at.extent->count, at.extent++)
        if (row >= 0) {
            __builtin_prefetch((after ? p->after_key : p->key) + at.extent->slot * p->key_stride, 0, 3);
            __builtin_prefetch((after ? p->after_value : p->value) + at.extent->slot * p->value_stride, 0, 3);
            __builtin_prefetch((after ? p->after_key_scale : p->key_scale) + at.extent->slot * p->key_scale_stride, 0,
                               3);
            __builtin_prefetch((after ? p->after_value_scale : p->value_scale) +
                               at.extent->slot * p->value_scale_stride, 0, 3);
        }
}

INLINED void
find_rows(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)
{
    struct place here = at <= 0 ? (struct place){p->extent, at} : w->next;
    for (int64_t i = 0; at <= 0 && i < RUN; i++) {
        w->key_step[0][i] = i * p->key_stride;
        w->key_step[1][i] = 0;
        w->value_step[0][i] = i * p->value_stride;
        w->value_step[1][i] = 0;
        w->key_scale_step[0][i] = i * p->key_scale_stride;
        w->key_scale_step[1][i] = 0;
        w->value_scale_step[0][i] = i * p->value_scale_stride;
        w->value_scale_step[1][i] = 0;
    }
    find_block(p, w, here, n);
    w->next = here = place_after(here, BLOCK);
    for (int64_t t = BLOCK, count; t < FOUND; t += count, here = place_after(here, count)) {
        const int after = at + t >= p->count && p->after_key != NULL;
        count = find_runs(p, w, t, FOUND, here, after);
    }
    touch_extents(p, here, at + FOUND >= p->count && p->after_key != NULL);
    list_ahead(w->ahead[0], w->key_run + OUTER / RUN);
    list_ahead(w->ahead[1], w->value_run + OUTER / RUN);
    for (int64_t t = at <= 0 ? 0 : FOUND - BLOCK; t < FOUND; t += RUN) {
        fetch_scales(w->key_scale_run[t / RUN]);
        fetch_scales(w->value_scale_run[t / RUN]);
    }
}

INLINED const unsigned char *
key_scale_rows(const struct work *w, int64_t t, unsigned char copy[LANES][2])
{
    const struct run *run = &w->key_scale_run[t / RUN];
    if (run->step == w->key_scale_step[0] && run->step[1] == 2)
        return row_of(w->key_scale_run, t);
    for (int i = 0; i < LANES; i++)
        memcpy(copy[i], row_of(w->key_scale_run, t + i), sizeof copy[i]);
    return copy[0];
}

INLINED void
load_key_scales(struct work *w, int64_t n)
{
    unsigned char copy[LANES][2];
    for (int64_t t = 0; t < n; t += LANES)
        store_f32(w->key_scale[0] + t, load_f16(key_scale_rows(w, t, copy)));
}

/* Turn 4 words of LANES rows, from byte `from` on, so that positions are in the lanes.  */
INLINED void
turn(const unsigned char *const *row, int64_t from, vf x[4])
{
    for (int i = 0; i < 4; i++)
        x[i] = load_quads(row[i] + from, row[(i + 4) % LANES] + from, row[(i + 8) % LANES] + from,
                          row[(i + 12) % LANES] + from);
    transpose_quads(x);
}

INLINED void
load_keys(struct work *w, int64_t n)
{
    load_key_scales(w, n);
}

INLINED const unsigned char *
value_scale_rows(const struct work *w, int64_t t, unsigned char copy[LANES][2])
{
    const struct run *run = &w->value_scale_run[t / RUN];
    if (run->step == w->value_scale_step[0] && run->step[1] == 2)
        return row_of(w->value_scale_run, t);
    for (int i = 0; i < LANES; i++)
        memcpy(copy[i], row_of(w->value_scale_run, t + i), sizeof copy[i]);
    return copy[0];
}

INLINED void
load_value_scales(struct work *w, int64_t n)
{
    unsigned char copy[LANES][2];
    for (int64_t t = 0; t < n; t += LANES)
        store_f32(w->value_scale[0] + t, load_f16(value_scale_rows(w, t, copy)));
}

/* Take out the scales of group g that are not finite.  Positions after the last one repeat it.  */
__attribute__((noinline, cold)) __attribute__((target("avx2,fma,f16c")))
static void
take_scales(struct work *w, int g, int64_t n)
{
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++)
        if (!(__builtin_fabsf(w->value_scale[g][t]) <= 0x1.fffffep127f)) {
            w->value_scale[g][t] = 0;
            w->value_size[g][t] = 0;
            w->lost[g] |= t < n ? (uint64_t)1 << t : 0;
        }
}

/* Set the magnitudes of scales, and take out those that are not finite.  Returns whether a scale is negative.  */
INLINED int
set_sizes(struct work *w, int64_t n)
{
    vi signs = {0};
    vf none = broadcast(0.f);
    for (int64_t t = 0; t < n; t += LANES) {
        vf scale = load_f32(w->value_scale[0] + t), x = abs_f32(scale);
        signs |= (vi)scale;
        store_f32(w->value_size[0] + t, x);
        none += x * 0.f;
    }
    w->lost[0] = 0;
    if (sum_of(none) != 0.f) {
        take_scales(w, 0, n);
        w->has_lost = 1;
    }
    return is_any_negative(signs);
}

INLINED void
load_values(struct work *w, int64_t n)
{
    load_value_scales(w, n);
    set_sizes(w, n);
}

/* Scores of a tile for a strip of positions from t on: for each group of dims, query times code, word by word; then the
   group's sum times its scale.  */
INLINED void
score_strip(struct work *w, int64_t r, int64_t t)
{
    vf score[TILE][1] = {{{0}}};
    const struct run keys_0 = run_from(w->key_run, t);
    const unsigned char *row_0 = keys_0.first + keys_0.step[0];
    const unsigned char *row_1 = keys_0.first + keys_0.step[1];
    const unsigned char *row_2 = keys_0.first + keys_0.step[2];
    const unsigned char *row_3 = keys_0.first + keys_0.step[3];
    const unsigned char *row_4 = keys_0.first + keys_0.step[4];
    const unsigned char *row_5 = keys_0.first + keys_0.step[5];
    const unsigned char *row_6 = keys_0.first + keys_0.step[6];
    const unsigned char *row_7 = keys_0.first + keys_0.step[7];
    const unsigned char *const row[] = {row_0, row_1, row_2, row_3, row_4, row_5, row_6, row_7};
    vf x[4];
    vi s_0_0 = {0};
    vi s_1_0 = {0};
    vi s_2_0 = {0};
    vi s_3_0 = {0};
    for (int64_t k = 0; k < 8; k += 4) {
        fetch_step(w, 0, t / 8 * 2 + k / 4, 16);
        turn(row, k * 4, x);
        vi k_0_0 = (vi)x[0];
        vi b_0_0_0 = even_codes(k_0_0);
        vi a_0_0_0 = w->query[r][k * 2];
        s_0_0 = add_pairs(s_0_0, a_0_0_0, b_0_0_0);
        vi a_0_0_1 = w->query[r + 1][k * 2];
        s_1_0 = add_pairs(s_1_0, a_0_0_1, b_0_0_0);
        vi a_0_0_2 = w->query[r + 2][k * 2];
        s_2_0 = add_pairs(s_2_0, a_0_0_2, b_0_0_0);
        vi a_0_0_3 = w->query[r + 3][k * 2];
        s_3_0 = add_pairs(s_3_0, a_0_0_3, b_0_0_0);
        vi b_0_1_0 = odd_codes(k_0_0);
        vi a_0_1_0 = w->query[r][k * 2 + 1];
        s_0_0 = add_pairs(s_0_0, a_0_1_0, b_0_1_0);
        vi a_0_1_1 = w->query[r + 1][k * 2 + 1];
        s_1_0 = add_pairs(s_1_0, a_0_1_1, b_0_1_0);
        vi a_0_1_2 = w->query[r + 2][k * 2 + 1];
        s_2_0 = add_pairs(s_2_0, a_0_1_2, b_0_1_0);
        vi a_0_1_3 = w->query[r + 3][k * 2 + 1];
        s_3_0 = add_pairs(s_3_0, a_0_1_3, b_0_1_0);
        vi k_1_0 = (vi)x[1];
        vi b_1_0_0 = even_codes(k_1_0);
        vi a_1_0_0 = w->query[r][(k + 1) * 2];
        s_0_0 = add_pairs(s_0_0, a_1_0_0, b_1_0_0);
        vi a_1_0_1 = w->query[r + 1][(k + 1) * 2];
        s_1_0 = add_pairs(s_1_0, a_1_0_1, b_1_0_0);
        vi a_1_0_2 = w->query[r + 2][(k + 1) * 2];
        s_2_0 = add_pairs(s_2_0, a_1_0_2, b_1_0_0);
        vi a_1_0_3 = w->query[r + 3][(k + 1) * 2];
        s_3_0 = add_pairs(s_3_0, a_1_0_3, b_1_0_0);
        vi b_1_1_0 = odd_codes(k_1_0);
        vi a_1_1_0 = w->query[r][(k + 1) * 2 + 1];
        s_0_0 = add_pairs(s_0_0, a_1_1_0, b_1_1_0);
        vi a_1_1_1 = w->query[r + 1][(k + 1) * 2 + 1];
        s_1_0 = add_pairs(s_1_0, a_1_1_1, b_1_1_0);
        vi a_1_1_2 = w->query[r + 2][(k + 1) * 2 + 1];
        s_2_0 = add_pairs(s_2_0, a_1_1_2, b_1_1_0);
        vi a_1_1_3 = w->query[r + 3][(k + 1) * 2 + 1];
        s_3_0 = add_pairs(s_3_0, a_1_1_3, b_1_1_0);
        vi k_2_0 = (vi)x[2];
        vi b_2_0_0 = even_codes(k_2_0);
        vi a_2_0_0 = w->query[r][(k + 2) * 2];
        s_0_0 = add_pairs(s_0_0, a_2_0_0, b_2_0_0);
        vi a_2_0_1 = w->query[r + 1][(k + 2) * 2];
        s_1_0 = add_pairs(s_1_0, a_2_0_1, b_2_0_0);
        vi a_2_0_2 = w->query[r + 2][(k + 2) * 2];
        s_2_0 = add_pairs(s_2_0, a_2_0_2, b_2_0_0);
        vi a_2_0_3 = w->query[r + 3][(k + 2) * 2];
        s_3_0 = add_pairs(s_3_0, a_2_0_3, b_2_0_0);
        vi b_2_1_0 = odd_codes(k_2_0);
        vi a_2_1_0 = w->query[r][(k + 2) * 2 + 1];
        s_0_0 = add_pairs(s_0_0, a_2_1_0, b_2_1_0);
        vi a_2_1_1 = w->query[r + 1][(k + 2) * 2 + 1];
        s_1_0 = add_pairs(s_1_0, a_2_1_1, b_2_1_0);
        vi a_2_1_2 = w->query[r + 2][(k + 2) * 2 + 1];
        s_2_0 = add_pairs(s_2_0, a_2_1_2, b_2_1_0);
        vi a_2_1_3 = w->query[r + 3][(k + 2) * 2 + 1];
        s_3_0 = add_pairs(s_3_0, a_2_1_3, b_2_1_0);
        vi k_3_0 = (vi)x[3];
        vi b_3_0_0 = even_codes(k_3_0);
        vi a_3_0_0 = w->query[r][(k + 3) * 2];
        s_0_0 = add_pairs(s_0_0, a_3_0_0, b_3_0_0);
        vi a_3_0_1 = w->query[r + 1][(k + 3) * 2];
        s_1_0 = add_pairs(s_1_0, a_3_0_1, b_3_0_0);
        vi a_3_0_2 = w->query[r + 2][(k + 3) * 2];
        s_2_0 = add_pairs(s_2_0, a_3_0_2, b_3_0_0);
        vi a_3_0_3 = w->query[r + 3][(k + 3) * 2];
        s_3_0 = add_pairs(s_3_0, a_3_0_3, b_3_0_0);
        vi b_3_1_0 = odd_codes(k_3_0);
        vi a_3_1_0 = w->query[r][(k + 3) * 2 + 1];
        s_0_0 = add_pairs(s_0_0, a_3_1_0, b_3_1_0);
        vi a_3_1_1 = w->query[r + 1][(k + 3) * 2 + 1];
        s_1_0 = add_pairs(s_1_0, a_3_1_1, b_3_1_0);
        vi a_3_1_2 = w->query[r + 2][(k + 3) * 2 + 1];
        s_2_0 = add_pairs(s_2_0, a_3_1_2, b_3_1_0);
        vi a_3_1_3 = w->query[r + 3][(k + 3) * 2 + 1];
        s_3_0 = add_pairs(s_3_0, a_3_1_3, b_3_1_0);
    }
    score[0][0] += __builtin_convertvector(s_0_0, vf) * load_f32(w->key_scale[0] + t);
    score[1][0] += __builtin_convertvector(s_1_0, vf) * load_f32(w->key_scale[0] + t);
    score[2][0] += __builtin_convertvector(s_2_0, vf) * load_f32(w->key_scale[0] + t);
    score[3][0] += __builtin_convertvector(s_3_0, vf) * load_f32(w->key_scale[0] + t);
    store_f32(w->score[r] + t, score[0][0] * w->unit[r]);
    store_f32(w->score[r + 1] + t, score[1][0] * w->unit[r + 1]);
    store_f32(w->score[r + 2] + t, score[2][0] * w->unit[r + 2]);
    store_f32(w->score[r + 3] + t, score[3][0] * w->unit[r + 3]);
}

INLINED void
score(struct work *w, int64_t r, int64_t n)
{
    for (int64_t t = 0; t < n; t += 8)
        score_strip(w, r, t);
}

/* Add the terms of row r to its scores, and hide what it does not see.  Returns the largest score in each lane.  */
INLINED vf
finish_scores(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)
{
    const struct kvmill_query_row *row = &p->row[r];
    int64_t n = w->seen[r], low = row->first - from, high = smaller(row->last - from, n);
    vf top = broadcast(-__builtin_inff());
    for (int64_t t = 0; t < n; t += LANES) {
        vf x = load_f32(w->score[r] + t);
        if (low > t || high < t + LANES)
            store_f32(w->score[r] + t, x = hide_outside(x, low - t, high - t));
        top = max_f32(top, x);
    }
    return top;
}

/* Turn the scores of row r into weights.  Returns the sum of the weights in each lane.  */
INLINED vf
exponentials(struct work *w, int64_t r, float base, vf top[1][SOFTMAX_ROWS])
{
    vf sum = broadcast(0.f), max[1] = {{0}};
    for (int64_t t = 0; t < w->seen[r]; t += LANES) {
        vf x = power_of_2(load_f32(w->score[r] + t) - base);
        store_f32(w->score[r] + t, x);
        sum += x;
        max[0] = max_f32(x * load_f32(w->value_size[0] + t), max[0]);
    }
    top[0][r % SOFTMAX_ROWS] = max[0];
    return sum;
}

INLINED vf
max_of_each(const vf x[SOFTMAX_ROWS])
{
    vf y = largest_quads(x[0], x[1], x[2], x[3]);
    y = larger_quads(y, y);
    return y;
}

INLINED vf
sum_of_each(const vf x[SOFTMAX_ROWS])
{
    vf y = sum_quads(x[0], x[1], x[2], x[3]);
    y = add_quads(y, y);
    return y;
}

INLINED void
set_units(struct work *w, int64_t r, vf top[1][SOFTMAX_ROWS])
{
    const float most = 32767.f;
    vf max = max_of_each(top[0]);
    store_f32(w->value_unit[0] + r, max / most);
    store_f32(w->per_value_unit[0] + r, choose(max > 0.f, most / max, broadcast(0.f)));
}

/* SOFTMAX_ROWS rows from r on.  They are handled together, so that numbers of which each row has one fill vectors.  */
INLINED void
softmax(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)
{
    int64_t rows = smaller(SOFTMAX_ROWS, p->rows - r);
    vf x[SOFTMAX_ROWS];
    for (int64_t i = 0; i < SOFTMAX_ROWS; i++)
        x[i] = broadcast(-__builtin_inff());
    for (int64_t i = 0; i < rows; i++)
        x[i] = finish_scores(p, w, r + i, from);
    vf before = load_f32(w->max + r), max = max_f32(before, max_of_each(x));
    vf base = choose(max == -__builtin_inff(), broadcast(0.f), max), rescale = power_of_2(before - base);
    float bases[LANES];
    store_f32(bases, base);
    vf top[1][SOFTMAX_ROWS] = {{{0}}};
    for (int64_t i = 0; i < rows; i++)
        x[i] = exponentials(w, r + i, bases[i], top);
    for (int64_t i = rows; i < SOFTMAX_ROWS; i++)
        x[i] = broadcast(0.f);
    store_f32(w->max + r, max);
    store_f32(w->rescale + r, rescale);
    store_f32(w->sum + r, load_f32(w->sum + r) * rescale + sum_of_each(x));
    set_units(w, r, top);
}

/* Whether query row r sees a position.  */
INLINED int
sees(const struct kvmill_attend *p, int64_t r, int64_t position)
{
    const struct kvmill_query_row *row = &p->row[r];
    if (position < row->first || position >= row->last)
        return 0;
    return 1;
}

/* Make the sums of row r NaN in group g, whose scale at position t was lost.  */
INLINED void
add_value(struct work *w, int64_t r, int64_t t, int g)
{
    (void)t;
    for (int d = 0; d < 32; d++)
        w->acc[r][g * 32 + d] = __builtin_nanf("");
}

/* Add what was taken out of the block that begins at position `from` for the rows that see it.  */
__attribute__((noinline, cold)) __attribute__((target("avx2,fma,f16c")))
static void
add_lost(const struct kvmill_attend *p, struct work *w, int64_t from, int64_t n)
{
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t t = 0; t < n; t++)
            if (w->lost[0] >> t & 1 && sees(p, r, from + t))
                add_value(w, r, t, 0);
}

INLINED void
set_order(float *acc)
{
    float x[32];
    for (int d = 0; d < VALUE_DIM; d += 32) {
        memcpy(x, acc + d, sizeof x);
        for (int i = 0; i < 32; i++)
            acc[d + ((i % LANES / 4 * 8 + i / 16 * 4 + i % 4) * 2 + i / LANES % 2)] = x[i];
    }
}

/* Round the weights of row r + i to 16-bit integers.  */
INLINED void
split_weights(struct work *w, int64_t r, int64_t i, int64_t n)
{
    float unit = w->per_value_unit[0][r + i];
    for (int64_t t = 0; t < n; t += 2 * LANES) {
        vi low = round_even(load_f32(w->score[r + i] + t) * load_f32(w->value_scale[0] + t) * unit);
        vi high = round_even(load_f32(w->score[r + i] + t + LANES) * load_f32(w->value_scale[0] + t + LANES) * unit);
        store_words((int32_t *)(void *)&w->weight[i][0][t], packed_words(low, high));
    }
}

/* Sums of a tile, from dim v on: add weight times value, two positions at a time, as integers.  */
INLINED void
accumulate_pieces_0(struct work *w, int64_t r, int64_t v, int64_t n)
{
    __auto_type s_0_0 = (vi){0};
    __auto_type s_0_1 = (vi){0};
    __auto_type s_1_0 = (vi){0};
    __auto_type s_1_1 = (vi){0};
    __auto_type s_2_0 = (vi){0};
    __auto_type s_2_1 = (vi){0};
    __auto_type s_3_0 = (vi){0};
    __auto_type s_3_1 = (vi){0};
    for (int64_t next = 0; next < (n + 1) / 2; next += 4) {
        if (r == 0)
            fetch_step(w, 1, v / 32 * 16 + 2 * next / 8, 16);
        const struct run run = w->value_run[next / 4];
        #pragma GCC unroll 4
        for (int64_t k = next; k < next + 4; k++) {
            const unsigned char *value_0 = run.first + run.step[2 * (k - next)];
            const unsigned char *value_1 = run.first + run.step[2 * (k - next) + 1];
            __auto_type b_0 = even_codes(lower_pairs(load_words((const int32_t *)(const void *)(value_0 + v)),
                                                     load_words((const int32_t *)(const void *)(value_1 + v))));
            __auto_type b_1 = odd_codes(lower_pairs(load_words((const int32_t *)(const void *)(value_0 + v)),
                                                    load_words((const int32_t *)(const void *)(value_1 + v))));
            __auto_type a_0 = broadcast_words(*(const kvmill_word4 *)&w->weight[0][v / 32][2 * k]);
            s_0_0 = add_pairs(s_0_0, a_0, b_0);
            s_0_1 = add_pairs(s_0_1, a_0, b_1);
            __auto_type a_1 = broadcast_words(*(const kvmill_word4 *)&w->weight[1][v / 32][2 * k]);
            s_1_0 = add_pairs(s_1_0, a_1, b_0);
            s_1_1 = add_pairs(s_1_1, a_1, b_1);
            __auto_type a_2 = broadcast_words(*(const kvmill_word4 *)&w->weight[2][v / 32][2 * k]);
            s_2_0 = add_pairs(s_2_0, a_2, b_0);
            s_2_1 = add_pairs(s_2_1, a_2, b_1);
            __auto_type a_3 = broadcast_words(*(const kvmill_word4 *)&w->weight[3][v / 32][2 * k]);
            s_3_0 = add_pairs(s_3_0, a_3, b_0);
            s_3_1 = add_pairs(s_3_1, a_3, b_1);
        }
    }
    store_f32(w->acc[r] + v, load_f32(w->acc[r] + v) * w->rescale[r] +
              __builtin_convertvector(s_0_0, vf) * w->value_unit[v / 32][r]);
    store_f32(w->acc[r] + v + 8, load_f32(w->acc[r] + v + 8) * w->rescale[r] +
              __builtin_convertvector(s_0_1, vf) * w->value_unit[v / 32][r]);
    store_f32(w->acc[r + 1] + v, load_f32(w->acc[r + 1] + v) * w->rescale[r + 1] +
              __builtin_convertvector(s_1_0, vf) * w->value_unit[v / 32][r + 1]);
    store_f32(w->acc[r + 1] + v + 8, load_f32(w->acc[r + 1] + v + 8) * w->rescale[r + 1] +
              __builtin_convertvector(s_1_1, vf) * w->value_unit[v / 32][r + 1]);
    store_f32(w->acc[r + 2] + v, load_f32(w->acc[r + 2] + v) * w->rescale[r + 2] +
              __builtin_convertvector(s_2_0, vf) * w->value_unit[v / 32][r + 2]);
    store_f32(w->acc[r + 2] + v + 8, load_f32(w->acc[r + 2] + v + 8) * w->rescale[r + 2] +
              __builtin_convertvector(s_2_1, vf) * w->value_unit[v / 32][r + 2]);
    store_f32(w->acc[r + 3] + v, load_f32(w->acc[r + 3] + v) * w->rescale[r + 3] +
              __builtin_convertvector(s_3_0, vf) * w->value_unit[v / 32][r + 3]);
    store_f32(w->acc[r + 3] + v + 8, load_f32(w->acc[r + 3] + v + 8) * w->rescale[r + 3] +
              __builtin_convertvector(s_3_1, vf) * w->value_unit[v / 32][r + 3]);
}

/* Sums of a tile, from dim v on: add weight times value, two positions at a time, as integers.  */
INLINED void
accumulate_pieces_2(struct work *w, int64_t r, int64_t v, int64_t n)
{
    __auto_type s_0_0 = (vi){0};
    __auto_type s_0_1 = (vi){0};
    __auto_type s_1_0 = (vi){0};
    __auto_type s_1_1 = (vi){0};
    __auto_type s_2_0 = (vi){0};
    __auto_type s_2_1 = (vi){0};
    __auto_type s_3_0 = (vi){0};
    __auto_type s_3_1 = (vi){0};
    for (int64_t next = 0; next < (n + 1) / 2; next += 4) {
        if (r == 0)
            fetch_step(w, 1, (v / 32 * 2 + 1) * 8 + 2 * next / 8, 16);
        const struct run run = w->value_run[next / 4];
        #pragma GCC unroll 4
        for (int64_t k = next; k < next + 4; k++) {
            const unsigned char *value_0 = run.first + run.step[2 * (k - next)];
            const unsigned char *value_1 = run.first + run.step[2 * (k - next) + 1];
            __auto_type b_0 = even_codes(upper_pairs(load_words((const int32_t *)(const void *)(value_0 + v)),
                                                     load_words((const int32_t *)(const void *)(value_1 + v))));
            __auto_type b_1 = odd_codes(upper_pairs(load_words((const int32_t *)(const void *)(value_0 + v)),
                                                    load_words((const int32_t *)(const void *)(value_1 + v))));
            __auto_type a_0 = broadcast_words(*(const kvmill_word4 *)&w->weight[0][v / 32][2 * k]);
            s_0_0 = add_pairs(s_0_0, a_0, b_0);
            s_0_1 = add_pairs(s_0_1, a_0, b_1);
            __auto_type a_1 = broadcast_words(*(const kvmill_word4 *)&w->weight[1][v / 32][2 * k]);
            s_1_0 = add_pairs(s_1_0, a_1, b_0);
            s_1_1 = add_pairs(s_1_1, a_1, b_1);
            __auto_type a_2 = broadcast_words(*(const kvmill_word4 *)&w->weight[2][v / 32][2 * k]);
            s_2_0 = add_pairs(s_2_0, a_2, b_0);
            s_2_1 = add_pairs(s_2_1, a_2, b_1);
            __auto_type a_3 = broadcast_words(*(const kvmill_word4 *)&w->weight[3][v / 32][2 * k]);
            s_3_0 = add_pairs(s_3_0, a_3, b_0);
            s_3_1 = add_pairs(s_3_1, a_3, b_1);
        }
    }
    store_f32(w->acc[r] + v + 16, load_f32(w->acc[r] + v + 16) * w->rescale[r] +
              __builtin_convertvector(s_0_0, vf) * w->value_unit[v / 32][r]);
    store_f32(w->acc[r] + v + 24, load_f32(w->acc[r] + v + 24) * w->rescale[r] +
              __builtin_convertvector(s_0_1, vf) * w->value_unit[v / 32][r]);
    store_f32(w->acc[r + 1] + v + 16, load_f32(w->acc[r + 1] + v + 16) * w->rescale[r + 1] +
              __builtin_convertvector(s_1_0, vf) * w->value_unit[v / 32][r + 1]);
    store_f32(w->acc[r + 1] + v + 24, load_f32(w->acc[r + 1] + v + 24) * w->rescale[r + 1] +
              __builtin_convertvector(s_1_1, vf) * w->value_unit[v / 32][r + 1]);
    store_f32(w->acc[r + 2] + v + 16, load_f32(w->acc[r + 2] + v + 16) * w->rescale[r + 2] +
              __builtin_convertvector(s_2_0, vf) * w->value_unit[v / 32][r + 2]);
    store_f32(w->acc[r + 2] + v + 24, load_f32(w->acc[r + 2] + v + 24) * w->rescale[r + 2] +
              __builtin_convertvector(s_2_1, vf) * w->value_unit[v / 32][r + 2]);
    store_f32(w->acc[r + 3] + v + 16, load_f32(w->acc[r + 3] + v + 16) * w->rescale[r + 3] +
              __builtin_convertvector(s_3_0, vf) * w->value_unit[v / 32][r + 3]);
    store_f32(w->acc[r + 3] + v + 24, load_f32(w->acc[r + 3] + v + 24) * w->rescale[r + 3] +
              __builtin_convertvector(s_3_1, vf) * w->value_unit[v / 32][r + 3]);
}

INLINED void
accumulate(struct work *w, int64_t r, int64_t n)
{
    for (int64_t i = 0; i < TILE; i++)
        split_weights(w, r, i, n);
    for (int64_t v = 0; v < VALUE_DIM; v += 32) {
        accumulate_pieces_0(w, r, v, n);
        accumulate_pieces_2(w, r, v, n);
    }
}

/* The largest magnitude of x, or NaN if x contains one.  */
INLINED float
largest_magnitude(const float *x)
{
    vf top = broadcast(0.f), sum = broadcast(0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        top = max_f32(top, abs_f32(load_f32(x + d)));
        sum += load_f32(x + d);
    }
    return largest_of(top) + sum_of(sum) * 0.f;
}

/* Whether digits for numbers up to `top` are too coarse for x: more than a quarter of its elements that are not 0 are
   below a 64th of that.  */
INLINED int
is_wide(const float *x, float top)
{
    vf limit = broadcast(top / 64.f), zero = broadcast(0.f);
    vi count = {0}; /* 4 for each number below the limit, of which 3 are taken off for each 0 */
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vf size = abs_f32(load_f32(x + d));
        count += 3 * (size == zero) - 4 * (size < limit);
    }
    return sum_of(__builtin_convertvector(count, vf)) > KEY_DIM;
}

/* The unit of numbers up to `max`.  That of wide rows is a power of 2, so that what digits leave out is a float32;
   it is 0 if so little is left that its inverse may be too large.  */
INLINED float
unit_of(float max, int wide)
{
    float unit = max / 32767.f;
    if (!wide)
        return unit;
    return unit < 0x1p-120f ? 0.f : float_of((bits_of(unit) + 0x7fffff) & 0xff800000);
}

/* Round row r to 16-bit integers.  */
__attribute__((noinline)) __attribute__((target("avx2,fma,f16c")))
static void
set_digits(struct work *w, int64_t r, const float *x, float unit)
{
    enum { HALF = 2 };
    int32_t digit[KEY_PADDED];
    const float per_unit = unit > 0.f ? 1.f / unit : 0.f;
    for (int d = 0; d < KEY_DIM; d += LANES)
        store_words(digit + d, round_even(load_f32(x + d) * per_unit));
    for (int i = 0; i < KEY_DIM / 2; i++) {
        int code = i / HALF * 2 * HALF + i % HALF;
        int32_t low = digit[code], high = digit[code + HALF];
        w->query[r][i] = broadcast_words((int32_t)((uint32_t)high << 16 | (uint16_t)low));
    }
    w->unit[r] = unit;
}

INLINED void
set_query(struct work *w, int64_t r, const float *x)
{
    float max = largest_magnitude(x);
    int wide = is_wide(x, max);
    set_digits(w, r, x, unit_of(max, wide));
    w->wide[r / TILE] |= wide;
}

INLINED void
load_query(const struct kvmill_attend *p, int64_t r, float *x)
{
    vf factor = broadcast(p->scale * log2_e);
    const unsigned char *query = p->row[r].query;
    for (int d = 0; d < 32; d += LANES)
        store_f32(x + d, load_f16(query + d * 2) * factor);
}

INLINED void
begin(const struct kvmill_attend *p, struct work *w)
{
    const int64_t rows = (p->rows + TILE - 1) / TILE * TILE;
    memset(w->query, 0, rows * sizeof *w->query);
    memset(w->acc, 0, rows * sizeof *w->acc);
    memset(w->wide, 0, sizeof w->wide);
    for (int64_t r = 0; r < ALL_ROWS; r++) {
        w->rescale[r] = 1.f;
        w->sum[r] = 0.f;
        w->max[r] = -__builtin_inff();
    }
    for (int64_t r = 0; r < p->rows; r++) {
        float x[KEY_PADDED];
        load_query(p, r, x);
        set_query(w, r, x);
        if (p->row[r].sink > -__builtin_inff()) {
            w->max[r] = p->row[r].sink * log2_e;
            w->sum[r] = 1.f;
        }
    }
}

/* Take from x what its digits hold.  */
INLINED void
take_digits(float *x, float unit)
{
    vf per_unit = broadcast(unit > 0.f ? 1.f / unit : 0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vf here = load_f32(x + d);
        store_f32(x + d, here - __builtin_convertvector(round_even(here * per_unit), vf) * unit);
    }
}

/* Set the digits of the next part of row r.  `rest` is what the digits so far, except for the last ones, left out of x.
   Returns whether anything is left.  */
INLINED int
set_next_part(struct work *w, int64_t r, const float *x, float *rest)
{
    if (is_wide(x, w->unit[r] * 32767.f))
        take_digits(rest, w->unit[r]);
    else
        memset(rest, 0, KEY_PADDED * sizeof *rest);
    float unit = unit_of(largest_magnitude(rest), 1);
    set_digits(w, r, rest, unit);
    return unit > 0.f;
}

/* Add the other parts to the scores of a tile for n positions, and set the digits of the first part again.  */
__attribute__((noinline, cold)) __attribute__((target("avx2,fma,f16c")))
static void
score_parts(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t n)
{
    const int64_t rows = smaller(TILE, p->rows - r);
    float x[TILE][KEY_PADDED], rest[TILE][KEY_PADDED], sum[TILE][BLOCK];
    int more = 1;
    for (int64_t i = 0; i < rows; i++) {
        load_query(p, r + i, x[i]);
        memcpy(rest[i], x[i], sizeof x[i]);
        memset(sum[i], 0, sizeof sum[i]);
    }
    while (more) {
        more = 0;
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t t = 0; t < n; t += LANES)
                store_f32(sum[i] + t, load_f32(sum[i] + t) + load_f32(w->score[r + i] + t));
            more |= set_next_part(w, r + i, x[i], rest[i]);
        }
        if (more)
            score(w, r, n);
    }
    for (int64_t i = 0; i < rows; i++) {
        memcpy(w->score[r + i], sum[i], sizeof sum[i]);
        set_query(w, r + i, x[i]);
    }
}

INLINED void
end(const struct kvmill_attend *p, struct work *w)
{
    enum { WHOLE = VALUE_DIM / LANES * LANES };
    for (int64_t r = 0; r < p->rows; r++) {
        int seen = w->max[r] > -__builtin_inff() || w->sum[r] != w->sum[r];
        set_order(w->acc[r]);
        vf factor = broadcast(p->partial != NULL ? 1.f : seen ? 1.f / w->sum[r] : 0.f);
        vf empty = broadcast(seen || p->partial != NULL ? 0.f : p->empty);
        if (p->partial != NULL) {
            float *to = p->partial + r * (2 + VALUE_DIM);
            to[0] = w->max[r] * ln_2;
            to[1] = w->sum[r];
            memcpy(to + 2, w->acc[r], VALUE_DIM * sizeof *to);
            continue;
        }
        unsigned char *to = p->row[r].output;
        for (int d = 0; d < WHOLE; d += LANES)
            store_f16(to + d * 2, load_f32(w->acc[r] + d) * factor + empty);
    }
}

/* How many of the n positions from `from` on a tile needs: up to the last one that one of its rows sees, or 0.  */
INLINED int64_t
seen_by(const struct kvmill_attend *p, int64_t r, int64_t from, int64_t n)
{
    int64_t first = INT64_MAX, last = 0;
    for (int64_t i = r; i < smaller(r + TILE, p->rows); i++) {
        first = smaller(first, p->row[i].first);
        last = last > p->row[i].last ? last : p->row[i].last;
    }
    return first >= from + n || last <= from ? 0 : smaller(n, last - from);
}

/* The n positions of a block, from `at` on: find and load keys and values, then scores, softmax, and weights times
   values, for all query rows.  */
INLINED void
attend_block(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)
{
    find_rows(p, w, at, n);
    w->has_lost = 0;
    load_keys(w, n);
    load_values(w, n);
    /* Score: query times key, a tile of TILE query rows at a time.  */
    for (int64_t r = 0; r < p->rows; r += TILE) {
        int64_t seen = seen_by(p, r, p->first + at, n);
        for (int64_t i = r; i < r + TILE; i++)
            w->seen[i] = seen;
        if (seen > 0)
            score(w, r, seen);
        if (seen > 0 && w->wide[r / TILE])
            score_parts(p, w, r, seen);
    }
    /* Softmax: scores become weights; SOFTMAX_ROWS query rows at a time.  */
    for (int64_t r = 0; r < p->rows; r += SOFTMAX_ROWS)
        softmax(p, w, r, p->first + at);
    /* Accumulate: weight times value is added to the sums of a tile.  */
    for (int64_t r = 0; r < p->rows; r += TILE)
        if (w->seen[r] > 0)
            accumulate(w, r, w->seen[r]);
    if (w->has_lost)
        add_lost(p, w, p->first + at, n);
}

/* Attend to the positions of one kv head, BLOCK at a time, for all query rows that share it.  If several calls share
   this work, the first one begins and the last one ends.  */
__attribute__((target("avx2,fma,f16c")))
static void
kvmill_attend_f16_i8_i8_d32_e32_f16_g32_f16_j32_r4_plain_near__avx2_pairs_run(const void *problem, int64_t first,
                                                                              int64_t last)
{
    const struct kvmill_attend *p = problem;
    struct work *w = p->workspace;
    (void)first;
    (void)last;
    if (p->begin)
        begin(p, w);
    /* The loop nest: blocks of positions; in attend_block() tiles of query rows; for each tile, positions and dims in
       score(), then dims and positions in accumulate().  */
    for (int64_t at = 0; at < p->count; at += BLOCK)
        attend_block(p, w, at, smaller(BLOCK, p->count - at));
    if (p->end)
        end(p, w);
}

static const struct kvmill_attend_shape shape = {
    .activation = KVMILL_F16,
    .key = {KVMILL_I8, 32, KVMILL_F16, 32},
    .value = {KVMILL_I8, 32, KVMILL_F16, 32},
    .rows = 4,
    .math = KVMILL_MATH_NEAR,
    .terms = 0,
    .workspace = sizeof(struct work),
};

const struct kvmill_kernel kvmill_attend_f16_i8_i8_d32_e32_f16_g32_f16_j32_r4_plain_near__avx2_pairs = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_ATTEND,
    .symbol = "kvmill_attend_f16_i8_i8_d32_e32_f16_g32_f16_j32_r4_plain_near__avx2_pairs",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_attend_f16_i8_i8_d32_e32_f16_g32_f16_j32_r4_plain_near__avx2_pairs_run,
};
