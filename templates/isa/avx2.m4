m4_divert(-1)
m4_dnl avx2.m4 -- 32-byte vectors.  The features of km_target are those the runtime tests for.
m4_define(«km_isa», «avx2»)
m4_define(«km_target», «avx2,fma,f16c»)
m4_define(«km_headers», «#include <immintrin.h>»)

m4_define(«km_widths», «32, 16, 8, 4, 2, 1»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  Assembly, because intrinsics cost
m4_dnl the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «32»)
m4_define(«km_stream_32», «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word32 *)($1)) : "x"(*(const kvmill_word32 *)($2)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_define(«km_join_widths», «32, 8, 1»)
m4_define(«km_join_32», «_mm256_storeu_si256((__m256i *)($1), _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const __m256i *)($2)), 4), _mm256_set1_epi8(0x0f)), _mm256_andnot_si256(_mm256_set1_epi8(0x0f), _mm256_slli_epi16(_mm256_loadu_si256((const __m256i *)(($2) + 1)), 4))))»)
m4_divert(0)m4_dnl
