/* The instruction sets that have templates.  An instruction set consists of a row in isa.c and
   templates/words/NAME.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_ISA_H
#define KVMILL_DEFS_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cpu { CPU_ANY, CPU_X86_64, CPU_AARCH64, CPU_COUNT };

/* Their names, by number. */
extern const char *const kvmill_cpus[];

/* What only some instruction sets can do; the values are bits. */
enum { ISA_INTEGER_PRODUCTS = 1, ISA_HALF_ARITHMETIC = 2, ISA_PAIR_PRODUCTS = 4 };

struct isa {
    const char *name;
    const char *extends; /* the instruction set this one adds instructions to, or NULL */
    enum cpu cpu;
    const char
        *features; /* the CPU features that it needs in addition to what it extends, by commas */
    int level;     /* an extension has the level of what it extends */
    int64_t move_bytes;   /* the widest load and store */
    int64_t stream_bytes; /* the widest store around the caches; 0: there is none */
    int64_t lanes;        /* floats of a vector: km_lanes */
    int64_t registers;    /* vector registers */
    unsigned gives;
};

/* The list, worst first; extensions come after what they extend; the last entry has no name. */
extern const struct isa kvmill_isas[];

/* NULL if there is none with this name. */
const struct isa *kvmill_isa_by_name(const char *name, size_t length);

/* The instruction set that it extends, or NULL. */
const struct isa *kvmill_isa_extended(const struct isa *isa);

/* The instruction set at the end of the chain of extensions; kernels that do not use an extension
 * are made for it. */
const struct isa *kvmill_isa_plain(const struct isa *isa);

/* The least of it and what it extends that can do this, or NULL. */
const struct isa *kvmill_isa_giving(const struct isa *isa, unsigned what);

/* Whether CPUs of this architecture may have it. */
bool kvmill_isa_is_of(const struct isa *isa, enum cpu cpu);

#endif
