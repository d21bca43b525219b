/* Score pages by their summaries.
   Generated; to reproduce:
   kvmill explain --source kvmill_score_pages_bound_f16_d128_h4_b1_headmax__avx512_tiles */
#include <immintrin.h>
#include "kvmill_kernel.h"

#define INLINED \
    static inline __attribute__((always_inline, \
                                 target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))

enum { LANES = 16 };
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf_any __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));

INLINED vf
broadcast(float x)
{
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

INLINED vi
broadcast_words(int32_t x)
{
    return (vi){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

INLINED vf
abs_f32(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
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
    return _mm512_cvtph_ps((__m256i)h);
}

INLINED vf
load_f16(const void *from)
{
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
}

INLINED void
store_some_f32(void *to, vf x, size_t count)
{
    unsigned char whole[4 * LANES];
    store_f32(whole, x);
    memcpy(to, whole, count * 4);
}

INLINED vf
sum_quads(vf a, vf b, vf c, vf d)
{
    vf ab = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
        __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    vf cd = __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
        __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    return __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}

INLINED uint32_t
lanes_from(vi x, vi least)
{
    return _mm512_cmpge_epi32_mask((__m512i)x, (__m512i)least);
}

INLINED vf
max_f32(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINED vf
min_f32(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

enum {
    QUERY = 512,
    SCORES = 4, /* scores of a page before folds, */
    LEFT = 1, /* and after them */
    INNER = 4, /* pages ahead that are brought into the first cache */
    OUTER = 16, /* pages ahead that are brought into the second cache */
};

/* The sums of a page; lanes within a vector are added later.  */
INLINED void
add_page(const struct kvmill_score_pages *p, int64_t u, vf sums[][LANES], int lane)
{
    const float *query = p->query;
    int64_t at = p->ids[u] * p->stride;
    const unsigned char *page_c = p->field[0] + at;
    const unsigned char *page_d = p->field[1] + at;
    at = p->ids[u + INNER < p->pages ? u + INNER : p->pages - 1] * p->stride;
    const unsigned char *inner_c = p->field[0] + at;
    const unsigned char *inner_d = p->field[1] + at;
    at = p->ids[u + OUTER < p->pages ? u + OUTER : p->pages - 1] * p->stride;
    const unsigned char *outer_c = p->field[0] + at;
    const unsigned char *outer_d = p->field[1] + at;
    vf s_0_0 = broadcast(0.f);
    vf s_1_0 = broadcast(0.f);
    vf s_2_0 = broadcast(0.f);
    vf s_3_0 = broadcast(0.f);
    __builtin_prefetch(inner_c, 0, 3);
    __builtin_prefetch(inner_d, 0, 3);
    __builtin_prefetch(outer_c, 0, 2);
    __builtin_prefetch(outer_d, 0, 2);
    {
        vf c = load_f16(page_c);
        vf d = load_f16(page_d);
        vf q_0 = load_f32(query);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 128);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 256);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 384);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    {
        vf c = load_f16(page_c + 32);
        vf d = load_f16(page_d + 32);
        vf q_0 = load_f32(query + 16);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 144);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 272);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 400);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    __builtin_prefetch(inner_c + 64, 0, 3);
    __builtin_prefetch(inner_d + 64, 0, 3);
    __builtin_prefetch(outer_c + 64, 0, 2);
    __builtin_prefetch(outer_d + 64, 0, 2);
    {
        vf c = load_f16(page_c + 64);
        vf d = load_f16(page_d + 64);
        vf q_0 = load_f32(query + 32);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 160);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 288);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 416);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    {
        vf c = load_f16(page_c + 96);
        vf d = load_f16(page_d + 96);
        vf q_0 = load_f32(query + 48);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 176);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 304);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 432);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    __builtin_prefetch(inner_c + 128, 0, 3);
    __builtin_prefetch(inner_d + 128, 0, 3);
    __builtin_prefetch(outer_c + 128, 0, 2);
    __builtin_prefetch(outer_d + 128, 0, 2);
    {
        vf c = load_f16(page_c + 128);
        vf d = load_f16(page_d + 128);
        vf q_0 = load_f32(query + 64);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 192);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 320);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 448);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    {
        vf c = load_f16(page_c + 160);
        vf d = load_f16(page_d + 160);
        vf q_0 = load_f32(query + 80);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 208);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 336);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 464);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    __builtin_prefetch(inner_c + 192, 0, 3);
    __builtin_prefetch(inner_d + 192, 0, 3);
    __builtin_prefetch(outer_c + 192, 0, 2);
    __builtin_prefetch(outer_d + 192, 0, 2);
    {
        vf c = load_f16(page_c + 192);
        vf d = load_f16(page_d + 192);
        vf q_0 = load_f32(query + 96);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 224);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 352);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 480);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    {
        vf c = load_f16(page_c + 224);
        vf d = load_f16(page_d + 224);
        vf q_0 = load_f32(query + 112);
        s_0_0 += max_f32(q_0 * c, q_0 * d);
        vf q_1 = load_f32(query + 240);
        s_1_0 += max_f32(q_1 * c, q_1 * d);
        vf q_2 = load_f32(query + 368);
        s_2_0 += max_f32(q_2 * c, q_2 * d);
        vf q_3 = load_f32(query + 496);
        s_3_0 += max_f32(q_3 * c, q_3 * d);
    }
    sums[0][lane] = s_0_0;
    sums[1][lane] = s_1_0;
    sums[2][lane] = s_2_0;
    sums[3][lane] = s_3_0;
}

