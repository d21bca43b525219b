/* The rivals of runs: the machine's limits, measured on the memory of a scene.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RIVALS_H
#define KVMILL_BENCH_RIVALS_H

#include "limits.h"
#include "scene.h"

struct rival {
    const char *name;
    struct scene_call *call; /* that the rival is compared with */
    void (*run)(struct rival *rival);
    struct scene_call *other;           /* if the rival is a call, that call */
    double done;                        /* bytes or operations of the last run */
    bool by_unit;                       /* compare the time per byte or operation, not per run */
    const struct kind_of_reading *kind; /* of rivals that read */
    enum peak peak;                     /* of rivals that multiply and add */
    int to, from;                       /* tensors that are copied, and the bytes */
    int64_t bytes;
    void (*copy)(const struct copy *copy);
};

/* Makes rival i of a kind. */
typedef void rival_maker(struct rival *rival, struct scene_call *call, int i);

rival_maker rival_read; /* reads memory that no call has used lately; by kinds_of_reading */
rival_maker rival_add;  /* multiplies and adds */
rival_maker
    rival_read_back;      /* copies from a cache to keys; this and the next by kinds_of_copying */
rival_maker rival_append; /* copies a flow's new keys */
rival_maker rival_store;  /* copies activations of K and V to the cache */
rival_maker rival_write;  /* copies rows to the cache */
rival_maker rival_rows;   /* copies what a TensorScatter reads */
rival_maker rival_gather; /* memcpy: as many bytes as a gather moves */
rival_maker rival_touch;  /* reads and writes the lines that a scatter's updates touch */

/* Functions of contenders: run a rival; run a call on the next memory. */
void run_rival(void *rival, int64_t k);
void run_call(void *call, int64_t k);

#endif
