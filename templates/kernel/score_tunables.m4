m4_divert(-1)
m4_dnl score_tunables.m4 -- what kernels that score pages leave open.

m4_dnl Pages lie anywhere: the hardware does not see where they go on.
km_tunable(«near», 4, «0, 2, 4, 8, 16», «pages ahead that are brought into the first cache»)
km_tunable(«ahead», 32, «0, 16, 32, 64, 128», «pages ahead that are brought into the second cache»)
m4_divert(0)m4_dnl
