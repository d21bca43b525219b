m4_divert(-1)
m4_dnl scatter_tunables.m4 -- the tunables of scatter kernels.
km_need_all(«the generator», «km_components», «km_element_bits»)

m4_define(«km_is_points», «m4_ifelse(km_variant, «points», 1, 0)»)
km_tunable(«unroll», «km_if(km_is_points, 4, 2)», «1, 2, 4, 8», «points, or vectors of a row, at a time»)
km_tunable(«ahead», «km_if(km_is_points, 64, 0)», «0, 4, 16, 64, 256»,
    «points ahead whose elements are brought into the first cache»)
m4_divert(0)m4_dnl
