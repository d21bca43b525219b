m4_divert(-1)
m4_dnl neoni8mm.m4 -- integer dot products, in addition to neon.m4.
m4_define(«km_isa», «neoni8mm»)
m4_define(«km_target», «i8mm»)

m4_dnl clang 14 does not know the name that GCC wants, and has the intrinsic only in files that are compiled for such
m4_dnl CPUs as a whole.
m4_define(«km_target_text», «TARGET»)
km_helper(«TARGET», «#ifdef __clang__
#define TARGET "km_target"
#else
#define TARGET "arch=armv8.2-a+km_target"
#endif

»)
km_define(«add_products», «
    __asm__("usdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
»)
m4_divert(0)m4_dnl