/* Whether all products with float16 are exact: numbers of at most 13 bits, from 2^-64 to 2^64.  */
__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static int
is_short(const float *query)
{
    uint32_t other = 0;
    for (int i = 0; i < QUERY; i++) {
        uint32_t bits;
        memcpy(&bits, query + i, sizeof bits);
        uint32_t size = bits & 0x7fffffff;
        other |= (size & 0x7ff) | (size != 0 && size - (63U << 23) > 128U << 23);
    }
    return other == 0;
}

struct parts {
    float above[QUERY + LANES], below[QUERY + LANES]; /* vectors read past the end of a query */
} __attribute__((aligned(64)));

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
split_query(const float *query, struct parts *to)
{
    for (int i = 0; i < QUERY; i++) {
        to->above[i] = query[i] > 0 ? query[i] : 0;
        to->below[i] = query[i] < 0 ? query[i] : 0;
    }
    memset(to->above + QUERY, 0, LANES * sizeof *to->above);
    memset(to->below + QUERY, 0, LANES * sizeof *to->below);
}

/* The same sums as add_page.  Returns whether they are valid, that is, whether the bounds are finite.  */
INLINED int
add_exactly(const struct kvmill_score_pages *p, int64_t u, const struct parts *query, vf sums[][LANES], int lane)
{
    int64_t at = p->ids[u] * p->stride;
    const unsigned char *page_c = p->field[0] + at;
    const unsigned char *page_d = p->field[1] + at;
    at = p->ids[u + INNER < p->pages ? u + INNER : p->pages - 1] * p->stride;
    const unsigned char *inner_c = p->field[0] + at;
    const unsigned char *inner_d = p->field[1] + at;
    at = p->ids[u + OUTER < p->pages ? u + OUTER : p->pages - 1] * p->stride;
    const unsigned char *outer_c = p->field[0] + at;
    const unsigned char *outer_d = p->field[1] + at;
    vf s_0_0 = broadcast(0.f);
    vf s_1_0 = broadcast(0.f);
    vf s_2_0 = broadcast(0.f);
    vf s_3_0 = broadcast(0.f);
    __builtin_prefetch(inner_c, 0, 3);
    __builtin_prefetch(inner_d, 0, 3);
    __builtin_prefetch(outer_c, 0, 2);
    __builtin_prefetch(outer_d, 0, 2);
    {
        vf c = load_f16(page_c);
        vf d = load_f16(page_d);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above) * high;
        s_0_0 += load_f32(query->below) * low;
        s_1_0 += load_f32(query->above + 128) * high;
        s_1_0 += load_f32(query->below + 128) * low;
        s_2_0 += load_f32(query->above + 256) * high;
        s_2_0 += load_f32(query->below + 256) * low;
        s_3_0 += load_f32(query->above + 384) * high;
        s_3_0 += load_f32(query->below + 384) * low;
    }
    {
        vf c = load_f16(page_c + 32);
        vf d = load_f16(page_d + 32);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 16) * high;
        s_0_0 += load_f32(query->below + 16) * low;
        s_1_0 += load_f32(query->above + 144) * high;
        s_1_0 += load_f32(query->below + 144) * low;
        s_2_0 += load_f32(query->above + 272) * high;
        s_2_0 += load_f32(query->below + 272) * low;
        s_3_0 += load_f32(query->above + 400) * high;
        s_3_0 += load_f32(query->below + 400) * low;
    }
    __builtin_prefetch(inner_c + 64, 0, 3);
    __builtin_prefetch(inner_d + 64, 0, 3);
    __builtin_prefetch(outer_c + 64, 0, 2);
    __builtin_prefetch(outer_d + 64, 0, 2);
    {
        vf c = load_f16(page_c + 64);
        vf d = load_f16(page_d + 64);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 32) * high;
        s_0_0 += load_f32(query->below + 32) * low;
        s_1_0 += load_f32(query->above + 160) * high;
        s_1_0 += load_f32(query->below + 160) * low;
        s_2_0 += load_f32(query->above + 288) * high;
        s_2_0 += load_f32(query->below + 288) * low;
        s_3_0 += load_f32(query->above + 416) * high;
        s_3_0 += load_f32(query->below + 416) * low;
    }
    {
        vf c = load_f16(page_c + 96);
        vf d = load_f16(page_d + 96);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 48) * high;
        s_0_0 += load_f32(query->below + 48) * low;
        s_1_0 += load_f32(query->above + 176) * high;
        s_1_0 += load_f32(query->below + 176) * low;
        s_2_0 += load_f32(query->above + 304) * high;
        s_2_0 += load_f32(query->below + 304) * low;
        s_3_0 += load_f32(query->above + 432) * high;
        s_3_0 += load_f32(query->below + 432) * low;
    }
    __builtin_prefetch(inner_c + 128, 0, 3);
    __builtin_prefetch(inner_d + 128, 0, 3);
    __builtin_prefetch(outer_c + 128, 0, 2);
    __builtin_prefetch(outer_d + 128, 0, 2);
    {
        vf c = load_f16(page_c + 128);
        vf d = load_f16(page_d + 128);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 64) * high;
        s_0_0 += load_f32(query->below + 64) * low;
        s_1_0 += load_f32(query->above + 192) * high;
        s_1_0 += load_f32(query->below + 192) * low;
        s_2_0 += load_f32(query->above + 320) * high;
        s_2_0 += load_f32(query->below + 320) * low;
        s_3_0 += load_f32(query->above + 448) * high;
        s_3_0 += load_f32(query->below + 448) * low;
    }
    {
        vf c = load_f16(page_c + 160);
        vf d = load_f16(page_d + 160);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 80) * high;
        s_0_0 += load_f32(query->below + 80) * low;
        s_1_0 += load_f32(query->above + 208) * high;
        s_1_0 += load_f32(query->below + 208) * low;
        s_2_0 += load_f32(query->above + 336) * high;
        s_2_0 += load_f32(query->below + 336) * low;
        s_3_0 += load_f32(query->above + 464) * high;
        s_3_0 += load_f32(query->below + 464) * low;
    }
    __builtin_prefetch(inner_c + 192, 0, 3);
    __builtin_prefetch(inner_d + 192, 0, 3);
    __builtin_prefetch(outer_c + 192, 0, 2);
    __builtin_prefetch(outer_d + 192, 0, 2);
    {
        vf c = load_f16(page_c + 192);
        vf d = load_f16(page_d + 192);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 96) * high;
        s_0_0 += load_f32(query->below + 96) * low;
        s_1_0 += load_f32(query->above + 224) * high;
        s_1_0 += load_f32(query->below + 224) * low;
        s_2_0 += load_f32(query->above + 352) * high;
        s_2_0 += load_f32(query->below + 352) * low;
        s_3_0 += load_f32(query->above + 480) * high;
        s_3_0 += load_f32(query->below + 480) * low;
    }
    {
        vf c = load_f16(page_c + 224);
        vf d = load_f16(page_d + 224);
        vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
        s_0_0 += load_f32(query->above + 112) * high;
        s_0_0 += load_f32(query->below + 112) * low;
        s_1_0 += load_f32(query->above + 240) * high;
        s_1_0 += load_f32(query->below + 240) * low;
        s_2_0 += load_f32(query->above + 368) * high;
        s_2_0 += load_f32(query->below + 368) * low;
        s_3_0 += load_f32(query->above + 496) * high;
        s_3_0 += load_f32(query->below + 496) * low;
    }
    sums[0][lane] = s_0_0;
    sums[1][lane] = s_1_0;
    sums[2][lane] = s_2_0;
    sums[3][lane] = s_3_0;
    vf some = sums[0][lane];
    return lanes_from((vi)abs_f32(some), broadcast_words(0x7f800000)) == 0;
}

