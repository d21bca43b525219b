m4_divert(-1)
m4_dnl aarch64.m4 -- NEON: 16-byte vectors, present on every such CPU.
m4_define(«km_headers», «#include <arm_neon.h>»)

m4_define(«km_widths», «16, 8, 4, 2, 1»)

m4_dnl C has no stores around the cache for it.
m4_define(«km_stream_bytes», «0»)
m4_define(«km_stream_end», «»)

m4_define(«km_join_widths», «16, 8, 1»)
m4_define(«km_join_16», «vst1q_u8($1, vsliq_n_u8(vshrq_n_u8(vld1q_u8($2), 4), vld1q_u8(($2) + 1), 4))»)

m4_define(«km_peak_bytes», 16)
m4_define(«km_register», «w»)

m4_dnl clang 14 does not know the names that GCC wants for extensions.
m4_ifelse(km_target, «», «», «m4_define(«km_target_text», «TARGET»)m4_define(«km_target_lines», «#ifdef __clang__
#define TARGET "km_target"
#else
#define TARGET "arch=armv8.2-a+km_target"
#endif

»)»)
m4_divert(0)m4_dnl
