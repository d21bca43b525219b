/* Benchmarks of sparse flows: decoding by selected pages against decoding by all, scoring against
   reading memory, the upkeep of summaries against a decode step.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_FLOW_H
#define KVMILL_BENCH_FLOW_H

#include "../gen/spec.h"
#include "attention_scene.h"
#include "results.h"

bool bench_flow(const struct spec *spec, const struct attention_setting *setting,
                struct bench_results *results, struct error *error);

#endif
