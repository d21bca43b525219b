/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>

#include "../base/text.h"

typedef bool bench_function(const struct spec *spec, const struct scene_setting *setting,
                            struct bench_results *results, struct error *error);

bool bench_spec(const struct spec *spec, const struct scene_setting *setting,
                struct bench_results *results, struct error *error) {
    static bench_function *const families[OP_FAMILIES] = {
        [OP_TENSOR_SCATTER] = bench_rows, [OP_CACHE_ATTENTION] = bench_attention,
        [OP_CACHE_ATTEND] = bench_attend, [OP_ATTENTION] = bench_onnx,
        [OP_GATHER] = bench_gather,       [OP_SCATTER] = bench_scatter,
        [OP_FLOW] = bench_flow,           [OP_WRITE_ROWS] = bench_write_rows,
    };
    bench_function *bench = families[spec->op->family];
    if (bench != NULL)
        return bench(spec, setting, results, error);
    print_shown(stderr, "%s: not timed: no bench knows %s\n", spec->where, spec->op->name);
    return true;
}
