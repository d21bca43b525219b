/* Benchmarks of specs.  Each is compared with the machine's limits, measured in the same run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_H
#define KVMILL_BENCH_BENCH_H

#include "results.h"
#include "scene.h"

/* All cases of a spec; a note on standard error says why there are none. */
bool bench_spec(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* By kinds of ops.  Cache attention: reading a long cache against reading memory, prompts against
   the peak of multiply-adds, storing against copying. */
bool bench_attention(const struct spec *spec, const struct scene_setting *setting,
                     struct bench_results *results, struct error *error);

/* CacheAttend: 1 token on 4096 and 512 on 512, likewise. */
bool bench_attend(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error);

/* Attention and TensorScatterAttention: 1 token on 4096 and 512 on 512, or what the spec fixes
   instead; few new tokens against reading memory, many against the peak of multiply-adds. */
bool bench_onnx(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* Sparse flows: decoding by selected pages against decoding by all, scoring against reading memory,
   the upkeep of summaries against a decode step, rows that append quantises against float16. */
bool bench_flow(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* WriteRows: rows to cells in no order against copying them there. */
bool bench_write_rows(const struct spec *spec, const struct scene_setting *setting,
                      struct bench_results *results, struct error *error);

/* Selecting pages by their scores, against a time, with the best kernel of the pack; nothing where
   it has none. */
bool bench_select(const kvmill_pack *pack, struct bench_results *results, struct error *error);

/* A TensorScatter: an update in place against memcpy, and a functional update of caches of 64 MiB
   and 1 GiB against copies. */
bool bench_rows(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* What a call of kvmill_run costs: the spec's update of one row, always to the same slot. */
bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error);

/* A gather of random windows against copying as many bytes. */
bool bench_gather(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error);

/* A scatter of one input against the memory that its updates touch, in place and functional. */
bool bench_scatter(const struct spec *spec, const struct scene_setting *setting,
                   struct bench_results *results, struct error *error);

/* What the machine reads, copies and multiplies with one thread, and with so many; in that much
   memory. */
bool bench_limits(int threads, int64_t bytes, struct bench_results *results, struct error *error);

#endif
