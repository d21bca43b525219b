/* SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"

#include <string.h>

const char *const kvmill_cpus[] = {[CPU_ANY] = "any", [CPU_X86_64] = "x86_64", [CPU_AARCH64] = "aarch64"};

/* clang-format off */
const struct isa kvmill_isas[] = {
    /* The numbers: level, move_bytes, stream_bytes, lanes, registers. */
    {"scalar", NULL, CPU_ANY, "", 0, 8, 0, 4, 16, 0},
    {"neon", NULL, CPU_AARCH64, "", 1, 16, 0, 4, 32, 0},
    {"neoni8mm", "neon", CPU_AARCH64, "i8mm", 1, 16, 0, 4, 32, ISA_INTEGER_PRODUCTS},
    {"avx2", NULL, CPU_X86_64, "avx2,fma,f16c", 1, 32, 32, 8, 16, ISA_PAIR_PRODUCTS},
    {"avxvnni", "avx2", CPU_X86_64, "avxvnni", 1, 32, 32, 8, 16, ISA_INTEGER_PRODUCTS},
    {"avx512", NULL, CPU_X86_64, "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq", 2, 64, 64, 16, 32, ISA_PAIR_PRODUCTS},
    {"avx512vnni", "avx512", CPU_X86_64, "avx512vnni", 2, 64, 64, 16, 32, ISA_INTEGER_PRODUCTS},
    {"avx512fp16", "avx512vnni", CPU_X86_64, "avx512fp16", 2, 64, 64, 16, 32, ISA_HALF_ARITHMETIC},
    {NULL, NULL, CPU_ANY, NULL, 0, 0, 0, 0, 0, 0},
};
/* clang-format on */

const struct isa *kvmill_isa_by_name(const char *name, size_t length) {
    for (const struct isa *isa = kvmill_isas; isa->name != NULL; isa++)
        if (strlen(isa->name) == length && memcmp(isa->name, name, length) == 0)
            return isa;
    return NULL;
}

const struct isa *kvmill_isa_extended(const struct isa *isa) {
    return isa->extends ? kvmill_isa_by_name(isa->extends, strlen(isa->extends)) : NULL;
}

const struct isa *kvmill_isa_plain(const struct isa *isa) {
    while (isa->extends != NULL)
        isa = kvmill_isa_extended(isa);
    return isa;
}

const struct isa *kvmill_isa_giving(const struct isa *isa, unsigned what) {
    while (isa != NULL && (isa->gives & what) != what)
        isa = kvmill_isa_extended(isa);
    return isa;
}

bool kvmill_isa_is_of(const struct isa *isa, enum cpu cpu) {
    return isa->cpu == CPU_ANY || isa->cpu == cpu;
}
