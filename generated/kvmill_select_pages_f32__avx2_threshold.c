/* Select the best pages by their scores.
   Generated; to reproduce:
   kvmill explain --source kvmill_select_pages_f32__avx2_threshold */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

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
load_f32(const void *from)
{
    return *(const vf_any *)from;
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

INLINED vf
load_some_f32(const void *from, size_t count)
{
    unsigned char whole[4 * LANES] = {0};
    memcpy(whole, from, count * 4);
    return load_f32(whole);
}

INLINED void
store_some_words(int32_t *to, vi x, int count)
{
    const vi lane = {0, 1, 2, 3, 4, 5, 6, 7};
    _mm256_maskstore_epi32(to, (__m256i)(lane < count), (__m256i)x);
}

INLINED uint32_t
lanes_from(vi x, vi least)
{
    return 255 & ~(uint32_t)_mm256_movemask_ps((__m256)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x));
}

INLINED vi
add_lanes_from(vi sum, vi x, vi least)
{
    return sum + 1 + (vi)_mm256_cmpgt_epi32((__m256i)least, (__m256i)x);
}

static const uint8_t numbers_of_lanes[256][8] = {{}, {0, }, {1, }, {0, 1, }, {2, }, {0, 2, }, {1, 2, }, {0, 1, 2, },
    {3, }, {0, 3, }, {1, 3, }, {0, 1, 3, }, {2, 3, }, {0, 2, 3, }, {1, 2, 3, }, {0, 1, 2, 3, }, {4, }, {0, 4, },
    {1, 4, }, {0, 1, 4, }, {2, 4, }, {0, 2, 4, }, {1, 2, 4, }, {0, 1, 2, 4, }, {3, 4, }, {0, 3, 4, }, {1, 3, 4, },
    {0, 1, 3, 4, }, {2, 3, 4, }, {0, 2, 3, 4, }, {1, 2, 3, 4, }, {0, 1, 2, 3, 4, }, {5, }, {0, 5, }, {1, 5, },
    {0, 1, 5, }, {2, 5, }, {0, 2, 5, }, {1, 2, 5, }, {0, 1, 2, 5, }, {3, 5, }, {0, 3, 5, }, {1, 3, 5, }, {0, 1, 3, 5, },
    {2, 3, 5, }, {0, 2, 3, 5, }, {1, 2, 3, 5, }, {0, 1, 2, 3, 5, }, {4, 5, }, {0, 4, 5, }, {1, 4, 5, }, {0, 1, 4, 5, },
    {2, 4, 5, }, {0, 2, 4, 5, }, {1, 2, 4, 5, }, {0, 1, 2, 4, 5, }, {3, 4, 5, }, {0, 3, 4, 5, }, {1, 3, 4, 5, },
    {0, 1, 3, 4, 5, }, {2, 3, 4, 5, }, {0, 2, 3, 4, 5, }, {1, 2, 3, 4, 5, }, {0, 1, 2, 3, 4, 5, }, {6, }, {0, 6, },
    {1, 6, }, {0, 1, 6, }, {2, 6, }, {0, 2, 6, }, {1, 2, 6, }, {0, 1, 2, 6, }, {3, 6, }, {0, 3, 6, }, {1, 3, 6, },
    {0, 1, 3, 6, }, {2, 3, 6, }, {0, 2, 3, 6, }, {1, 2, 3, 6, }, {0, 1, 2, 3, 6, }, {4, 6, }, {0, 4, 6, }, {1, 4, 6, },
    {0, 1, 4, 6, }, {2, 4, 6, }, {0, 2, 4, 6, }, {1, 2, 4, 6, }, {0, 1, 2, 4, 6, }, {3, 4, 6, }, {0, 3, 4, 6, },
    {1, 3, 4, 6, }, {0, 1, 3, 4, 6, }, {2, 3, 4, 6, }, {0, 2, 3, 4, 6, }, {1, 2, 3, 4, 6, }, {0, 1, 2, 3, 4, 6, },
    {5, 6, }, {0, 5, 6, }, {1, 5, 6, }, {0, 1, 5, 6, }, {2, 5, 6, }, {0, 2, 5, 6, }, {1, 2, 5, 6, }, {0, 1, 2, 5, 6, },
    {3, 5, 6, }, {0, 3, 5, 6, }, {1, 3, 5, 6, }, {0, 1, 3, 5, 6, }, {2, 3, 5, 6, }, {0, 2, 3, 5, 6, },
    {1, 2, 3, 5, 6, }, {0, 1, 2, 3, 5, 6, }, {4, 5, 6, }, {0, 4, 5, 6, }, {1, 4, 5, 6, }, {0, 1, 4, 5, 6, },
    {2, 4, 5, 6, }, {0, 2, 4, 5, 6, }, {1, 2, 4, 5, 6, }, {0, 1, 2, 4, 5, 6, }, {3, 4, 5, 6, }, {0, 3, 4, 5, 6, },
    {1, 3, 4, 5, 6, }, {0, 1, 3, 4, 5, 6, }, {2, 3, 4, 5, 6, }, {0, 2, 3, 4, 5, 6, }, {1, 2, 3, 4, 5, 6, },
    {0, 1, 2, 3, 4, 5, 6, }, {7, }, {0, 7, }, {1, 7, }, {0, 1, 7, }, {2, 7, }, {0, 2, 7, }, {1, 2, 7, }, {0, 1, 2, 7, },
    {3, 7, }, {0, 3, 7, }, {1, 3, 7, }, {0, 1, 3, 7, }, {2, 3, 7, }, {0, 2, 3, 7, }, {1, 2, 3, 7, }, {0, 1, 2, 3, 7, },
    {4, 7, }, {0, 4, 7, }, {1, 4, 7, }, {0, 1, 4, 7, }, {2, 4, 7, }, {0, 2, 4, 7, }, {1, 2, 4, 7, }, {0, 1, 2, 4, 7, },
    {3, 4, 7, }, {0, 3, 4, 7, }, {1, 3, 4, 7, }, {0, 1, 3, 4, 7, }, {2, 3, 4, 7, }, {0, 2, 3, 4, 7, },
    {1, 2, 3, 4, 7, }, {0, 1, 2, 3, 4, 7, }, {5, 7, }, {0, 5, 7, }, {1, 5, 7, }, {0, 1, 5, 7, }, {2, 5, 7, },
    {0, 2, 5, 7, }, {1, 2, 5, 7, }, {0, 1, 2, 5, 7, }, {3, 5, 7, }, {0, 3, 5, 7, }, {1, 3, 5, 7, }, {0, 1, 3, 5, 7, },
    {2, 3, 5, 7, }, {0, 2, 3, 5, 7, }, {1, 2, 3, 5, 7, }, {0, 1, 2, 3, 5, 7, }, {4, 5, 7, }, {0, 4, 5, 7, },
    {1, 4, 5, 7, }, {0, 1, 4, 5, 7, }, {2, 4, 5, 7, }, {0, 2, 4, 5, 7, }, {1, 2, 4, 5, 7, }, {0, 1, 2, 4, 5, 7, },
    {3, 4, 5, 7, }, {0, 3, 4, 5, 7, }, {1, 3, 4, 5, 7, }, {0, 1, 3, 4, 5, 7, }, {2, 3, 4, 5, 7, }, {0, 2, 3, 4, 5, 7, },
    {1, 2, 3, 4, 5, 7, }, {0, 1, 2, 3, 4, 5, 7, }, {6, 7, }, {0, 6, 7, }, {1, 6, 7, }, {0, 1, 6, 7, }, {2, 6, 7, },
    {0, 2, 6, 7, }, {1, 2, 6, 7, }, {0, 1, 2, 6, 7, }, {3, 6, 7, }, {0, 3, 6, 7, }, {1, 3, 6, 7, }, {0, 1, 3, 6, 7, },
    {2, 3, 6, 7, }, {0, 2, 3, 6, 7, }, {1, 2, 3, 6, 7, }, {0, 1, 2, 3, 6, 7, }, {4, 6, 7, }, {0, 4, 6, 7, },
    {1, 4, 6, 7, }, {0, 1, 4, 6, 7, }, {2, 4, 6, 7, }, {0, 2, 4, 6, 7, }, {1, 2, 4, 6, 7, }, {0, 1, 2, 4, 6, 7, },
    {3, 4, 6, 7, }, {0, 3, 4, 6, 7, }, {1, 3, 4, 6, 7, }, {0, 1, 3, 4, 6, 7, }, {2, 3, 4, 6, 7, }, {0, 2, 3, 4, 6, 7, },
    {1, 2, 3, 4, 6, 7, }, {0, 1, 2, 3, 4, 6, 7, }, {5, 6, 7, }, {0, 5, 6, 7, }, {1, 5, 6, 7, }, {0, 1, 5, 6, 7, },
    {2, 5, 6, 7, }, {0, 2, 5, 6, 7, }, {1, 2, 5, 6, 7, }, {0, 1, 2, 5, 6, 7, }, {3, 5, 6, 7, }, {0, 3, 5, 6, 7, },
    {1, 3, 5, 6, 7, }, {0, 1, 3, 5, 6, 7, }, {2, 3, 5, 6, 7, }, {0, 2, 3, 5, 6, 7, }, {1, 2, 3, 5, 6, 7, },
    {0, 1, 2, 3, 5, 6, 7, }, {4, 5, 6, 7, }, {0, 4, 5, 6, 7, }, {1, 4, 5, 6, 7, }, {0, 1, 4, 5, 6, 7, },
    {2, 4, 5, 6, 7, }, {0, 2, 4, 5, 6, 7, }, {1, 2, 4, 5, 6, 7, }, {0, 1, 2, 4, 5, 6, 7, }, {3, 4, 5, 6, 7, },
    {0, 3, 4, 5, 6, 7, }, {1, 3, 4, 5, 6, 7, }, {0, 1, 3, 4, 5, 6, 7, }, {2, 3, 4, 5, 6, 7, }, {0, 2, 3, 4, 5, 6, 7, },
                                                 {1, 2, 3, 4, 5, 6, 7, }, {0, 1, 2, 3, 4, 5, 6, 7,},};

