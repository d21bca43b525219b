/* Benchmarks of ONNX Attention and TensorScatterAttention: few new tokens against reading memory,
   many against the peak of multiply-adds.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ONNX_H
#define KVMILL_BENCH_ONNX_H

#include "../gen/spec.h"
#include "attention_scene.h"
#include "results.h"

/* By 1 and by setting->threads: 1 token on 4096 and 512 on 512, or what the spec fixes instead. */
bool bench_onnx(const struct spec *spec, const struct attention_setting *setting,
                struct bench_results *results, struct error *error);

#endif
