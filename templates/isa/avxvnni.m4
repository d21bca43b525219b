m4_divert(-1)
m4_dnl avxvnni.m4 -- integer dot products in the encoding of AVX, in addition to avx2.m4.
m4_define(«km_isa», «avxvnni»)
m4_define(«km_target», «avx2,fma,f16c,avxvnni»)

km_define(«add_products», «
    return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
»)
m4_divert(0)m4_dnl
