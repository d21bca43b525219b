/* Scenes of TensorScatter: four tensors and how they are passed, run in every possible way.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_SCATTER_SCENE_H
#define KVMILL_TESTS_SCATTER_SCENE_H

#include "fence.h"

enum {
    PAST = KVMILL_TENSOR_SCATTER_PAST_CACHE,
    UPDATE = KVMILL_TENSOR_SCATTER_UPDATE,
    INDICES = KVMILL_TENSOR_SCATTER_WRITE_INDICES,
    PRESENT = KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
    SCATTER_TENSORS = KVMILL_TENSOR_SCATTER_TENSORS
};
struct scene {
    int64_t axis;
    const char *mode, *negative_indices;
    unsigned open_dims;      /* dims that are unknown to the plan */
    bool known_starts;       /* the dims of write_indices are known anyway */
    bool no_strides, unsaid; /* the plan has no strides; no present_cache, which is past_cache */
    struct fenced_tensor tensor[SCATTER_TENSORS];
    const DLTensor *given[SCATTER_TENSORS];
    struct dice *dice;
};

/* Settings.  axis, mode, dtype.  past, update, present: dims (present's default is past's);
   past-strides ...: strides.  starts: write_indices, with stride starts-step.  "in-place".
   "unsaid": no present_cache in the plan.  "floored": negative indices.  "open=5": dims 0 and 2 are
   unknown to the plan; "open": all dims and strides; "known-starts": except dims of write_indices.
   "no-data". */
void scene_open(struct scene *scene, const char *settings, struct dice *dice);
void scene_close(struct scene *scene);

void *scene_bytes(const struct scene *scene, int tensor);

/* Plan with the tensors themselves, or with prototypes that have what the scene says. */
kvmill_status scene_plan_as_given(const struct scene *scene, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error);
kvmill_status scene_plan(const struct scene *scene, const kvmill_plan_options *options,
                         kvmill_plan **plan, kvmill_error *error);

/* Makes the oracle's output; release with tensor_close. */
void scene_expect(const struct scene *scene, struct fenced_tensor *expected);

/* The ways of a run: kvmill_run, shuffled parts, threads. */
enum { WAYS = 3 };
kvmill_status scene_run_way(const struct scene *scene, int way, const kvmill_plan *plan,
                            kvmill_error *error);

/* Runs the ways from `first` to before `end`, each twice: the second run in place begins with other
   contents.  Writes to inputs trap. */
bool scene_run_ways(struct scene *scene, const kvmill_plan *plan,
                    const struct fenced_tensor *expected, int first, int end);

/* Test that the scene gives the oracle's output, or these bytes, with and without packs.  Close the
   scene. */
void scene_runs(struct scene *scene, const char *name);
void scene_gives(struct scene *scene, const void *bytes, const char *name);

#endif
