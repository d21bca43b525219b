/* A TensorScatter with memory for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ROWS_SCENE_H
#define KVMILL_BENCH_ROWS_SCENE_H

#include "../gen/spec.h"
#include "../ops/tensor_scatter.h"
#include "../tune/pool.h"

/* ---- Cases: a spec with what it folds to, and a size for what it leaves open ---- */

struct rows_case {
    const struct spec *spec;
    struct kvmill_row_geometry geometry; /* of the spec: counts may be KVMILL_DYNAMIC */
    int64_t batch, slots, rows;
};

bool rows_case_open(struct rows_case *each, const struct spec *spec, struct error *error);
bool rows_case_is_decode(const struct rows_case *each);

/* Open dims: the batch, then a capacity that makes the cache `bytes` large and holds a row, then
   rows.  false: nothing would move, or more than can be counted. */
bool rows_case_size(struct rows_case *each, int64_t batch, int64_t bytes);

/* ---- Scenes ---- */

struct rows_scene {
    const struct spec *spec;
    DLTensor past, update, indices, present;
    struct kvmill_row_geometry geometry;
    int64_t *starts; /* the data of indices */
    kvmill_plan *plan;
    int threads;
    struct pool *pool;
    bool in_place;
};

/* threads and in_place are set before.  Close it after a failure, too. */
bool rows_scene_open(struct rows_scene *scene, const struct rows_case *each,
                     const kvmill_pack *pack, struct error *error);
void rows_scene_close(struct rows_scene *scene);

/* Another plan for the same. */
bool rows_scene_plan(const struct rows_scene *scene, const kvmill_plan_options *options,
                     kvmill_plan **plan, struct error *error);

int64_t rows_tensor_bytes(const DLTensor *tensor);

/* Bytes that a call reads and writes at least. */
double rows_scene_bytes(const struct rows_scene *scene);

/* Other slots for every call, so that a row is not in the cache because it was written just now. */
void rows_scene_move(struct rows_scene *scene, int64_t k);

kvmill_status rows_scene_run(struct rows_scene *scene, const kvmill_plan *plan,
                             kvmill_error *reason);

#endif
