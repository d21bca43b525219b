/* The instruction sets there are templates for.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_ISA_H
#define KVMILL_GEN_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Code bytes of kernels that move rows (gcc 12 -O3), fitted over the kernels of ten packs. */
struct code_size {
    int64_t frame, batch, row,
        move;                /* straight-line: of a loop, per loop over the batch, row, move */
    int64_t run, ring, keep; /* a run, what a ring adds to it, keeping */
};

/* templates/isa/<name>.m4, and what sizing a kernel needs to know of it. */
struct isa {
    const char *name;
    int64_t move_bytes;   /* widest load and store */
    int64_t lanes;        /* floats of a vector: km_lanes */
    int64_t registers;    /* vectors that fit into registers */
    int64_t stream_bytes; /* the same around the caches; 0 = there is none */
    struct code_size size;
    const char *extends; /* the instruction set this one adds instructions to, or NULL */
};

enum { MOST_ISAS = 8 };

struct isa_list {
    const struct isa *items[MOST_ISAS];
    int count;
};

/* NULL when there is none of that name. */
const struct isa *isa_by_name(const char *name, size_t length);

/* What it extends, all the way down: kernels that have no use for an extension are made for that. */
const struct isa *isa_plain(const struct isa *isa);

/* All there are, joined by `between`; the text is the caller's. */
struct isa_words {
    char text[128];
};
const char *isa_join(const char *between, struct isa_words *words);

/* "scalar,avx2"; NULL gives the default: all for x86-64. */
bool isa_list_parse(const char *text, struct isa_list *list, struct error *error);

#endif