INLINED vi
pack_lanes(vi x, uint32_t lanes)
{
    return (vi)_mm256_permutevar8x32_epi32((__m256i)x,
           _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)numbers_of_lanes[lanes])));
}

INLINED vf
max_f32(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

enum {
    STRIP = 32, /* keys that are counted at a time */
    SHRINK = 2, /* keys are packed when at most one of SHRINK can still be the threshold */
    SAMPLE = 128,
    GUESS = 4096, /* from this number of scores on, a sample first narrows the range */
};

/* Both zeros give the same key; NaN counts as -infinity.  */
INLINED vi
keys_of(vf score)
{
    vi bits = (vi)(max_f32(score, broadcast(-__builtin_inff())) + broadcast(0.f));
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* The keys of LANES scores from i on; after the last score, keys below all others.  */
INLINED vi
keys_at(const struct kvmill_select_pages *p, int64_t i)
{
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    if (i + LANES <= p->count)
        return keys_of(load_f32(p->score + i));
    vi keys = keys_of(load_some_f32(p->score + i, (size_t)(p->count - i)));
    return (vi)choose(lane < (int32_t)(p->count - i), (vf)keys, (vf)broadcast_words(INT32_MIN));
}

/* The search for the threshold, which is a key in [low, high].  */
struct search {
    int32_t *keys;
    int64_t count; /* keys in memory, */
    int64_t undecided; /* of which these are in the range, */
    int64_t beyond; /* and these above it */
    int64_t above; /* all keys above the range, in memory or not */
    int32_t low, high;
};

/* Fill the last strip with keys below all others.  */
INLINED void
pad(struct search *s)
{
    store_words(s->keys + s->count, broadcast_words(INT32_MIN));
    store_words(s->keys + s->count + 8, broadcast_words(INT32_MIN));
    store_words(s->keys + s->count + 16, broadcast_words(INT32_MIN));
    store_words(s->keys + s->count + 24, broadcast_words(INT32_MIN));
}

INLINED int64_t
count_from(const struct search *s, int32_t least)
{
    vi sum = broadcast_words(0), from = broadcast_words(least);
    int64_t count = 0;
    /* The loop nest: strips of keys; this runs each time the range is halved.  */
    for (int64_t i = 0; i < s->count; i += STRIP) {
        sum = add_lanes_from(sum, load_words(s->keys + i), from);
        sum = add_lanes_from(sum, load_words(s->keys + i + 8), from);
        sum = add_lanes_from(sum, load_words(s->keys + i + 16), from);
        sum = add_lanes_from(sum, load_words(s->keys + i + 24), from);
    }
    for (int i = 0; i < LANES; i++)
        count += sum[i];
    return count;
}

/* Keep only the keys in the range.  */
INLINED void
pack(struct search *s)
{
    vi low = broadcast_words(s->low), high = broadcast_words(s->high);
    int64_t kept = 0;
    for (int64_t i = 0; i < s->count; i += LANES) {
        vi x = load_words(s->keys + i);
        uint32_t lanes = lanes_from(x, low) & lanes_from(high, x);
        store_words(s->keys + kept, pack_lanes(x, lanes));
        kept += __builtin_popcount(lanes);
    }
    s->count = kept;
    s->beyond = 0;
    pad(s);
}

/* Halve the range.  */
INLINED void
halve(struct search *s, int64_t wanted)
{
    int32_t middle = (int32_t)((uint32_t)s->low + ((uint32_t)s->high - (uint32_t)s->low) / 2 + 1);
    int64_t upper = count_from(s, middle) - s->beyond;
    if (s->above + upper >= wanted) {
        s->low = middle;
        s->undecided = upper;
    } else {
        s->high = middle - 1;
        s->above += upper;
        s->beyond += upper;
        s->undecided -= upper;
    }
    if (s->undecided * SHRINK <= s->count)
        pack(s);
}

/* Halve the range until all keys from `low` on are wanted, or only `low` is left.  */
__attribute__((target("avx2,fma,f16c")))
static void
settle(struct search *s, int64_t wanted)
{
    while (s->low < s->high && s->above + s->undecided > wanted)
        halve(s, wanted);
}

INLINED struct search
search_of(int32_t *keys, int64_t count)
{
    struct search s = { keys, count, count, 0, 0, INT32_MIN + 1, INT32_MAX };
    pad(&s);
    return s;
}

INLINED struct search
search_all(const struct kvmill_select_pages *p)
{
    for (int64_t i = 0; i < p->count; i += LANES)
        store_words(p->keys + i, keys_at(p, i));
    return search_of(p->keys, p->count);
}

/* The key that `rank` keys of a sample reach.  */
INLINED int32_t
sampled_key(const struct search *s, int64_t rank)
{
    int32_t keys[SAMPLE + STRIP];
    for (int64_t i = 0; i < SAMPLE; i++)
        keys[i] = s->keys[i * s->count / SAMPLE];
    struct search sample = search_of(keys, SAMPLE);
    settle(&sample, rank);
    return sample.low;
}

/* Narrow the range around the threshold of a sample.  Returns whether the threshold is in it.  */
__attribute__((target("avx2,fma,f16c")))
static int
guess(struct search *s, int64_t wanted)
{
    int64_t rank = wanted * SAMPLE / s->count, spread = 2;
    while (spread * spread < 6 * rank)
        spread++;
    if (rank + spread < SAMPLE)
        s->low = sampled_key(s, rank + spread);
    if (rank > spread)
        s->high = sampled_key(s, rank - spread) - 1;
    if (s->high < s->low)
        s->high = s->low;
    if (s->high < INT32_MAX)
        s->above = count_from(s, s->high + 1);
    pack(s);
    s->undecided = s->count;
    return s->above < wanted && s->above + s->undecided >= wanted;
}

__attribute__((target("avx2,fma,f16c")))
static struct search
find_threshold(const struct kvmill_select_pages *p)
{
    struct search s = search_all(p);
    if (p->count >= GUESS && p->wanted < p->count && !guess(&s, p->wanted))
        s = search_all(p);
    settle(&s, p->wanted);
    return s;
}

/* List the pages whose keys reach the threshold; of those that equal it, only the first `equal`.  */
__attribute__((target("avx2,fma,f16c")))
static void
list_from(const struct kvmill_select_pages *p, int32_t threshold, int64_t equal)
{
    vi least = broadcast_words(threshold), place = { 0, 1, 2, 3, 4, 5, 6, 7 };
    int32_t *list = p->list;
    for (int64_t i = 0; i < p->count; i += LANES, place += LANES) {
        vi x = keys_at(p, i);
        uint32_t taken = lanes_from(x, least), same = taken & lanes_from(least, x);
        while (__builtin_popcount(same) > equal) {
            uint32_t last = 1U << (31 - __builtin_clz(same));
            same -= last;
            taken -= last;
        }
        equal -= __builtin_popcount(same);
        store_some_words(list, pack_lanes(place, taken), __builtin_popcount(taken));
        list += __builtin_popcount(taken);
    }
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_select_pages_f32__avx2_threshold_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_select_pages *p = problem;
    if (first == last || p->wanted == 0)
        return;
    struct search s = find_threshold(p);
    list_from(p, s.low, p->wanted - s.above);
}

static const struct kvmill_select_shape shape = {
    .score = KVMILL_F32,
};

const struct kvmill_kernel kvmill_select_pages_f32__avx2_threshold = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SELECT_PAGES,
    .symbol = "kvmill_select_pages_f32__avx2_threshold",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_select_pages_f32__avx2_threshold_run,
};
