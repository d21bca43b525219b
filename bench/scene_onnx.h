/* Sizes and plans of ONNX Attention and its step, for their benchmarks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_ONNX_H
#define KVMILL_BENCH_SCENE_ONNX_H

#include "scene.h"

/* Whether a spec's runs of this size can be timed: its dims allow the size, and new tokens see the
   positions before them. */
bool onnx_serves(const struct spec *spec, const struct run_size *size);

/* Sets the size from the spec's own dims, and from `usual` if they are open.  Returns false if no
   such size can be timed. */
bool onnx_own_size(const struct spec *spec, const struct run_size *usual, struct run_size *size);

/* Plans a spec without changes. */
kvmill_status onnx_spec_plan(const struct spec *spec, const kvmill_plan_options *options,
                             kvmill_plan **plan, kvmill_error *reason);

#endif
