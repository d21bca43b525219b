m4_divert(-1)
m4_dnl kernel.m4 -- the frame around a kernel.  Needs the ISA's words.

m4_dnl km_function(TYPE, DECLARATION) -- head of a function compiled for the ISA.
m4_define(«km_function», «m4_ifelse(m4_defn(«km_target»), «», «», «__attribute__((target("km_target")))
»)static $1
$2»)

m4_dnl km_inline(TYPE, DECLARATION) -- head of a function that is always inlined, and need not be used.
m4_define(«km_inline», «INLINED $1
$2»)

m4_dnl km_run -- the name of the function that is the kernel: what profilers and debuggers show.
m4_define(«km_run», «km_symbol«»_run»)

m4_dnl km_run_function -- its head.
m4_define(«km_run_function», «km_function(«void», «km_run«»(const void *problem, int64_t first, int64_t last)»)»)

m4_dnl km_descriptor(FAMILY, SHAPE, WHOLE_BATCH) -- what the registry and the runtime see of it.
m4_define(«km_descriptor», «static const struct $2;

const struct kvmill_kernel km_symbol = {
    .abi = KVMILL_KERNEL_ABI,
    .family = $1,
    .symbol = "km_symbol",
    .isa = "km_isa",
    .shape = &shape,
    .whole_batch = $3,
    .run = km_run,
};
»)
m4_divert(0)m4_dnl
