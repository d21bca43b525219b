/* What `kvmill bench` measures, with a race that takes no time and runs that fail on demand.

   SPDX-License-Identifier: Apache-2.0 */
#define kvmill_run run_or_fail
#include "../bench/scene_call.c"
#undef kvmill_run

#include <stdio.h>

#include "../base/timer.h"
#include "../bench/bench.h"
#include "../bench/scene_rows.h"
#include "tap.h"

static int runs_to_fail;

kvmill_status kvmill_run(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                         kvmill_error *error);

kvmill_status run_or_fail(const kvmill_plan *plan, const DLTensor *const *tensors, void *workspace,
                          kvmill_error *error) {
    if (runs_to_fail == 0)
        return kvmill_run(plan, tensors, workspace, error);
    if (error != NULL)
        snprintf(error->message, sizeof error->message, "failed on demand");
    return KVMILL_E_STRIDE;
}

/* Each contender at many slots, the last one included. */
void timer_race(struct contender *contenders, int count, double seconds) {
    (void)seconds;
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < 64; k++)
            contenders[i].run(contenders[i].context, k);
        contenders[i].median = 1;
    }
}

/* ---- Specs ---- */

static struct bench_results results;
static struct error error;

enum { LONGEST_RANK = 20 };

/* past_cache with `slots` and update with `rows` on the axis. */
static bool add_spec(struct spec_list *specs, const char *dtype, int rank, const int64_t *dims,
                     int64_t axis, int64_t rows) {
    struct spec *spec = spec_list_append(specs, &error);
    int64_t update[LONGEST_RANK];
    memcpy(update, dims, (size_t)rank * sizeof *dims);
    update[axis < 0 ? axis + rank : axis] = rows;
    spec->op = kvmill_op_of(OP_TENSOR_SCATTER, 0);
    spec->scatter.op.axis = axis;
    spec->scatter.op.mode = "linear";
    spec->scatter.dtype = kvmill_dtype_by_name(dtype)->dl;
    spec->scatter.past_cache.dtype = spec->scatter.update.dtype = spec->scatter.dtype;
    return spec_set_shape(&spec->scatter.past_cache, dims, rank, &error) &&
           spec_set_shape(&spec->scatter.update, update, rank, &error);
}

/* The number of results; -1 after a failure. */
static int bench(const char *dtype, int rank, const int64_t *dims, int64_t axis, int64_t rows) {
    struct spec_list specs = {0};
    const kvmill_pack pack = {.abi = KVMILL_KERNEL_ABI, .name = "none"};
    results.count = 0;
    const struct scene_setting setting = {.pack = &pack, .threads = 1};
    bool done = add_spec(&specs, dtype, rank, dims, axis, rows) &&
                bench_rows(&specs.items[0], &setting, &results, &error);
    spec_list_free(&specs);
    return done ? results.count : -1;
}

/* ---- Tests ---- */

static void test_nibbles(void) {
    const int64_t open[] = {1, 2, KVMILL_DYNAMIC, 5}, fixed[] = {2, 3, 5, 3};
    ok(bench("int4", 4, open, -2, 3) == 1, "rows of odd nibbles, a cache of any capacity");
    ok(results.items[0].bytes == 2.0 * 15,
       "  two heads of three rows of five nibbles are 15 bytes");
    ok(bench("int4", 4, fixed, -2, 2) == 1, "  of a small capacity");
}

static void test_nothing_to_do(void) {
    const int64_t batch[] = {0, 2, KVMILL_DYNAMIC, 8}, row[] = {1, 2, KVMILL_DYNAMIC, 0};
    const int64_t slots[] = {1, 2, 0, 8}, rows[] = {1, 2, KVMILL_DYNAMIC, 8};
    const int64_t vast[] = {KVMILL_DYNAMIC, INT64_C(1) << 56, 2, 2};
    ok(bench("float16", 4, batch, -2, 1) == 0, "no batch: not timed");
    ok(bench("float16", 4, row, -2, 1) == 0, "rows without elements: not timed");
    ok(bench("float16", 4, slots, -2, 0) == 0, "no slots: not timed");
    ok(bench("float16", 4, rows, -2, 0) == 0, "no rows: not timed");
    ok(bench("float16", 4, vast, -2, 1) == 0, "more elements than can be counted: not timed");
}

static void test_axes(void) {
    const int64_t dims[] = {1, 4, 2, 8};
    int64_t deep[LONGEST_RANK];
    ok(bench("float16", 4, dims, -2, 1) == 3, "decode, axis -2: in place and functional");
    ok(bench("float16", 4, dims, 2, 1) == 3, "axis 2: the same");
    ok(bench("float16", 4, dims, 1, 1) == 3, "axis 1");
    ok(bench("float16", 4, dims, 2, 2) == 1, "prefill: in place alone");
    for (int d = 0; d < LONGEST_RANK; d++)
        deep[d] = d == 5 ? 8 : 1;
    ok(bench("float16", LONGEST_RANK, deep, 5, 1) == 3, "rank %d", LONGEST_RANK);
}

static void test_dims_of_the_update(void) {
    const int64_t past[] = {KVMILL_DYNAMIC, 2, 4, 8}, update[] = {3, 2, 1, 8};
    struct spec_list specs = {0};
    struct run_size size;
    bool done = add_spec(&specs, "float16", 4, past, -2, 1) &&
                spec_set_shape(&specs.items[0].scatter.update, update, 4, &error) &&
                rows_size(&specs.items[0], 64, 1 << 20, &size);
    ok(done && size.batch == 3, "a batch that only the update tells");
    spec_list_free(&specs);
}

static void test_failing_runs(void) {
    const int64_t dims[] = {1, 4, 2, 8};
    runs_to_fail = 1;
    ok(bench("float16", 4, dims, -2, 1) == -1, "a run that fails is a failure");
    ok(strstr(error.text, "failed on demand") != NULL, "  which says why");
    runs_to_fail = 0;
}

int main(void) {
    test_nibbles();
    test_nothing_to_do();
    test_axes();
    test_dims_of_the_update();
    test_failing_runs();
    return done_testing();
}
