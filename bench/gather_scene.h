/* A gather with memory for it, and sets of random indices that calls take in turn.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_GATHER_SCENE_H
#define KVMILL_BENCH_GATHER_SCENE_H

#include "../gen/spec.h"
#include "../gen/stablehlo.h"
#include "../ops/gather.h"
#include "../tune/pool.h"

struct gather_scene {
    struct gather_view view;
    struct kvmill_windows windows;
    DLTensor operand, indices, result;
    int64_t result_dims[KVMILL_MOST_RANK];
    int64_t operand_bytes, index_bytes, result_bytes; /* of one set of indices */
    int64_t sets; /* together they name more bytes than caches hold */
    unsigned char *index_memory;
    kvmill_plan *plan; /* NULL: the result is empty */
};

/* Close it after a failure, too. */
bool gather_scene_open(struct gather_scene *scene, const struct spec *spec, const kvmill_pack *pack,
                       struct error *error);
void gather_scene_close(struct gather_scene *scene);

/* Another plan for the same. */
bool gather_scene_plan(const struct gather_scene *scene, const kvmill_plan_options *options,
                       kvmill_plan **plan, struct error *error);

/* With set number k of indices. */
kvmill_status gather_scene_run(const struct gather_scene *scene, const kvmill_plan *plan,
                               struct pool *pool, int64_t k, kvmill_error *reason);

/* Copy as many bytes as a run does, from another place for every k; how many. */
int64_t gather_scene_copy(const struct gather_scene *scene, struct pool *pool, int64_t k);

#endif
