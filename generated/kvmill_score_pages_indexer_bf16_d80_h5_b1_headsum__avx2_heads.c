/* Score pages for the heads of an indexer.
   Generated; to reproduce:
   kvmill explain --source kvmill_score_pages_indexer_bf16_d80_h5_b1_headsum__avx2_heads */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c")))

enum { LANES = 8 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x};
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

INLINED vf
multiply(vf x, vf y)
{
    vf v = x * y;
    __asm__("" : "+x"(v));
    return v;
}

INLINED vf
held(vf x)
{
    __asm__("" : "+x"(x));
    return x;
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
max_f32(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

enum {
    DIM = 80,
    ROOM = 80, /* floats of a key */
    HEADS = 5,
    TILE = 4, /* heads ... */
    KEYS = 2, /* ... by keys, whose sums are in registers */
    BLOCK = 16, /* keys that are scored for all heads before the next */
    PAGE_KEYS = 1,
    FOLDED = 16, /* vectors that the scores of heads are folded to */
    AHEAD = 8, /* keys that are brought into the first cache */
};

/* Where key n is, counted over the problem's pages.  */
INLINED const unsigned char *
key_at(const struct kvmill_score_pages *p, int64_t n)
{
    return p->field[0] + p->ids[n / PAGE_KEYS] * p->stride + n % PAGE_KEYS * 160;
}

/* Load key n as floats.  */
INLINED void
load_key(const struct kvmill_score_pages *p, int64_t n, float *key)
{
    const unsigned char *row = key_at(p, n);
    int64_t last = p->pages * PAGE_KEYS - 1;
    const unsigned char *ahead = key_at(p, n + AHEAD < last ? n + AHEAD : last);
    for (int i = 0; i < 160; i += 64)
        __builtin_prefetch(ahead + i, 0, 3);
    for (int i = 0; i < 80; i += LANES)
        store_f32(key + i, load_bf16(row + i * 2));
}

/* Finish the scores of a head, and fold them.  */
INLINED void
fold_head(const struct kvmill_score_pages *p, int head, vf score, vf *folded)
{
    score = max_f32(score, broadcast(0.f));
    score = multiply(score, broadcast(p->weight[head]));
    folded[head % FOLDED] += score;
}

/* Add lanes 8 and 4 apart, for every fourth page; then lanes 2 and 1 apart.  */
INLINED vf
quads_of(const vf x[LANES], int p)
{
    return __builtin_shufflevector(x[p], x[p + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(x[p], x[p + 4], 4, 5, 6, 7, 12, 13, 14, 15);
}

INLINED vf
sum_lanes(const vf x[LANES])
{
    return sum_quads(quads_of(x, 0), quads_of(x, 1), quads_of(x, 2), quads_of(x, 3));
}

/* The scores of 4 heads for LANES keys.  */
INLINED void
add_4_heads(const struct kvmill_score_pages *p, int head, const float (*keys)[ROOM], vf *folded)
{
    const float *query = p->query + head * DIM;
    vf sums[2][4][LANES], x[LANES];
    for (int lane = 0; lane < LANES; lane += KEYS) {
        const float *key = keys[lane];
        {
            vf s_0_0 = broadcast(0.f);
            vf s_0_1 = broadcast(0.f);
            vf s_1_0 = broadcast(0.f);
            vf s_1_1 = broadcast(0.f);
            vf s_2_0 = broadcast(0.f);
            vf s_2_1 = broadcast(0.f);
            vf s_3_0 = broadcast(0.f);
            vf s_3_1 = broadcast(0.f);
            for (int i = 0; i < 80; i += 16) {
                vf k_0 = load_f32(key + i);
                vf k_1 = load_f32(key + 80 + i);
                vf q_0 = held(load_f32(query + i));
                s_0_0 += multiply(q_0, k_0);
                s_0_1 += multiply(q_0, k_1);
                vf q_1 = held(load_f32(query + 80 + i));
                s_1_0 += multiply(q_1, k_0);
                s_1_1 += multiply(q_1, k_1);
                vf q_2 = held(load_f32(query + 160 + i));
                s_2_0 += multiply(q_2, k_0);
                s_2_1 += multiply(q_2, k_1);
                vf q_3 = held(load_f32(query + 240 + i));
                s_3_0 += multiply(q_3, k_0);
                s_3_1 += multiply(q_3, k_1);
            }
            sums[0][0][lane] = s_0_0;
            sums[0][0][lane + 1] = s_0_1;
            sums[0][1][lane] = s_1_0;
            sums[0][1][lane + 1] = s_1_1;
            sums[0][2][lane] = s_2_0;
            sums[0][2][lane + 1] = s_2_1;
            sums[0][3][lane] = s_3_0;
            sums[0][3][lane + 1] = s_3_1;
        }
        {
            vf s_0_0 = broadcast(0.f);
            vf s_0_1 = broadcast(0.f);
            vf s_1_0 = broadcast(0.f);
            vf s_1_1 = broadcast(0.f);
            vf s_2_0 = broadcast(0.f);
            vf s_2_1 = broadcast(0.f);
            vf s_3_0 = broadcast(0.f);
            vf s_3_1 = broadcast(0.f);
            for (int i = 8; i < 80; i += 16) {
                vf k_0 = load_f32(key + i);
                vf k_1 = load_f32(key + 80 + i);
                vf q_0 = held(load_f32(query + i));
                s_0_0 += multiply(q_0, k_0);
                s_0_1 += multiply(q_0, k_1);
                vf q_1 = held(load_f32(query + 80 + i));
                s_1_0 += multiply(q_1, k_0);
                s_1_1 += multiply(q_1, k_1);
                vf q_2 = held(load_f32(query + 160 + i));
                s_2_0 += multiply(q_2, k_0);
                s_2_1 += multiply(q_2, k_1);
                vf q_3 = held(load_f32(query + 240 + i));
                s_3_0 += multiply(q_3, k_0);
                s_3_1 += multiply(q_3, k_1);
            }
            sums[1][0][lane] = s_0_0;
            sums[1][0][lane + 1] = s_0_1;
            sums[1][1][lane] = s_1_0;
            sums[1][1][lane + 1] = s_1_1;
            sums[1][2][lane] = s_2_0;
            sums[1][2][lane + 1] = s_2_1;
            sums[1][3][lane] = s_3_0;
            sums[1][3][lane + 1] = s_3_1;
        }
    }
    for (int h = 0; h < 4; h++) {
        for (int lane = 0; lane < LANES; lane++)
            x[lane] = sums[0][h][lane] + sums[1][h][lane];
        fold_head(p, head + h, sum_lanes(x), folded);
    }
}

/* The scores of 1 heads for LANES keys.  */
INLINED void
add_1_heads(const struct kvmill_score_pages *p, int head, const float (*keys)[ROOM], vf *folded)
{
    const float *query = p->query + head * DIM;
    vf sums[2][1][LANES], x[LANES];
    for (int lane = 0; lane < LANES; lane += KEYS) {
        const float *key = keys[lane];
        {
            vf s_0_0 = broadcast(0.f);
            vf s_0_1 = broadcast(0.f);
            for (int i = 0; i < 80; i += 16) {
                vf k_0 = load_f32(key + i);
                vf k_1 = load_f32(key + 80 + i);
                vf q_0 = held(load_f32(query + i));
                s_0_0 += multiply(q_0, k_0);
                s_0_1 += multiply(q_0, k_1);
            }
            sums[0][0][lane] = s_0_0;
            sums[0][0][lane + 1] = s_0_1;
        }
        {
            vf s_0_0 = broadcast(0.f);
            vf s_0_1 = broadcast(0.f);
            for (int i = 8; i < 80; i += 16) {
                vf k_0 = load_f32(key + i);
                vf k_1 = load_f32(key + 80 + i);
                vf q_0 = held(load_f32(query + i));
                s_0_0 += multiply(q_0, k_0);
                s_0_1 += multiply(q_0, k_1);
            }
            sums[1][0][lane] = s_0_0;
            sums[1][0][lane + 1] = s_0_1;
        }
    }
    for (int lane = 0; lane < LANES; lane++)
        x[lane] = sums[0][0][lane] + sums[1][0][lane];
    fold_head(p, head, sum_lanes(x), folded);
}

/* Compute the scores of the first `count` keys of a block.  */
INLINED void
score_keys(const struct kvmill_score_pages *p, const float (*keys)[ROOM], int count, vf *scores)
{
    vf folded[BLOCK / LANES][FOLDED];
    for (int k = 0; k < BLOCK / LANES; k++)
        for (int i = 0; i < FOLDED; i++)
            folded[k][i] = broadcast(0.f);
    for (int head = 0; head + TILE <= HEADS; head += TILE)
        for (int k = 0; k * LANES < count; k++)
            add_4_heads(p, head, keys + k * LANES, folded[k]);
    for (int k = 0; k * LANES < count; k++)
        add_1_heads(p, HEADS - 1, keys + k * LANES, folded[k]);
    for (int k = 0; k * LANES < count; k++) {
        for (int apart = FOLDED / 2; apart > 0; apart /= 2)
            for (int i = 0; i < apart; i++)
                folded[k][i] += folded[k][i + apart];
        scores[k] = folded[k][0];
    }
}

/* Store the scores of `count` keys from key n on, or fold those of each page to `page` and store that.  */
INLINED void
put_scores(const struct kvmill_score_pages *p, int64_t n, const float *score, int count, float *page)
{
    (void)page;
    memcpy(p->score + n, score, (size_t)count * sizeof *score);
}

__attribute__((target("avx2,fma,f16c")))
static void
kvmill_score_pages_indexer_bf16_d80_h5_b1_headsum__avx2_heads_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_score_pages *p = problem;
    float keys[BLOCK][ROOM] __attribute__((aligned(64))), score[BLOCK], page = 0;
    vf scores[BLOCK / LANES];
    int64_t end = last * PAGE_KEYS;
    /* The loop nest: blocks of keys; tiles of heads; LANES keys, of which KEYS at a time; the strips of the sums, and
       the elements of each.  */
    for (int64_t n = first * PAGE_KEYS; n < end; n += BLOCK) {
        int count = end - n < BLOCK ? (int)(end - n) : BLOCK;
        if (count < BLOCK)
            memset(keys, 0, sizeof keys);
        for (int i = 0; i < count; i++)
            load_key(p, n + i, keys[i]);
        score_keys(p, keys, count, scores);
        memcpy(score, scores, sizeof score);
        put_scores(p, n, score, count, &page);
    }
}

static const struct kvmill_score_shape shape = {
    .kind = 5,
    .element = 3,
    .dim = 80,
    .heads = 5,
    .blocks = 1,
    .folds = 1,
    .fold = { { 1, 3 }, { 0, 0 } },
};

const struct kvmill_kernel kvmill_score_pages_indexer_bf16_d80_h5_b1_headsum__avx2_heads = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCORE_PAGES,
    .symbol = "kvmill_score_pages_indexer_bf16_d80_h5_b1_headsum__avx2_heads",
    .isa = "avx2",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_score_pages_indexer_bf16_d80_h5_b1_headsum__avx2_heads_run,
};
