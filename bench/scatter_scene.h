/* A scatter of one input with memory for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCATTER_SCENE_H
#define KVMILL_BENCH_SCATTER_SCENE_H

#include "../gen/spec.h"
#include "../gen/stablehlo.h"
#include "../ops/scatter.h"
#include "../tune/pool.h"

struct scatter_scene {
    struct scatter_view view;
    struct kvmill_windows windows;
    DLTensor input, indices, updates, result;
    int64_t input_bytes, index_bytes, update_bytes;
    DLTensor capture[KVMILL_MOST_CAPTURES];
    _Alignas(16) unsigned char captured[KVMILL_MOST_CAPTURES][16];
    int64_t *lines; /* of the input, those that updates touch */
    int64_t line_count;
    kvmill_plan *plan;
};

/* Whether a spec is such as can be timed: one input, and all of one type. */
bool scatter_scene_serves(const struct spec *spec);

/* Close it after a failure, too. */
bool scatter_scene_open(struct scatter_scene *scene, const struct spec *spec,
                        const kvmill_pack *pack, struct error *error);
void scatter_scene_close(struct scatter_scene *scene);

/* Another plan for the same. */
bool scatter_scene_plan(const struct scatter_scene *scene, const kvmill_plan_options *options,
                        kvmill_plan **plan, struct error *error);

/* New indices: slices of about 40 windows side by side (runs), or any order; finds what they touch.
 */
bool scatter_scene_aim(struct scatter_scene *scene, bool runs, struct pool *pool,
                       struct error *error);

/* Inputs and updates are zeros when a scene is aimed; numbers for results that say something, and
   back. */
void scatter_scene_fill(struct scatter_scene *scene);
void scatter_scene_clear(struct scatter_scene *scene);

kvmill_status scatter_scene_run(const struct scatter_scene *scene, const kvmill_plan *plan,
                                struct pool *pool, bool in_place, kvmill_error *reason);

/* What the memory has to do: read updates, read and write the lines that they touch, in a
   functional run copy the input; and the bytes of that. */
void scatter_scene_touch(struct scatter_scene *scene, struct pool *pool, bool in_place);
double scatter_scene_bytes(const struct scatter_scene *scene, bool in_place);

#endif
