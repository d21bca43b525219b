/* What `kvmill bench` and `kvmill tune` measure: arithmetic of attention, limits, the pool of
   threads; for each op, the sizes of a spec and the work; and that wrong kernels are found.  The
   race here takes no time.

   SPDX-License-Identifier: Apache-2.0 */
#define kvmill_run_on run_or_fail
#include "../bench/scene_call.c"
#undef kvmill_run_on

#include <stdatomic.h>

#include "../base/timer.h"
#include "../bench/attention_work.h"
#include "../bench/bench.h"
#include "../bench/limits.h"
#include "../bench/memory.h"
#include "../bench/scene_onnx.h"
#include "../bench/scene_rows.h"
#include "../bench/tune_work.h"
#include "../tune/problem.h"
#include "common.h"

static struct bench_results results;
static struct error error;

/* ---- Runs that fail on demand, and a race that takes no time ---- */

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

/* A race in which each contender has race_slots slots, and the n-th takes n seconds. */
static int race_slots = 2;

void timer_race(struct contender *contenders, int count, double seconds) {
    (void)seconds;
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < race_slots; k++)
            contenders[i].run(contenders[i].context, k);
        contenders[i].median = i + 1;
    }
}

/* ---- The pool ---- */

static kvmill_pool *pool_of(int threads) {
    kvmill_pool *pool;
    must(bench_pool_open(threads, &pool, &error), error.text);
    return pool;
}

static void count_part(void *context, int64_t index) {
    (void)index;
    atomic_fetch_add((atomic_int *)context, 1);
}

TEST(pool) {
    kvmill_pool *pool = pool_of(3), *none;
    atomic_int count = 0;
    bench_pool_wake(pool);
    kvmill_pool_for(pool, 7, count_part, &count);
    ok(atomic_load(&count) == 7, "a pool that has been woken runs all parts");
    kvmill_pool_destroy(pool);
    ok_failed(bench_pool_open(-1, &none, &error), &error, EXIT_ENVIRONMENT,
              "a pool of threads: ", "threads is -1", "no pool");
}

/* ---- Memory ---- */

/* Whether the VmFlags of the address's mapping ask for huge pages. */
static bool is_advised_huge(const void *address) {
    char line[512];
    uintptr_t begin, end;
    bool inside = false, advised = false;
    FILE *stream = fopen("/proc/self/smaps", "r");
    while (stream != NULL && fgets(line, sizeof line, stream) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            inside = begin <= (uintptr_t)address && (uintptr_t)address < end;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            advised = strstr(line, " hg") != NULL;
    }
    if (stream != NULL)
        fclose(stream);
    return advised;
}

TEST(huge_pages) {
    const int64_t bytes = 4 << 20;
    char *usual = bench_memory_get(bytes), *huge;
    ok(usual != NULL && !is_advised_huge(usual), "memory lies in pages of the usual size");
    if (!bench_memory_use_huge_pages(&error)) {
        ok(strstr(error.text, "this system gives no huge pages: /sys/") != NULL,
           "there are none here, which an error says");
        return;
    }
    huge = bench_memory_get(bytes);
    ok(huge != NULL && is_advised_huge(huge) && huge[bytes - 1] == 0,
       "in huge pages, once they were asked for");
    bench_memory_release(huge, bytes);
    bench_memory_release(usual, bytes);
}

/* ---- Limits ---- */

TEST(limits) {
    static _Alignas(4096) char from[40000], to[40000];
    OWN_POOL kvmill_pool *pool = pool_of(3);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 31 >> 3);
    for (int i = 0; i < COPIES; i++) {
        memset(to, 0, sizeof to);
        kinds_of_copying[i].copy(&(struct copy){to, from, sizeof from, pool});
        ok(memcmp(to, from, sizeof from) == 0, "copy number %d copies all", i);
    }
    for (int i = 0; i < READINGS; i++)
        limit_read(&(struct reading){from, sizeof from, kinds_of_reading[i].streams, pool,
                                     kinds_of_reading[i].fetches, kinds_of_reading[i].narrow});
    ok(limit_multiply_add(PEAK_PLAIN, pool) > 0 &&
           limit_multiply_add(peak_of(NULL), pool) >= limit_multiply_add(PEAK_PLAIN, pool),
       "wider vectors, more multiply-adds");
    ok(peak_of("scalar") == PEAK_PLAIN && peak_of("avx2") <= PEAK_AVX2, "limits have limits");
}

