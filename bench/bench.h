/* Benchmarks of specs.  Each is compared with the machine's limits, measured in the same run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_BENCH_H
#define KVMILL_BENCH_BENCH_H

#include "bench_results.h"
#include "scene.h"

/* Runs all cases of a spec.  If the spec has no cases, a note on standard error says why. */
bool bench_spec(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* One function for each kind of op.  Cache attention: decoding on a long cache is compared with
   reading memory, prompts with the peak of multiply-adds, and storing with copying. */
bool bench_attention(const struct spec *spec, const struct scene_setting *setting,
                     struct bench_results *results, struct error *error);

/* CacheAttend: 1 token on 4096 and 512 on 512, compared in the same way. */
bool bench_attend(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error);

/* Attention and TensorScatterAttention: 1 token on 4096 and 512 on 512, or the sizes that the spec
   fixes.  Few new tokens are compared with reading memory, many with the peak of multiply-adds. */
bool bench_onnx(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* Sparse flows: decoding by selected pages is compared with decoding by all pages, scoring with
   reading memory, updating summaries with a decode step, and appending quantised rows with
   appending float16 rows. */
bool bench_flow(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* WriteRows: writing rows to cells in random order is compared with copying them to these cells. */
bool bench_write_rows(const struct spec *spec, const struct scene_setting *setting,
                      struct bench_results *results, struct error *error);

/* Selecting pages by their scores, with the pack's best kernel, is compared with a fixed time.
   Adds no result if the pack has no kernel for it. */
bool bench_select(const kvmill_pack *pack, struct bench_results *results, struct error *error);

/* TensorScatter: an update in place is compared with memcpy, and a functional update of caches of
   64 MiB and 1 GiB with copies. */
bool bench_rows(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error);

/* The cost of a call of kvmill_run: the spec's update of one row, always to the same slot. */
bool bench_call(const struct spec *spec, const kvmill_pack *pack, struct bench_results *results,
                struct error *error);

/* A gather of random windows is compared with copying as many bytes. */
bool bench_gather(const struct spec *spec, const struct scene_setting *setting,
                  struct bench_results *results, struct error *error);

/* A scatter with one input, in place and functional, is compared with reading and writing the
   memory that its updates touch. */
bool bench_scatter(const struct spec *spec, const struct scene_setting *setting,
                   struct bench_results *results, struct error *error);

/* The rates at which the machine reads, copies and multiplies, with one thread and with `threads`,
   in `bytes` of memory. */
bool bench_limits(int threads, int64_t bytes, struct bench_results *results, struct error *error);

#endif
