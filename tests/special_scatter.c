/* SPDX-License-Identifier: Apache-2.0 */
#include "special_scatter.h"

#include "common.h"
#include "scatter_scene.h"
#include "walk.h"

/* Three batch entries of the cache that the kernel is for, with `more` slots. */
static void say_scatter(const struct kvmill_kernel *kernel, int64_t more, char words[256]) {
    const struct kvmill_rows_shape *shape = kernel->shape;
    int64_t row = constant_of(kernel, "present_stride.row", 0);
    int64_t capacity = constant_of(kernel, "present_stride.head", 0) / row;
    int64_t rows = shape->rows == KVMILL_ANY ? 5 : shape->rows;
    snprintf(words, 256,
             "axis=2 mode=%s dtype=uint8 past=3,%" PRId64 ",%" PRId64 ",%" PRId64
             " update=3,%" PRId64 ",%" PRId64 ",%" PRId64 " starts=1,0,%" PRId64,
             shape->circular ? "circular" : "linear", shape->heads, capacity + more, row,
             shape->heads, rows, row, shape->circular ? capacity - 1 : capacity - rows);
}

bool special_scatter_is_right(const struct kvmill_kernel *kernel, int64_t more,
                              const kvmill_plan_options *options, struct dice *dice) {
    struct scene scene;
    struct fenced_tensor expected;
    kvmill_plan *plan;
    char words[256];
    say_scatter(kernel, more, words);
    scene_open(&scene, words, dice);
    scene_expect(&scene, &expected);
    bool right = scene_plan(&scene, options, &plan, NULL) == KVMILL_OK;
    if (right) {
        right = scene_run_ways(&scene, plan, &expected, 0, WAYS);
        kvmill_plan_destroy(plan);
    }
    tensor_close(&expected);
    scene_close(&scene);
    return right;
}