TEST(copy_rows) {
    char from[2 * 3 * 64], to[4 * 2 * 128] = {0};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i + 1);
    limit_copy_rows(&(struct copy_rows){.to = to,
                                        .from = from,
                                        .bytes = 64,
                                        .tokens = 2,
                                        .heads = 3,
                                        .to_token = 512,
                                        .to_head = 128,
                                        .from_token = 192,
                                        .from_head = 64});
    bool same = true;
    for (int t = 0; t < 2; t++)
        for (int h = 0; h < 3; h++)
            same = same && memcmp(to + t * 512 + h * 128, from + t * 192 + h * 64, 64) == 0;
    ok(same && to[64] == 0 && to[127] == 0, "rows are copied, and nothing between them");
}

TEST(all_limits) {
    results.count = 0;
    ok(bench_limits(2, 1 << 20, &results, &error) && results.count == 32,
       "sixteen limits, with one and with two threads");
    ok(results.items[0].bytes == 1 << 18 && results.items[15].flops > 0, "  bytes, and operations");
}

/* ---- Arithmetic ---- */

static double or_else(const char *words, const char *key, double otherwise) {
    double number = number_in(words, key);
    return number != 0 ? number : otherwise;
}

/* Returns the geometry of llama-3.1-8b with the changes in `words`, the format first. */
static struct kvmill_cache_geometry geometry_of(const char *words) {
    static const char *const formats[] = {"float16", "int8", "int4", "q8_0", "q4_0"};
    static const int elements[] = {KVMILL_F16, KVMILL_I8, KVMILL_I4, KVMILL_Q8_0, KVMILL_Q4_0};
    char format[16];
    int group = (int)number_in(words, "group"), dim = (int)or_else(words, "dim", 128);
    sscanf(words, "%15s", format);
    int element = elements[place_of(format, formats, 5)];
    struct kvmill_cache_geometry g = {.causal = strstr(words, " free") == NULL,
                                      .activation = KVMILL_F16,
                                      .heads = (int)or_else(words, "heads", 32),
                                      .kv_heads = (int)or_else(words, "kv_heads", 8),
                                      .window = (int64_t)number_in(words, "window"),
                                      .ratio = 4};
    g.key = g.value = (struct kvmill_format){element, dim, group > 0 ? KVMILL_F16 : 0, group};
    g.math = strstr(words, " fast")   ? KVMILL_MATH_FAST
             : strstr(words, " near") ? KVMILL_MATH_NEAR
                                      : g.math;
    return g;
}

/* Reads sequences, tokens, positions. */
static struct run_size size_of(const char *cell) {
    double of[3];
    numbers_in(cell, 10, of, 3);
    return (struct run_size){(int64_t)of[0], (int64_t)of[1], (int64_t)of[2]};
}

/* NAME GEOMETRY SIZE WHAT NUMBER */
ROWS(arithmetic, 5) {
    static const char *const names[] = {"row bytes", "rows read", "bytes stored", "pairs"};
    const struct kvmill_cache_geometry g = geometry_of(cells[1]);
    const struct run_size size = size_of(cells[2]);
    double row = (double)attention_row_bytes(&g);
    const double have[] = {row, attention_read_bytes(&g, &size) / row,
                           attention_store_bytes(&g, &size),
                           attention_flops(&g, &size) / (2 * 32 * 256)};
    ok(have[place_of(cells[3], names, 4)] == strtod(cells[4], NULL), "%s: %s %s", cells[0],
       cells[4], cells[3]);
}

/* NAME GEOMETRY ISA TOKENS BAR; 0 tokens: decode. */
ROWS(bar, 5) {
    const struct kvmill_cache_geometry g = geometry_of(cells[1]);
    int tokens = atoi(cells[3]);
    double bar = tokens > 0 ? attention_prefill_bar(&g, cells[2], tokens)
                            : attention_decode_bar(&g, cells[2]);
    ok(fabs(bar - strtod(cells[4], NULL)) <= 1e-9, "a bar: %s", cells[0]);
}

TEST(verdicts) {
    struct bench_result r = {.seconds = 2, .limit = "x", .limit_seconds = 1, .bar = 0.5};
    ok(bench_ratio(&r) == 0.5 && strcmp(bench_verdict(&r), "ok") == 0, "a bar that is met");
    r.bar = 0.51;
    ok(strcmp(bench_verdict(&r), "below") == 0, "  that is not");
    r.bar = 0;
    ok(strcmp(bench_verdict(&r), "") == 0, "  that is none");
}

/* ---- Specs ---- */

