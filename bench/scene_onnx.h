/* Sizes of ONNX Attention and its step, and what it prints of itself.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_ONNX_H
#define KVMILL_BENCH_SCENE_ONNX_H

#include "scene.h"

/* Whether a spec has kernels to be timed, and work of that size: no dim says otherwise, and the new
   tokens see the positions before them. */
bool onnx_serves(const struct spec *spec, const struct run_size *size);

/* The size that a spec's own dims tell, and what is usual where they tell none; false: there is
   none that can be timed. */
bool onnx_own_size(const struct spec *spec, const struct run_size *usual, struct run_size *size);

/* A plan for a spec, as it is. */
kvmill_status onnx_spec_plan(const struct spec *spec, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *reason);

#endif
