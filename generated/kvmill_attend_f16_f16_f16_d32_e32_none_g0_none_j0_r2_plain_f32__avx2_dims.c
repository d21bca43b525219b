/* Attend: scores and sums in float32, dims in the lanes.
   Generated; to reproduce:
   kvmill explain --source kvmill_attend_f16_f16_f16_d32_e32_none_g0_none_j0_r2_plain_f32__avx2_dims */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
enum { QUADS = LANES / 4 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
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

INLINED int
is_any_negative(vi b)
{
    return _mm256_movemask_ps((__m256)b) != 0;
}

enum {
    KEY_DIM = 32,
    KEY_PADDED = 32,
    VALUE_DIM = 32,
    VALUE_PADDED = 32,
    ROWS = 2,
    ALL_ROWS = 8,
    TILE = 2,
    SOFTMAX_ROWS = 4, /* query rows that go through softmax at a time */
    STRIP = 32,
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
    _Alignas(64) float query[ROWS][KEY_PADDED];
    _Alignas(64) float acc[ROWS][VALUE_PADDED];
    _Alignas(64) float score[ROWS][BLOCK]; /* after softmax: weights */
    uint64_t lost[1]; /* a bit for each position that was taken out */
    int has_lost;
    int hides; /* whether a query row does not see a position of the block */
    const unsigned char *lost_row[BLOCK];
    unsigned char no_value[64]; /* zeros */
    /* Where the rows of the block and those ahead of it are, and where the next block begins.  */
    struct run key_run[FOUND / RUN];
    int64_t key_step[2 + FOUND / RUN][RUN];
    struct run value_run[FOUND / RUN];
    int64_t value_step[2 + FOUND / RUN][RUN];
    const unsigned char *ahead[2][BLOCK]; /* keys and values OUTER rows ahead */
    int into_l2;
    struct place next;
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
    if (w->into_l2)
        __builtin_prefetch(line, 0, 2);
    else
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
        if (t + i < n - 1)
            at = place_after(at, 1);
    }
    w->key_run[t / RUN] = (struct run){(after ? p->after_key : p->key) + first * p->key_stride,
                                       w->key_step[2 + t / RUN]};
    w->value_run[t / RUN] = (struct run){(after ? p->after_value : p->value) + first * p->value_stride,
                                         w->value_step[2 + t / RUN]};
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
    }
    find_block(p, w, here, n);
    w->next = here = place_after(here, BLOCK);
    for (int64_t t = BLOCK, count; t < FOUND; t += count, here = place_after(here, count)) {
        const int after = at + t >= p->count && p->after_key != NULL;
        count = find_runs(p, w, t, FOUND, here, after);
    }
    touch_extents(p, here, at + FOUND >= p->count && p->after_key != NULL);
    w->into_l2 = p->into_l2;
    list_ahead(w->ahead[0], w->key_run + OUTER / RUN);
    list_ahead(w->ahead[1], w->value_run + OUTER / RUN);
}

/* Query times key for some rows from r on and four positions from t on.  Each row gets a vector; its quads added
   together are the four scores.  */
INLINED void
score_four(const struct work *w, int64_t r, int64_t t, vf sums[2])
{
    const struct run keys_0 = run_from(w->key_run, t);
    const unsigned char *key_0 = keys_0.first + keys_0.step[0];
    const unsigned char *key_1 = keys_0.first + keys_0.step[1];
    const unsigned char *key_2 = keys_0.first + keys_0.step[2];
    const unsigned char *key_3 = keys_0.first + keys_0.step[3];
    vf s_0_0 = broadcast(0.f);
    vf s_0_1 = broadcast(0.f);
    vf s_0_2 = broadcast(0.f);
    vf s_0_3 = broadcast(0.f);
    vf s_1_0 = broadcast(0.f);
    vf s_1_1 = broadcast(0.f);
    vf s_1_2 = broadcast(0.f);
    vf s_1_3 = broadcast(0.f);
    for (int d = 0; d < 32;) {
        if (r == 0)
            fetch_step(w, 0, t / 4 + d / 32, 16);
        for (int end = d + 32; d < end; d += LANES) {
            vf q_0 = load_f32(w->query[r] + d);
            vf q_1 = load_f32(w->query[r + 1] + d);
            vf k_0 = load_f16(key_0 + d * 2);
            s_0_0 += q_0 * k_0;
            s_1_0 += q_1 * k_0;
            vf k_1 = load_f16(key_1 + d * 2);
            s_0_1 += q_0 * k_1;
            s_1_1 += q_1 * k_1;
            vf k_2 = load_f16(key_2 + d * 2);
            s_0_2 += q_0 * k_2;
            s_1_2 += q_1 * k_2;
            vf k_3 = load_f16(key_3 + d * 2);
            s_0_3 += q_0 * k_3;
            s_1_3 += q_1 * k_3;
        }
    }
    sums[0] = sum_quads(s_0_0, s_0_1, s_0_2, s_0_3);
    sums[1] = sum_quads(s_1_0, s_1_1, s_1_2, s_1_3);
}

