m4_divert(-1)
m4_dnl avx512.m4 -- 64-byte vectors.  The features of km_target are those the runtime tests for.
m4_define(«km_isa», «avx512»)
m4_define(«km_target», «avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq»)
m4_define(«km_headers», «#include <immintrin.h>»)

m4_define(«km_widths», «64, 32, 16, 8, 4, 2, 1»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  Assembly, because intrinsics cost
m4_dnl the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «64»)
m4_define(«km_stream_64», «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word64 *)($1)) : "v"(*(const kvmill_word64 *)($2)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_dnl 0xD8: bits of the third operand choose the second (1) or the first (0).
m4_define(«km_join_widths», «64, 8, 1»)
m4_define(«km_join_64», «_mm512_storeu_si512($1, _mm512_ternarylogic_epi32(_mm512_srli_epi16(_mm512_loadu_si512($2), 4), _mm512_slli_epi16(_mm512_loadu_si512(($2) + 1), 4), _mm512_set1_epi8((char)0xf0), 0xD8))»)
m4_divert(0)m4_dnl
