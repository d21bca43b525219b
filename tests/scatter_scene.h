/* Scenes of TensorScatter: four tensors and how they are handed over, run in every way there is.

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
    unsigned open_dims;      /* that a plan does not know */
    bool known_starts;       /* apart from those of write_indices */
    bool no_strides, unsaid; /* nor these, nor present_cache, which is past_cache */
    struct fenced_tensor tensor[SCATTER_TENSORS];
    const DLTensor *given[SCATTER_TENSORS];
    struct dice *dice;
};

/* Words: axis, mode, dtype; past, update and present (past's) have dims, and past-strides ...;
   starts are write_indices, after starts-step; "in-place", "unsaid": without present_cache in the
   plan; "floored": negative indices; "open=5": the plan does not know dims 0 and 2, "open": none,
   nor strides, "known-starts": but that of write_indices; "no-data". */
void scene_open(struct scene *scene, const char *settings, struct dice *dice);
void scene_close(struct scene *scene);

void *scene_bytes(const struct scene *scene, int tensor);

/* From the tensors, or from prototypes as the scene says. */
kvmill_status scene_plan_as_given(const struct scene *scene, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error);
kvmill_status scene_plan(const struct scene *scene, const kvmill_plan_options *options,
                         kvmill_plan **plan, kvmill_error *error);

/* What the oracle gives; released by tensor_close. */
void scene_expect(const struct scene *scene, struct fenced_tensor *expected);

/* By kvmill_run, in shuffled parts, or on threads. */
enum { WAYS = 3 };
kvmill_status scene_run_way(const struct scene *scene, int way, const kvmill_plan *plan,
                            kvmill_error *error);

/* By the ways from `first` to before `end`, each twice: after a run in place there is something
   else to begin with.  Writes to inputs trap. */
bool scene_run_ways(struct scene *scene, const kvmill_plan *plan,
                    const struct fenced_tensor *expected, int first, int end);

/* A test: with and without packs the scene gives what the oracle does, or these bytes.  Closes
   it. */
void scene_runs(struct scene *scene, const char *name);
void scene_gives(struct scene *scene, const void *bytes, const char *name);

#endif
