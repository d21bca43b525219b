m4_divert(-1)
m4_dnl neon.m4 -- AArch64: 16-byte vectors, present on every such CPU.
m4_define(«km_isa», «neon»)
m4_define(«km_target», «»)
m4_define(«km_headers», «#include <arm_neon.h>»)

m4_define(«km_widths», «16, 8, 4, 2, 1»)

m4_dnl No stores around the cache that C can ask for.
m4_define(«km_stream_bytes», «0»)
m4_define(«km_stream_end», «»)

m4_define(«km_join_widths», «16, 8, 1»)
m4_define(«km_join_16», «vst1q_u8($1, vsliq_n_u8(vshrq_n_u8(vld1q_u8($2), 4), vld1q_u8(($2) + 1), 4))»)

m4_define(«km_vector_product», «_km_vector_product(«w»)»)
m4_divert(0)m4_dnl
