m4_divert(-1)
m4_dnl score_tunables.m4 -- the tunables of kernels that score pages.
m4_define(«km_heads», «m4_ifelse(km_variant, «heads», 1, 0)»)

m4_dnl Pages are anywhere, so hardware prefetchers cannot follow.  Some 128 lines in flight to the second-level cache
m4_dnl are enough.  With Quest's 8 lines per page, 16 pages ahead are 11 % faster than 32.
m4_define(«km_page_lines»,
    «m4_eval(m4_ifelse(km_kind, «bound», 2, 1) * km_page_blocks * km_row_bytes_of(km_element, km_dim) / 64)»)
m4_define(«km_usual_outer»,
    «km_if(km_page_lines <= 4, 32, «km_if(km_page_lines <= 8, 16, «km_if(km_page_lines <= 16, 8, 4)»)»)»)
km_if(km_heads, «m4_dnl
m4_dnl Registers hold the sums of a tile, its keys, a vector of the query and a product.
km_tunable(«keys», 2, «1, 2, 4», «keys of a register tile»)
km_tunable(«tile», «km_smaller(km_query_heads, km_registers / 4)», «km_if(km_query_heads < 2, 1,
    «1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14»)», «heads of a register tile»)
km_limit(«km_tile <= km_query_heads», «a tile has more heads than the query»)
km_limit(«km_tile == 1 || km_tile * km_keys + km_keys + 2 <= km_registers», «a tile has more sums than registers»)
km_tunable(«block», «km_if(km_query_heads * km_dim > 2048, 32, 16)», «16, 32, 64», «keys that meet all heads»)
km_tunable(«ahead», 8, «0, 8, 16, 32», «rows ahead that are brought into the first cache»)
», «m4_dnl
km_tunable(«inner», «km_if(km_page_lines <= 8, 4, 2)», «0, 2, 4, 8, 16»,
    «pages ahead that are brought into the first cache»)
km_tunable(«outer», km_usual_outer, «0, 4, 8, 16, 32, 64, 128», «pages ahead that are brought into the second cache»)
»)
m4_divert(0)m4_dnl