enum { SMALL_ROTATION = 1 << 20 };

static void open_spec(const char *text, struct spec_list *list) {
    struct json_place place = {.file = "test", .value = json_loads(text, 0, NULL)};
    *list = (struct spec_list){0};
    if (place.value == NULL || !spec_read(&place, list, &error))
        bail_out("%s: %s", text, place.value ? error.text : "no JSON");
    json_decref(place.value);
}

static bool is_worth(const struct spec *spec, const struct run_size *size, double bytes,
                     double flops) {
    static struct scene scene;
    struct scene_call call;
    if (spec_is(spec, OP_ATTENTION) && !onnx_serves(spec, size))
        return bytes == 0 && flops == 0;
    bool done = scene_open(&scene, spec, size, SMALL_ROTATION, false, &error), same = false;
    if (done) {
        scene_call_open(&call, &scene, STEP_RUN, size, NULL, NULL);
        same = scene_call_bytes(&call) == bytes && scene_call_flops(&call) == flops;
        diag("%g bytes, %g operations", scene_call_bytes(&call), scene_call_flops(&call));
    }
    scene_close(&scene);
    return same;
}

/* ROW: name, spec, bytes, operations, rows and pairs of both sizes. */
ROWS(work, 8) {
    static const struct run_size sizes[] = {{1, 1, 4096}, {1, 512, 512}};
    double bytes = strtod(cells[2], NULL), operations = strtod(cells[3], NULL);
    OWN(spec_list_free) struct spec_list list;
    open_spec(cells[1], &list);
    for (int i = 0; i < 2; i++)
        ok(is_worth(list.items, &sizes[i], strtod(cells[4 + 2 * i], NULL) * bytes,
                    strtod(cells[5 + 2 * i], NULL) * operations),
           "%s: %s", cells[0], i ? "512 on 512" : "one token on 4096");
}

/* Returns the number of results, or -1 after a failure. */
static int bench(const char *text, int threads) {
    static const kvmill_pack none = {.abi = KVMILL_KERNEL_ABI, .name = "none"};
    const struct scene_setting setting = {&none, threads, false, SMALL_ROTATION};
    OWN(spec_list_free) struct spec_list list;
    open_spec(text, &list);
    results.count = 0;
    bool done = bench_spec(list.items, &setting, &results, &error);
    if (!done)
        diag("%s", error.text);
    return done ? results.count : -1;
}

/* ROW: name, spec, threads, results, words. */
ROWS(case, 5) {
    if (getenv("KVMILL_TEST_SLOW") != NULL) {
        skip_test("%s: too slow here", cells[0]);
        return;
    }
    int count = bench(cells[1], atoi(cells[2]));
    const struct bench_result *first = results.items;
    const char *words = count > 0 ? first->what : "";
    bool worth = count <= 0 || (first->limit != NULL && first->bytes + first->flops > 0);
    if (!ok(count == atoi(cells[3]) && (cells[4][0] == '\0' || strcmp(words, cells[4]) == 0) &&
                worth,
            "%s", cells[0]))
        diag("%d results: %s", count, words);
}

/* NAME SPEC RESULTS BYTES: a TensorScatter at all slots; bytes are the first result's. */
ROWS(rows, 3) {
    race_slots = 64;
    int count = bench(cells[1], 1);
    race_slots = 2;
    ok(count == atoi(cells[2]), "%s: %d of %s results", cells[0], count, cells[2]);
    if (cells[3] != NULL)
        ok(count > 0 && results.items[0].bytes == atof(cells[3]), "  of %s bytes", cells[3]);
}

TEST(dims_of_the_update) {
    OWN(spec_list_free) struct spec_list list;
    struct run_size size;
    open_spec(
        "{\"op\": \"TensorScatter\", \"dtype\": \"float16\", \"past_cache\": [\"?\", 2, 4, 8], "
        "\"update\": [3, 2, 1, 8]}",
        &list);
    ok(rows_size(list.items, 64, 1 << 20, &size) && size.batch == 3,
       "a batch that only the update tells");
}

#define ROW_OF_TOKENS                                                                              \
    "{\"op\": \"TensorScatter\", \"dtype\": \"float16\", \"past_cache\": [1, 4, 2, 8], "           \
    "\"update\": [1, 4, 1, 8]}"

TEST(failing_runs) {
    runs_to_fail = 1;
    ok(bench(ROW_OF_TOKENS, 1) == -1, "a run that fails is a failure");
    ok(strstr(error.text, "failed on demand") != NULL, "  which says why");
    runs_to_fail = 0;
}

