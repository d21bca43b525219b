/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/isa.h"
#include "../../ops/fail.h"

#define FEATURE(WORD, TEST)                                                                        \
    if (strlen(WORD) == length && memcmp(WORD, name, length) == 0)                                 \
        return (TEST) != 0;

#ifdef __x86_64__
#include <cpuid.h>

static const enum cpu this_cpu = CPU_X86_64;

enum { A, C = 2, D };
static int has_bit(unsigned leaf, unsigned subleaf, int word, int bit) {
    unsigned words[4];
    return __get_cpuid_count(leaf, subleaf, &words[0], &words[1], &words[2], &words[3]) &&
           (words[word] >> bit & 1) != 0;
}

/* GCC's names.  clang's __builtin_cpu_supports does not know all of them.  float16 uses the
   registers of AVX-512. */
static int has_feature(const char *name, size_t length) {
    FEATURE("avx2", __builtin_cpu_supports("avx2"))
    FEATURE("fma", __builtin_cpu_supports("fma"))
    FEATURE("f16c", has_bit(1, 0, C, 29))
    FEATURE("avxvnni", has_bit(7, 1, A, 4))
    FEATURE("avx512f", __builtin_cpu_supports("avx512f"))
    FEATURE("avx512bw", __builtin_cpu_supports("avx512bw"))
    FEATURE("avx512vl", __builtin_cpu_supports("avx512vl"))
    FEATURE("avx512dq", __builtin_cpu_supports("avx512dq"))
    FEATURE("avx512vnni", __builtin_cpu_supports("avx512vnni"))
    FEATURE("avx512fp16", has_bit(7, 0, D, 23))
    return 0;
}

bool kvmill_cpu_is_amd(void) {
    return __builtin_cpu_is("amd");
}

/* Leaf 0 has the twelve letters of the maker; leaf 1 has family and model, each in two parts. */
void kvmill_processor_words(char words[PROCESSOR_SIZE]) {
    unsigned a = 0, b, c, d;
    char maker[13] = "";
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(maker, &b, 4);
        memcpy(maker + 4, &d, 4);
        memcpy(maker + 8, &c, 4);
    }
    __get_cpuid(1, &a, &b, &c, &d);
    snprintf(words, PROCESSOR_SIZE, "%s %u-%u", maker, (a >> 8 & 15) + (a >> 20 & 255),
             (a >> 4 & 15) + (a >> 12 & 240));
}
#else
#ifdef __aarch64__
#include <sys/auxv.h>

static const enum cpu this_cpu = CPU_AARCH64;

static int has_feature(const char *name, size_t length) {
    FEATURE("i8mm", getauxval(AT_HWCAP2) & HWCAP2_I8MM)
    return 0;
}
#else
static const enum cpu this_cpu = CPU_ANY;

static int has_feature(const char *name, size_t length) {
    (void)name;
    (void)length;
    return 0;
}
#endif

bool kvmill_cpu_is_amd(void) {
    return false;
}

void kvmill_processor_words(char words[PROCESSOR_SIZE]) {
    snprintf(words, PROCESSOR_SIZE, "%s", this_cpu == CPU_AARCH64 ? "aarch64" : "unknown");
}
#endif

static int has_features(const char *names) {
    while (*names != '\0') {
        size_t length = strcspn(names, ",");
        if (!has_feature(names, length))
            return 0;
        names += length + (names[length] != '\0');
    }
    return 1;
}

static int is_usable(const struct isa *isa) {
    const struct isa *extended = kvmill_isa_extended(isa);
    return (extended == NULL || is_usable(extended)) && kvmill_isa_is_of(isa, this_cpu) &&
           has_features(isa->features);
}

const char *kvmill_isa_name(size_t i) {
    size_t count = 0;
    while (kvmill_isas[count].name != NULL)
        count++;
    return i < count ? kvmill_isas[i].name : NULL;
}

int kvmill_isa_rank(const char *name) {
    const struct isa *isa = kvmill_isa_by_name(name, strlen(name));
    return isa ? (int)(isa - kvmill_isas) : -1;
}

int kvmill_isa_level(const char *name) {
    return kvmill_isas[kvmill_isa_rank(name)].level;
}

int kvmill_isa_usable(const char *isa) {
    int rank = isa != NULL ? kvmill_isa_rank(isa) : -1;
    return rank >= 0 && is_usable(&kvmill_isas[rank]);
}

static kvmill_status refuse_name(const char *name, const char *origin, kvmill_error *error) {
    char accepted[128] = "";
    for (int i = 0; kvmill_isas[i].name != NULL; i++)
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", kvmill_isas[i].name);
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

kvmill_status kvmill_isa_known(const char *name, const char *origin, const char **known,
                               kvmill_error *error) {
    int rank = INT_MAX;
    kvmill_status status = lower_cap(name, origin, &rank, error);
    *known = status == KVMILL_OK && rank < INT_MAX ? kvmill_isas[rank].name : NULL;
    return status;
}

kvmill_status kvmill_isa_cap(const char *wanted, int *rank, kvmill_error *error) {
    *rank = INT_MAX;
    kvmill_status status = lower_cap(wanted, "isa", rank, error);
    return status == KVMILL_OK ? lower_cap(getenv("KVMILL_ISA"), "KVMILL_ISA", rank, error)
                               : status;
}
