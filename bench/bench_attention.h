/* Benchmarks of cache attention: reading a long cache against reading memory, prompts against the
   peak of multiply-adds, storing against copying.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_H
#define KVMILL_BENCH_ATTENTION_H

#include "../gen/spec.h"
#include "attention_scene.h"
#include "results.h"

/* Whether a spec is such as can be timed: a MultiHeadCacheAttention with a static batch. */
bool bench_can_attend(const struct spec *spec);

/* Run the cases of a MultiHeadCacheAttention with a static batch; others are passed over with a
 * note. */
bool bench_attention(const struct spec *spec, const struct attention_setting *setting,
                     struct bench_results *results, struct error *error);

#endif
