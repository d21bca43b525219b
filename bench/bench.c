/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

typedef bool bench_function(const struct spec *spec, const struct scene_setting *setting,
                            struct bench_results *results, struct error *error);

bool bench_spec(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    static bench_function *const families[OP_FAMILIES] = {
        [OP_TENSOR_SCATTER] = bench_rows, [OP_CACHE_ATTENTION] = bench_attention,
        [OP_CACHE_ATTEND] = bench_attend, [OP_ATTENTION] = bench_onnx,
        [OP_GATHER] = bench_gather,       [OP_SCATTER] = bench_scatter,
        [OP_FLOW] = bench_flow,
    };
    bench_function *bench = families[spec->op->family];
    return bench == NULL || bench(spec, setting, results, error);
}
