m4_divert(-1)
m4_dnl kernel.m4 -- the frame around a kernel.
km_need_all(«the generator», «km_isa», «km_target», «km_lanes»)

m4_dnl km_function(TYPE, DECLARATION) -- the head of a function that is compiled for the instruction set.
m4_define(«km_function», «m4_ifelse(m4_defn(«km_target»), «», «», «__attribute__((target(km_target_text)))
»)static $1
$2»)

m4_dnl km_inline(TYPE, DECLARATION) -- the head of a function that is always inlined, and may be unused.
m4_define(«km_inline», «INLINED $1
$2»)

m4_dnl km_apart(TYPE, DECLARATION) -- the head of a function that is never inlined, because it rarely runs.
m4_define(«km_apart», «__attribute__((noinline)) km_function(«$1», «$2»)»)
m4_dnl km_rare(TYPE, DECLARATION) -- the same for a function that hardly ever runs: its code is small rather than fast.
m4_define(«km_rare», «__attribute__((noinline, cold)) km_function(«$1», «$2»)»)

m4_dnl km_kernel_begins -- marks the end of the head of a file.  The words follow: the generator replaces #include by
m4_dnl those of the instruction set that the kernel uses.  Templates divert further words of the kernel to 2.
m4_define(«km_kernel_begins», «m4_divert(1)
km_target_lines«»#define INLINED m4_ifelse(m4_defn(«km_target»), «», «», «\
    »)static inline __attribute__((always_inline«»m4_ifelse(m4_defn(«km_target»), «», «», «, \
                                 target(km_target_text)»)))

#include "km_isa.h"

m4_divert(3)m4_dnl»)

m4_dnl km_run -- the name of the kernel's function, which profilers and debuggers show.
m4_define(«km_run», «km_symbol«»_run»)

m4_dnl km_run_function -- its head.
m4_define(«km_run_function», «km_function(«void», «km_run«»(const void *problem, int64_t first, int64_t last)»)»)

m4_dnl _km_constants(PROBLEM) -- for a kernel with constants: the numbers that its problems must have.
m4_define(«_km_has_constants», «m4_ifelse(m4_defn(«km_constants»), «», 0, 1)»)
m4_define(«_km_constants», «km_if(_km_has_constants, «
static const struct kvmill_constant constants[] = {
km_for_words(«N», «km_constants», «    {"N", offsetof(struct $1, N), m4_indir(«km_constant of »N)},
»)};
»)»)

m4_dnl km_descriptor(FAMILY, SHAPE, WHOLE_BATCH, PROBLEM) -- what the registry and the runtime see of the kernel.
m4_dnl PROBLEM is the problem's struct, in families that can have its numbers as constants.
m4_define(«km_descriptor», «static const struct $2;
_km_constants(«$4»)«»m4_dnl

const struct kvmill_kernel km_symbol = {
    .abi = KVMILL_KERNEL_ABI,
    .family = $1,
    .symbol = "km_symbol",
    .isa = "km_isa",
    .shape = &shape,
    .whole_batch = $3,
    .run = km_run,
km_if(_km_has_constants, «    .constants = constants,
    .constant_count = sizeof constants / sizeof *constants,
»)m4_dnl
};
»)
m4_divert(0)m4_dnl
