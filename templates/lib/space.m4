m4_divert(-1)
m4_dnl space.m4 -- prints the tunables of a kernel instead of the kernel, without the words of formats.
m4_undivert(2)
m4_divert(0)m4_dnl
km_space«»m4_dnl