/* The winners of problems have sizes, so that a pack can choose by the size of a call. */
TEST(sizes_of_problems) {
    for (const struct tune_problem *problem = tune_problems; problem->words != NULL; problem++) {
        struct kvmill_call_size size;
        ok(problem_parse(problem->words, &size) &&
               (problem->size.batch == 0 || size.batch == problem->size.batch) &&
               (problem->size.positions == 0 || size.positions <= problem->size.positions),
           "a problem with a size: %s", problem->words);
    }
}

/* ---- The work of results ---- */

/* NAME SPEC RESULTS, and the work of each: "bytes=4096", "operations=512", "bar=0.5". */
ROWS(results, 4) {
    if (getenv("KVMILL_TEST_SLOW") != NULL)
        return;
    int count = bench(cells[1], 1);
    bool right = count == atoi(cells[2]);
    for (int i = 0; right && i < count; i++) {
        const struct bench_result *r = &results.items[i];
        diag("%.0f bytes, %.0f operations, bar %g", r->bytes, r->flops, r->bar);
        right = r->bytes == number_in(cells[3 + i], "bytes") &&
                r->flops == number_in(cells[3 + i], "operations") &&
                r->bar == number_in(cells[3 + i], "bar") && r->limit != NULL;
    }
    ok(right, "%s: what each result has to do", cells[0]);
}

/* ---- Wrong kernels ---- */

/* A kernel for two query heads on a kv head, with keys and values of 32 float16; its outputs are
   zero. */
static void attend_to_nothing(const void *problem, int64_t first, int64_t last) {
    const struct kvmill_attend *attend = problem;
    (void)first, (void)last;
    for (int64_t i = 0; attend->end && attend->partial == NULL && i < attend->rows; i++)
        memset(attend->row[i].output, 0, 64);
    for (int64_t i = 0; attend->partial != NULL && i < attend->rows * 34; i++)
        attend->partial[i] = 1;
}

static const struct kvmill_attend_shape half_attend = {.activation = KVMILL_F16,
                                                       .key = {KVMILL_F16, 32, 0, 0},
                                                       .value = {KVMILL_F16, 32, 0, 0},
                                                       .rows = 2,
                                                       .workspace = 64};
static const struct kvmill_kernel bad_attend = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_ATTEND,
    .symbol = "bad__scalar_attend",
    .isa = "scalar",
    .shape = &half_attend,
    .run = attend_to_nothing,
};

static void write_nothing(const void *problem, int64_t first, int64_t last) {
    (void)problem, (void)first, (void)last;
}

static const struct kvmill_convert_shape half_rows = {KVMILL_F16, {KVMILL_F16, 32, 0, 0}};
static const struct kvmill_kernel bad_write = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_WRITE_ROWS,
    .symbol = "bad__scalar_write",
    .isa = "scalar",
    .shape = &half_rows,
    .run = write_nothing,
};

/* Checks with a pack of only this kernel. */
static bool check(const char *text, const struct kvmill_kernel *kernel, enum scene_step step,
                  struct run_size size) {
    struct one_kernel one;
    one_kernel(&one, kernel);
    one.pack.count = kernel != NULL;
    one.options.threads = 2;
    OWN(spec_list_free) struct spec_list list;
    static struct scene scene;
    struct scene_call call;
    OWN(owned_plan_close) struct owned_plan plan = {0};
    OWN_POOL kvmill_pool *pool = pool_of(2);
    open_spec(text, &list);
    bool right = scene_open(&scene, list.items, &size, SMALL_ROTATION, false, &error) &&
                 scene_plan(&scene, STEP_RUN, &one.options, &plan, &error);
    scene_call_open(&call, &scene, step, &size, &plan, pool);
    right = right && scene_check(&call, &error);
    scene_close(&scene);
    return right;
}

/* NAME SPEC SIZE, attention or rows */
ROWS(checked, 4) {
    const struct run_size size = size_of(cells[2]);
    bool rows = strcmp(cells[3], "rows") == 0;
    enum scene_step step = rows ? STEP_STORE : STEP_RUN;
    const char *words = rows ? "its result differs from the portable kernel's" : "an output is ";
    ok(check(cells[1], NULL, step, size), "%s: %s that is right", cells[0], cells[3]);
    ok(!check(cells[1], rows ? &bad_write : &bad_attend, step, size) &&
           strstr(error.text, words) != NULL,
       "  what is wrong is found: %s", error.text);
}

TABLE(bench_attention);
