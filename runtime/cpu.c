/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "../ops/fail.h"

static int always(void) {
    return 1;
}

#if defined __x86_64__ || defined __i386__
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know it. */
static int has_bit_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_bit_f16c();
}

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static int has_avx512vnni(void) {
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

/* Nor this one; its registers are those of AVX-512. */
static int has_bit_avx512fp16(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1U << 23) != 0;
}

static int has_avx512fp16(void) {
    return has_avx512vnni() && has_bit_avx512fp16();
}
#else
static int has_avx2(void) {
    return 0;
}
#define has_avx512     has_avx2
#define has_avx512vnni has_avx2
#define has_avx512fp16 has_avx2
#endif

static int has_neon(void) {
#ifdef __aarch64__
    return 1;
#else
    return 0;
#endif
}

/* Worst first.  The features tested are those of the `target` attribute in templates/isa. */
static const struct isa {
    const char *name;
    int (*usable)(void);
    int level; /* extensions are of one level with what they extend */
} isas[] = {
    {"scalar", always, 0},
    {"neon", has_neon, 1},
    {"avx2", has_avx2, 1},
    {"avx512", has_avx512, 2},
    {"avx512vnni", has_avx512vnni, 2},
    {"avx512fp16", has_avx512fp16, 2},
};
enum { ISA_COUNT = sizeof isas / sizeof *isas };

const char *kvmill_isa_name(size_t i) {
    return i < ISA_COUNT ? isas[i].name : NULL;
}

int kvmill_isa_rank(const char *name) {
    for (int i = 0; i < ISA_COUNT; i++)
        if (strcmp(isas[i].name, name) == 0)
            return i;
    return -1;
}

int kvmill_isa_level(const char *name) {
    return isas[kvmill_isa_rank(name)].level;
}

int kvmill_isa_usable(const char *isa) {
    int rank = kvmill_isa_rank(isa);
    return rank >= 0 && isas[rank].usable();
}

static kvmill_status refuse_name(const char *name, const char *origin, kvmill_error *error) {
    char accepted[128] = "";
    for (int i = 0; i < ISA_COUNT; i++)
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", isas[i].name);
    return kvmill_fail(error, KVMILL_E_ISA, "%s is \"%.40s\"; accepted: %s", origin, name,
                       accepted);
}

static kvmill_status lower_cap(const char *name, const char *origin, int *cap,
                               kvmill_error *error) {
    if (name == NULL || *name == '\0')
        return KVMILL_OK;
    int rank = kvmill_isa_rank(name);
    if (rank < 0)
        return refuse_name(name, origin, error);
    if (rank < *cap)
        *cap = rank;
    return KVMILL_OK;
}

kvmill_status kvmill_isa_cap(const char *wanted, int *rank, kvmill_error *error) {
    *rank = ISA_COUNT - 1;
    kvmill_status status = lower_cap(wanted, "the instruction set", rank, error);
    return status == KVMILL_OK ? lower_cap(getenv("KVMILL_ISA"), "KVMILL_ISA", rank, error)
                               : status;
}
