/* An Attention or TensorScatterAttention with memory for it: more caches than the processor's hold.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ONNX_SCENE_H
#define KVMILL_BENCH_ONNX_SCENE_H

#include "../gen/spec.h"
#include "../tune/pool.h"
#include "attention_work.h"
#include "owned_plan.h"

enum { ONNX_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* A cache has as many rows as there are positions.  It is what a step changes in place; or a past
   and, behind it, room for the new tokens of a present; or K and V themselves.  All positions are
   valid, the new tokens are the last, and masks hide nothing. */
struct onnx_scene {
    struct spec spec; /* its tensors are those of a run */
    struct attention_size size;
    struct kvmill_attention_geometry geometry;
    const DLTensor *given[ONNX_TENSORS];
    int64_t dims[ONNX_TENSORS][4];
    int64_t bytes[ONNX_TENSORS]; /* of tensors that lie in no cache */
    struct {
        unsigned char *data;
        int64_t bytes, strides[4]; /* of one */
    } cache[2];                    /* of K and V */
    int64_t caches, next;          /* how many there are, and which is used next */
    unsigned char *expected;       /* Y of a portable plan on cache 0; NULL: not known */
};

/* Whether a spec has kernels to be timed, and work of that size: no dim says otherwise, and the new
   tokens see the positions before them. */
bool onnx_scene_serves(const struct spec *spec, const struct attention_size *size);

/* The size that a spec's own dims tell, and what is usual where they tell none; false: there is
   none that can be timed. */
bool onnx_scene_own_size(const struct spec *spec, const struct attention_size *usual,
                         struct attention_size *size);

/* rotation: bytes of caches before the first is used again.  Close it after a failure, too. */
bool onnx_scene_open(struct onnx_scene *scene, const struct spec *spec,
                     const struct attention_size *size, int64_t rotation, struct error *error);
void onnx_scene_close(struct onnx_scene *scene);

bool onnx_scene_plan(const struct onnx_scene *scene, const kvmill_plan_options *options,
                     struct owned_plan *plan, struct error *error);

/* On the next cache. */
kvmill_status onnx_scene_run(struct onnx_scene *scene, const struct owned_plan *plan,
                             struct pool *pool, kvmill_error *reason);

/* Compute what the portable functions give; whether a plan gives it, too. */
bool onnx_scene_expect(struct onnx_scene *scene, struct pool *pool, struct error *error);
bool onnx_scene_check(struct onnx_scene *scene, const struct owned_plan *plan, struct pool *pool,
                      struct error *error);

/* Read what no run has read lately; how many bytes. */
int64_t onnx_scene_read(struct onnx_scene *scene, struct pool *pool);

/* Bytes of the rows of K and V that queries see, each once; operations for what each of them sees.
 */
double onnx_scene_bytes(const struct onnx_scene *scene);
double onnx_scene_flops(const struct onnx_scene *scene);

/* A plan for a spec, as it is. */
kvmill_status onnx_spec_plan(const struct spec *spec, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *reason);

#endif
