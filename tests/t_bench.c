/* What `kvmill bench` measures, with a race that takes no time and runs that fail on demand.

   SPDX-License-Identifier: Apache-2.0 */
#define kvmill_run_on run_or_fail
#include "../bench/scene_call.c"
#undef kvmill_run_on

#include "../base/timer.h"
#include "../bench/bench.h"
#include "../bench/scene_rows.h"
#include "../bench/tune_work.h"
#include "../tune/problem.h"
#include "case_table.h"
#include "common.h"

static int runs_to_fail;

kvmill_status kvmill_run_on(const kvmill_plan *plan, kvmill_pool *pool,
                            const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                            kvmill_error *error);

kvmill_status run_or_fail(const kvmill_plan *plan, kvmill_pool *pool,
                          const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                          kvmill_error *error) {
    if (runs_to_fail == 0)
        return kvmill_run_on(plan, pool, tensors, tensor_count, workspace, error);
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

/* NAME TYPE AXIS ROWS COUNT BYTES DIMS; a dim may be "?", bytes are those of the first result. */
ROWS(bench, 7) {
    int64_t dims[LONGEST_RANK];
    int rank = 0;
    for (char *word = strtok(cells[6], " "); word != NULL; word = strtok(NULL, " "))
        dims[rank++] = *word == '?' ? KVMILL_DYNAMIC : atoll(word);
    int count = bench(cells[1], rank, dims, atoi(cells[2]), atoi(cells[3]));
    ok(count == atoi(cells[4]), "%s: %d of %s results", cells[0], count, cells[4]);
    if (*cells[5] != '\0')
        ok(count > 0 && results.items[0].bytes == atof(cells[5]), "  of %s bytes", cells[5]);
}

TABLE(bench);

TEST(dims_of_the_update) {
    const int64_t past[] = {KVMILL_DYNAMIC, 2, 4, 8}, update[] = {3, 2, 1, 8};
    struct spec_list specs = {0};
    struct run_size size;
    bool done = add_spec(&specs, "float16", 4, past, -2, 1) &&
                spec_set_shape(&specs.items[0].scatter.update, update, 4, &error) &&
                rows_size(&specs.items[0], 64, 1 << 20, &size);
    ok(done && size.batch == 3, "a batch that only the update tells");
    spec_list_free(&specs);
}

TEST(failing_runs) {
    const int64_t dims[] = {1, 4, 2, 8};
    runs_to_fail = 1;
    ok(bench("float16", 4, dims, -2, 1) == -1, "a run that fails is a failure");
    ok(strstr(error.text, "failed on demand") != NULL, "  which says why");
    runs_to_fail = 0;
}

/* A pack can only choose by the size of a call among winners of problems that have sizes. */
TEST(sizes_of_problems) {
    for (const struct tune_problem *problem = tune_problems; problem->words != NULL; problem++) {
        struct kvmill_call_size size;
        ok(problem_parse(problem->words, &size) &&
               (problem->size.batch == 0 || size.batch == problem->size.batch) &&
               (problem->size.positions == 0 || size.positions <= problem->size.positions),
           "a problem with a size: %s", problem->words);
    }
}