INLINED void
score(struct work *w, int64_t first, int64_t n)
{
    const int64_t end = ROWS;
    vf sums[QUADS][2];
    for (int64_t t = 0; t < n; t += LANES)
        for (int64_t r = first; r < end; r += 2) {
            for (int64_t q = 0; q < QUADS; q++)
                score_four(w, r, t + 4 * q, sums[q]);
            store_f32(w->score[r] + t, add_quads(sums[0][0], sums[1][0]));
            store_f32(w->score[r + 1] + t, add_quads(sums[0][1], sums[1][1]));
        }
}

/* Add the terms of row r to its scores, and hide what it does not see.  Returns the largest score in each lane.  */
INLINED vf
finish_scores(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)
{
    const struct kvmill_query_row *row = &p->row[r];
    int64_t n = w->seen[r], low = row->first - from, high = smaller(row->last - from, n);
    vf top = broadcast(-__builtin_inff());
    w->hides |= low > 0 || high < n;
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
exponentials(struct work *w, int64_t r, float base)
{
    vf sum = broadcast(0.f);
    for (int64_t t = 0; t < w->seen[r]; t += LANES) {
        vf x = power_of_2(load_f32(w->score[r] + t) - base);
        store_f32(w->score[r] + t, x);
        sum += x;
    }
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
    for (int64_t i = 0; i < rows; i++)
        x[i] = exponentials(w, r + i, bases[i]);
    for (int64_t i = rows; i < SOFTMAX_ROWS; i++)
        x[i] = broadcast(0.f);
    store_f32(w->max + r, max);
    store_f32(w->rescale + r, rescale);
    store_f32(w->sum + r, load_f32(w->sum + r) * rescale + sum_of_each(x));
}

/* Take the value at position t out of the block.  */
INLINED void
take_value(struct work *w, int64_t t)
{
    struct run *run = &w->value_run[t / RUN];
    int64_t *step = w->value_step[2 + t / RUN];
    w->lost_row[t] = row_of(w->value_run, t);
    for (int i = 0; i < RUN; i++)
        step[i] = run->step[i];
    step[t % RUN] = w->no_value - run->first;
    run->step = step;
}

/* Take out the value at position t unless it is finite.  */
INLINED void
check_value(struct work *w, int64_t t)
{
    const unsigned char *row = row_of(w->value_run, t);
    vi bad = {0};
    for (int d = 0; d < 32; d += LANES)
        bad |= ~(abs_f32(load_f16(row + d * 2)) <= broadcast(0x1.fffffep127f));
    if (is_any_negative(bad)) {
        take_value(w, t);
        w->lost[0] |= (uint64_t)1 << t;
    }
}

/* Add the lost value at position t to the sums of row r.  */
INLINED void
add_value(struct work *w, int64_t r, int64_t t, int g)
{
    const unsigned char *row = w->lost_row[t];
    const float weight = w->score[r][t];
    (void)g;
    for (int d = 0; d < 32; d += LANES)
        store_f32(w->acc[r] + d, load_f32(w->acc[r] + d) + broadcast(weight) * load_f16(row + d * 2));
}

/* The lanes of positions from t on at which some row has the weight 0.  */
INLINED vi
without_weight(const struct kvmill_attend *p, const struct work *w, int64_t t)
{
    vi none = {0};
    for (int64_t r = 0; r < p->rows; r++)
        if (w->seen[r] > t)
            none |= load_f32(w->score[r] + t) == broadcast(0.f);
    return none;
}

__attribute__((noinline, cold)) __attribute__((target("avx2,fma,f16c")))
static void
set_aside(const struct kvmill_attend *p, struct work *w, int64_t n)
{
    memset(w->lost, 0, sizeof w->lost);
    memset(w->no_value, 0, sizeof w->no_value);
    for (int64_t t = 0; t < n; t += LANES) {
        const vi none = without_weight(p, w, t);
        for (int64_t i = 0; i < smaller(LANES, n - t); i++)
            if (none[i])
                check_value(w, t + i);
    }
    w->has_lost = w->lost[0] != 0;
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

/* Sums of a tile, 4 vectors from dim v on: add weight times value, position by position.  */
INLINED void
accumulate_strip_4(struct work *w, int64_t r, int64_t v, int64_t n)
{
    __auto_type s_0_0 = broadcast(w->rescale[r]) * load_f32(w->acc[r] + v);
    __auto_type s_0_1 = broadcast(w->rescale[r]) * load_f32(w->acc[r] + v + 8);
    __auto_type s_0_2 = broadcast(w->rescale[r]) * load_f32(w->acc[r] + v + 16);
    __auto_type s_0_3 = broadcast(w->rescale[r]) * load_f32(w->acc[r] + v + 24);
    __auto_type s_1_0 = broadcast(w->rescale[r + 1]) * load_f32(w->acc[r + 1] + v);
    __auto_type s_1_1 = broadcast(w->rescale[r + 1]) * load_f32(w->acc[r + 1] + v + 8);
    __auto_type s_1_2 = broadcast(w->rescale[r + 1]) * load_f32(w->acc[r + 1] + v + 16);
    __auto_type s_1_3 = broadcast(w->rescale[r + 1]) * load_f32(w->acc[r + 1] + v + 24);
    for (int64_t next = 0; next < n; next += 8) {
        if (r == 0)
            fetch_step(w, 1, v / 32 * 8 + next / 8, 8);
        const struct run run = w->value_run[next / 8];
        for (int64_t k = next, end = smaller(next + RUN, n); k < end; k++) {
            const unsigned char *value_0 = run.first + run.step[k - next];
            __auto_type b_0 = load_f16(value_0 + v * 2);
            __auto_type b_1 = load_f16(value_0 + (v + 8) * 2);
            __auto_type b_2 = load_f16(value_0 + (v + 16) * 2);
            __auto_type b_3 = load_f16(value_0 + (v + 24) * 2);
            __auto_type a_0 = broadcast(w->score[r][k]);
            s_0_0 += a_0 * b_0;
            s_0_1 += a_0 * b_1;
            s_0_2 += a_0 * b_2;
            s_0_3 += a_0 * b_3;
            __auto_type a_1 = broadcast(w->score[r + 1][k]);
            s_1_0 += a_1 * b_0;
            s_1_1 += a_1 * b_1;
            s_1_2 += a_1 * b_2;
            s_1_3 += a_1 * b_3;
        }
    }
    store_f32(w->acc[r] + v, s_0_0);
    store_f32(w->acc[r] + v + 8, s_0_1);
    store_f32(w->acc[r] + v + 16, s_0_2);
    store_f32(w->acc[r] + v + 24, s_0_3);
    store_f32(w->acc[r + 1] + v, s_1_0);
    store_f32(w->acc[r + 1] + v + 8, s_1_1);
    store_f32(w->acc[r + 1] + v + 16, s_1_2);
    store_f32(w->acc[r + 1] + v + 24, s_1_3);
}

INLINED void
accumulate(struct work *w, int64_t r, int64_t n)
{
    for (int64_t v = 0; v < 32; v += STRIP)
        accumulate_strip_4(w, r, v, n);
}

INLINED void
set_query(struct work *w, int64_t r, const float *x)
{
    memcpy(w->query[r], x, sizeof w->query[r]);
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
    memset(w->query, 0, sizeof w->query);
    memset(w->acc, 0, sizeof w->acc);
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

INLINED void
end(const struct kvmill_attend *p, struct work *w)
{
    enum { WHOLE = VALUE_DIM / LANES * LANES };
    for (int64_t r = 0; r < p->rows; r++) {
        int seen = w->max[r] > -__builtin_inff() || w->sum[r] != w->sum[r];
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
    w->has_lost = w->hides = 0;
    /* Score: query times key, a tile of TILE query rows at a time.  */
    for (int64_t r = 0; r < p->rows; r += TILE) {
        int64_t seen = seen_by(p, r, p->first + at, n);
        for (int64_t i = r; i < r + TILE; i++)
            w->seen[i] = seen;
        if (seen > 0)
            score(w, r, seen);
    }
    /* Softmax: scores become weights; SOFTMAX_ROWS query rows at a time.  */
    for (int64_t r = 0; r < p->rows; r += SOFTMAX_ROWS)
        softmax(p, w, r, p->first + at);
    if (w->hides)
        set_aside(p, w, n);
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
kvmill_attend_f16_f16_f16_d32_e32_none_g0_none_j0_r2_plain_f32__avx2_dims_run(const void *problem, int64_t first,
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
    .key = {KVMILL_F16, 32, 0, 0},
    .value = {KVMILL_F16, 32, 0, 0},
    .rows = 2,
    .math = KVMILL_MATH_F32,
    .terms = 0,
    .workspace = sizeof(struct work),
};

const struct kvmill_kernel kvmill_attend_f16_f16_f16_d32_e32_none_g0_none_j0_r2_plain_f32__avx2_dims = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_ATTEND,
    .symbol = "kvmill_attend_f16_f16_f16_d32_e32_none_g0_none_j0_r2_plain_f32__avx2_dims",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_attend_f16_f16_f16_d32_e32_none_g0_none_j0_r2_plain_f32__avx2_dims_run,
};
