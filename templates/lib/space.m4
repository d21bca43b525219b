m4_divert(-1)
m4_dnl space.m4 -- instead of a kernel, what it leaves open.
m4_divert(0)m4_dnl
km_space«»m4_dnl
