m4_divert(-1)
m4_dnl any.m4 -- plain C: words of up to eight bytes.
m4_define(«km_headers», «»)

m4_define(«km_widths», «8, 4, 2, 1»)

m4_dnl No stores around the cache.
m4_define(«km_stream_bytes», «0»)
m4_define(«km_stream_end», «»)

m4_define(«km_join_widths», «8, 1»)
m4_divert(0)m4_dnl
