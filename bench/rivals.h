/* The rivals of runs: the machine's limits, measured on the memory of a scene.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_RIVALS_H
#define KVMILL_BENCH_RIVALS_H

#include "limits.h"
#include "scene.h"

struct rival {
    const char *name;
    struct scene_call *call; /* that is compared with it: its scene, and its pool */
    void (*run)(struct rival *rival);
    struct scene_call *other; /* that does the same otherwise, if it is a call */
    double done;              /* bytes or operations of the last run */
    bool by_unit;             /* what counts is the time for each of these, not that of a run */
    const struct kind_of_reading *kind; /* of readings */
    enum peak peak;                     /* of multiplying and adding */
    int to, from;                       /* tensors to copy, and bytes of them */
    int64_t bytes;
    void (*copy)(const struct copy *copy);
};

/* Makes rival number i of its kind. */
typedef void rival_maker(struct rival *rival, struct scene_call *call, int i);

rival_maker rival_read;      /* what no call has read lately, by kinds_of_reading */
rival_maker rival_add;       /* multiplies and adds */
rival_maker rival_read_back; /* memcpy, nontemporal: of a cache to keys */
rival_maker rival_append;    /* the same, of a flow's new keys */
rival_maker rival_store;     /* memcpy, nontemporal: of K's and V's activations to the cache */
rival_maker rival_write;     /* memcpy, nontemporal: of rows to the cache */
rival_maker rival_rows;   /* memcpy, nontemporal, nontemporal x4: of what a TensorScatter reads */
rival_maker rival_gather; /* memcpy: of as many bytes as a gather moves */
rival_maker rival_touch;  /* of lines that a scatter's updates touch */

/* For contenders: the same, and a call on the next memory. */
void run_rival(void *rival, int64_t k);
void run_call(void *call, int64_t k);

#endif
