m4_divert(-1)
m4_dnl score_tunables.m4 -- what kernels that score pages leave open.

m4_dnl Pages lie anywhere: the hardware does not see where they go on. Some 128 lines on the way to the second cache are
m4_dnl enough; of Quest's 8 lines of a page 16 pages ahead are 11 % faster than 32.
m4_define(«km_page_lines»,
    «m4_eval(m4_ifelse(km_kind, «bound», 2, 1) * km_page_blocks * km_dim * m4_ifelse(km_element, «f32», 4, 2) / 64)»)
m4_define(«km_usual_outer»,
    «km_if(km_page_lines <= 4, 32, «km_if(km_page_lines <= 8, 16, «km_if(km_page_lines <= 16, 8, 4)»)»)»)
km_tunable(«inner», «km_if(km_page_lines <= 8, 4, 2)», «0, 2, 4, 8, 16»,
    «pages ahead that are brought into the first cache»)
km_tunable(«outer», km_usual_outer, «0, 4, 8, 16, 32, 64, 128», «pages ahead that are brought into the second cache»)
m4_divert(0)m4_dnl
