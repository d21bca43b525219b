/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"

#include <string.h>

typedef void copy_function(char *to, const char *from, size_t bytes);

struct share {
    const struct copy *copy;
    copy_function *function;
};

/* Thread i of n copies the i-th share; shares begin at pages. */
static void copy_share(void *context, int64_t index) {
    const struct share *share = context;
    const struct copy *copy = share->copy;
    size_t threads = (size_t)kvmill_pool_threads(copy->pool);
    size_t pages = copy->bytes / 4096, i = (size_t)index;
    size_t begin = pages * i / threads * 4096;
    size_t end = i + 1 == threads ? copy->bytes : pages * (i + 1) / threads * 4096;
    share->function(copy->to + begin, copy->from + begin, end - begin);
}

static void run(const struct copy *copy, copy_function *function) {
    struct share share = {copy, function};
    kvmill_pool_for(copy->pool, kvmill_pool_threads(copy->pool), copy_share, &share);
}

static void copy_plain(char *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#ifdef __x86_64__
#include <immintrin.h>

static void stream_line(char *to, const char *from) {
    for (int i = 0; i < 64; i += 16)
        _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
}

__attribute__((target("avx512f"))) static void stream_line_512(char *to, const char *from) {
    _mm512_stream_si512((__m512i *)to, _mm512_loadu_si512(from));
}

__attribute__((target("avx512f"))) static void copy_row_512(char *to, const char *from,
                                                            size_t bytes) {
    for (size_t i = 0; i + 64 <= bytes; i += 64)
        _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
}

/* `to` is aligned to a page in the bench. */
#define DEFINE_STREAM(NAME, TARGET, LINE)                                                          \
    TARGET static void NAME(char *to, const char *from, size_t bytes) {                            \
        for (size_t i = 0; i + 64 <= bytes; i += 64)                                               \
            LINE(to + i, from + i);                                                                \
        _mm_sfence();                                                                              \
        memcpy(to + bytes / 64 * 64, from + bytes / 64 * 64, bytes % 64);                          \
    }                                                                                              \
    TARGET static void NAME##_pages(char *to, const char *from, size_t bytes) {                    \
        size_t done = 0;                                                                           \
        for (; done + 4 * 4096 <= bytes; done += 4 * 4096)                                         \
            for (size_t i = done; i < done + 4096; i += 64)                                        \
                for (size_t page = 0; page < 4 * 4096; page += 4096)                               \
                    LINE(to + i + page, from + i + page);                                          \
        _mm_sfence();                                                                              \
        memcpy(to + done, from + done, bytes - done);                                              \
    }
DEFINE_STREAM(stream, , stream_line)
DEFINE_STREAM(stream_512, __attribute__((target("avx512f"))), stream_line_512)

static copy_function *pick(copy_function *narrow, copy_function *wide) {
    return __builtin_cpu_supports("avx512f") ? wide : narrow;
}
#else
static copy_function *pick(copy_function *narrow, copy_function *wide) {
    (void)wide;
    return narrow;
}
#define stream           copy_plain
#define stream_512       copy_plain
#define stream_pages     copy_plain
#define stream_512_pages copy_plain
#define copy_row_512     copy_plain
#endif

/* Copies with one memcpy per thread. */
static void limit_memcpy(const struct copy *copy) {
    run(copy, copy_plain);
}

/* Copies with nontemporal stores, one stream per thread; with memcpy if the CPU has no such
   stores. */
static void limit_nontemporal(const struct copy *copy) {
    run(copy, pick(stream, stream_512));
}

void limit_nontemporal_pages(const struct copy *copy) {
    run(copy, pick(stream_pages, stream_512_pages));
}

const struct kind_of_copying kinds_of_copying[COPIES] = {
    {"memcpy", limit_memcpy},
    {"nontemporal", limit_nontemporal},
    {"nontemporal x4", limit_nontemporal_pages}};

void limit_copy_rows(const struct copy_rows *copy) {
    copy_function *row = copy->bytes % 64 == 0 ? pick(copy_plain, copy_row_512) : copy_plain;
    for (int64_t t = 0; t < copy->tokens; t++)
        for (int64_t h = 0; h < copy->heads; h++)
            row(copy->to + t * copy->to_token + h * copy->to_head,
                copy->from + t * copy->from_token + h * copy->from_head, copy->bytes);
}