/* Add lanes 8 and 4 apart, for every fourth page; then lanes 2 and 1 apart.  */
INLINED vf
quads_of(const vf x[LANES], int p)
{
    vf a = __builtin_shufflevector(x[p], x[p + 4], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(x[p], x[p + 4], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31), b =
        __builtin_shufflevector(x[p + 8], x[p + 12], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(x[p + 8], x[p + 12], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

INLINED vf
sum_lanes(const vf x[LANES])
{
    return sum_quads(quads_of(x, 0), quads_of(x, 1), quads_of(x, 2), quads_of(x, 3));
}

/* Compute the scores of `count` pages from their sums.  */
INLINED void
finish(vf sums[][LANES], float *score, int64_t count)
{
    vf x_0 = sum_lanes(sums[0]);
    vf x_1 = sum_lanes(sums[1]);
    vf x_2 = sum_lanes(sums[2]);
    vf x_3 = sum_lanes(sums[3]);
    vf y_0 = x_0;
    y_0 = max_f32(x_1, y_0);
    y_0 = max_f32(x_2, y_0);
    y_0 = max_f32(x_3, y_0);
    x_0 = y_0;
    store_some_f32(score, x_0, (size_t)count);
}

__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")))
static void
kvmill_score_pages_bound_f16_d128_h4_b1_headmax__avx512_tiles_run(const void *problem, int64_t first, int64_t last)
{
    const struct kvmill_score_pages *p = problem;
    vf sums[SCORES][LANES];
    int is_exact = is_short(p->query);
    struct parts parts;
    split_query(p->query, &parts);
    /* The loop nest: LANES pages at a time; the blocks, heads and elements of each.  */
    for (int64_t u = first; u < last; u += LANES) {
        int64_t count = last - u < LANES ? last - u : LANES;
        if (count < LANES)
            memset(sums, 0, sizeof sums);
        for (int lane = 0; lane < count; lane++)
            if (!is_exact || !add_exactly(p, u + lane, &parts, sums, lane))
                add_page(p, u + lane, sums, lane);
        finish(sums, p->score + u * LEFT, count);
    }
}

static const struct kvmill_score_shape shape = {
    .kind = 2,
    .element = 2,
    .dim = 128,
    .heads = 4,
    .blocks = 1,
    .folds = 1,
    .fold = { { 1, 1 }, { 0, 0 } },
};

const struct kvmill_kernel kvmill_score_pages_bound_f16_d128_h4_b1_headmax__avx512_tiles = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCORE_PAGES,
    .symbol = "kvmill_score_pages_bound_f16_d128_h4_b1_headmax__avx512_tiles",
    .isa = "avx512",
    .shape = &shape,
    .whole_batch = 0,
    .run = kvmill_score_pages_bound_f16_d128_h4_b1_headmax__avx512_tiles_run,
};
