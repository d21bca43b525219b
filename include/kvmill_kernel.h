/* What a pack of generated kernels and the kvmill runtime agree on.

   This is the only header a generated file includes.  A copy travels with every pack, so that a
   pack compiles anywhere; KVMILL_KERNEL_ABI tells the runtime whether it can use what it is given.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_KERNEL_H
#define KVMILL_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVMILL_KERNEL_ABI 1

/* A shape field that the kernel leaves open: it serves every value. */
#define KVMILL_ANY (-1)

/* What a kernel computes.  Kernels of one family with equal shapes are interchangeable. */
enum kvmill_family {
    KVMILL_STORE_ROWS = 1, /* rows of update -> their slots of the cache */
    KVMILL_KEEP_ROWS = 2   /* rows of past that no update replaces -> present */
};

/* Words at any address. */
typedef uint64_t kvmill_word64 __attribute__((vector_size(64), may_alias, aligned(1)));
typedef uint64_t kvmill_word32 __attribute__((vector_size(32), may_alias, aligned(1)));
typedef uint64_t kvmill_word16 __attribute__((vector_size(16), may_alias, aligned(1)));
typedef uint64_t kvmill_word8 __attribute__((may_alias, aligned(1)));
typedef uint32_t kvmill_word4 __attribute__((may_alias, aligned(1)));
typedef uint16_t kvmill_word2 __attribute__((may_alias, aligned(1)));
typedef int64_t kvmill_index __attribute__((may_alias, aligned(1)));

/* Steps between neighbours of a folded cache [batch, head, slot, row], in kernel units. */
struct kvmill_row_strides {
    int64_t batch, head, row;
};

/* The problem of STORE_ROWS and KEEP_ROWS: a cache folded to [batch, heads, capacity, row], an
   update folded to [batch, heads, rows, row].  A unit is a byte, or a nibble (low nibble first)
   for kernels with unit_bits 4; the base pointers are those of unit 0.  starts NULL means 0. */
struct kvmill_rows {
    const unsigned char *past;
    const unsigned char *update;
    unsigned char *present;
    const kvmill_index *starts;
    int64_t starts_stride;
    int64_t batch, heads, capacity, rows, row;
    struct kvmill_row_strides past_stride, update_stride, present_stride;
    int64_t chunks; /* parts one (batch, head) slab is cut into */
    int64_t stream_store, stream_keep; /* not 0: store around the caches */
};

/* Shape of STORE_ROWS and KEEP_ROWS kernels; any int64 field may be KVMILL_ANY. */
struct kvmill_rows_shape {
    int32_t unit_bits; /* 8 or 4 */
    int32_t circular;
    int64_t heads, capacity, rows, row;
};

/* One generated kernel.  run() works on the units of work [first, last): for STORE_ROWS and
   KEEP_ROWS a unit of work is chunk u % chunks of slab u / chunks, and a slab is one (batch, head),
   or one batch entry where whole_batch is set.  Re-entrant; allocates nothing. */
struct kvmill_kernel {
    uint32_t abi;
    uint32_t family;      /* enum kvmill_family */
    const char *symbol;   /* what it computes __ how */
    const char *isa;      /* "scalar", "avx2", "avx512", "neon" */
    const void *shape;    /* the family's shape struct */
    uint32_t whole_batch; /* a unit of work covers all heads of a batch entry */
    void (*run)(const void *problem, int64_t first, int64_t last);
};

/* A pack: kernels generated together.  A value; immutable; may be shared by threads. */
struct kvmill_pack {
    uint32_t abi;
    uint32_t count;
    const char *name;
    const struct kvmill_kernel *const *kernels;
    const char *manifest; /* the symbols, a line each, behind a marker `kvmill list` looks for */
};
typedef struct kvmill_pack kvmill_pack;

#ifdef __cplusplus
}
#endif
#endif
