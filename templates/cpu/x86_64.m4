m4_divert(-1)
m4_dnl x86_64.m4 -- vectors of 16, 32 and 64 bytes.
m4_define(«km_headers», «#include <immintrin.h>»)
m4_define(«km_vector_bytes», «m4_eval(4 * km_lanes)»)
m4_define(«km_has_avx2», «m4_eval(km_lanes >= 8)»)
m4_define(«km_has_avx512», «m4_eval(km_lanes >= 16)»)

m4_define(«km_sums», «km_if(km_has_avx512, 16, 8)»)
m4_define(«km_spreads», «km_has_avx512»)
m4_define(«km_register», «km_if(km_has_avx512, «v», «x»)»)
m4_define(«km_chooses_by_sign», «(km_has_avx2 && !km_has_avx512)»)
m4_define(«km_transposes», «km_has_avx2»)
m4_define(«km_exact_products», «km_has_avx2»)
m4_define(«km_peak_bytes», «km_if(km_has_avx2, «km_vector_bytes», 0)»)
m4_define(«km_steps_unrolled», «km_if(km_has_avx2, 96, 1)»)
m4_define(«km_late_addresses», «#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-gcse", "no-tree-pre")
#endif

»)

m4_define(«km_widths», «km_if(km_has_avx512, «64, »)km_if(km_has_avx2, «32, »)16, 8, 4, 2, 1»)

m4_dnl km_stream_W(TO, FROM) -- store around the caches; TO is aligned.  This is inline assembly because the header of
m4_dnl the intrinsics costs the compiler a quarter of a second for every kernel.
m4_define(«km_stream_bytes», «km_if(km_has_avx2, «km_vector_bytes», 0)»)
m4_define(«km_stream_32», «_km_stream(32, «$1», «$2»)»)
m4_define(«km_stream_64», «_km_stream(64, «$1», «$2»)»)
m4_define(«_km_stream»,
    «__asm__ volatile("vmovntdq %1, %0" : "=m"(*(kvmill_word$1 *)($2)) : "km_register"(*(const kvmill_word$1 *)($3)))»)
m4_define(«km_stream_end», «__builtin_ia32_sfence()»)

m4_define(«km_join_widths», «km_if(km_has_avx512, «64, », «km_if(km_has_avx2, «32, »)»)8, 1»)
m4_define(«km_join_32», «_mm256_storeu_si256((__m256i *)($1),
    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256((const __m256i *)($2)), 4),
    _mm256_set1_epi8(0x0f)), _mm256_andnot_si256(_mm256_set1_epi8(0x0f),
    _mm256_slli_epi16(_mm256_loadu_si256((const __m256i *)(($2) + 1)), 4))))»)
m4_dnl 0xD8: each bit of the third operand chooses the second operand (1) or the first (0).
m4_define(«km_join_64», «_mm512_storeu_si512($1, _mm512_ternarylogic_epi32(_mm512_srli_epi16(_mm512_loadu_si512($2), 4),
    _mm512_slli_epi16(_mm512_loadu_si512(($2) + 1), 4), _mm512_set1_epi8((char)0xf0), 0xD8))»)
m4_divert(0)m4_dnl
