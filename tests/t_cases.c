/* The case table of the TensorScatter reference, row by row, and its vectors: what is accepted and
   gives which bytes, what is refused with which status and words, and that a refusal changes no
   byte of any tensor.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <kvmill_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "oracle/tensor_scatter.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const kvmill_plan_options with_packs = {
    .struct_size = sizeof with_packs, .packs = packs, .pack_count = 2};

static const DLDataType float32 = {kDLFloat, 32, 1}, int64 = {kDLInt, 64, 1},
                        int32 = {kDLInt, 32, 1}, uint8 = {kDLUInt, 8, 1}, int4 = {kDLInt, 4, 1};

static struct dice dice;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
enum { TENSORS = KVMILL_TENSOR_SCATTER_TENSORS };

/* ---- A scene: four tensors and how they are handed over ---- */

enum planning { AS_GIVEN, DYNAMIC };
enum kernels { ANY_KERNELS, PORTABLE_ONLY, PACKS_ONLY };

struct scene {
    int64_t axis;
    const char *mode;
    enum planning planning;    /* from the tensors, or from prototypes with all dims open */
    enum kernels kernels;      /* which to try */
    bool planned_with_indices; /* for DYNAMIC */
    struct fenced_tensor tensor[TENSORS];
    const DLTensor *given[TENSORS];
};

static struct fenced_tensor *past_of(struct scene *scene) {
    return &scene->tensor[KVMILL_TENSOR_SCATTER_PAST_CACHE];
}

static struct fenced_tensor *update_of(struct scene *scene) {
    return &scene->tensor[KVMILL_TENSOR_SCATTER_UPDATE];
}

static struct fenced_tensor *indices_of(struct scene *scene) {
    return &scene->tensor[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
}

static struct fenced_tensor *present_of(struct scene *scene) {
    return &scene->tensor[KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
}

static void close_scene(struct scene *scene) {
    for (int i = 0; i < TENSORS; i++)
        tensor_close(&scene->tensor[i]);
}

static void replace(struct scene *scene, int i, DLDataType dtype, int rank, const int64_t *dims,
                    const int64_t *strides) {
    tensor_close(&scene->tensor[i]);
    tensor_open(&scene->tensor[i], dtype, rank, dims, strides, &dice);
    scene->given[i] = &scene->tensor[i].dl;
}

static void set_indices(struct scene *scene, int64_t count, const int64_t *indices) {
    replace(scene, KVMILL_TENSOR_SCATTER_WRITE_INDICES, int64, 1, &count, NULL);
    memcpy(indices_of(scene)->fence.data, indices, (size_t)count * sizeof *indices);
    scene->planned_with_indices = true;
}

/* A functional problem; indices may follow by set_indices. */
static void open_scene(struct scene *scene, const char *mode, DLDataType dtype, int rank,
                       const int64_t *cache_dims, const int64_t *update_dims) {
    *scene = (struct scene){.axis = rank > 2 ? -2 : 1, .mode = mode, .planning = AS_GIVEN};
    replace(scene, KVMILL_TENSOR_SCATTER_PAST_CACHE, dtype, rank, cache_dims, NULL);
    replace(scene, KVMILL_TENSOR_SCATTER_UPDATE, dtype, rank, update_dims, NULL);
    replace(scene, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, dtype, rank, cache_dims, NULL);
}

/* The scene most rows begin with: B 2, H 3, M 5, S 2, I 4, linear, starts 1 and 3. */
static void open_usual(struct scene *scene) {
    open_scene(scene, "linear", float32, 4, DIMS(2, 3, 5, 4), DIMS(2, 3, 2, 4));
    set_indices(scene, 2, DIMS(1, 3));
}

static void make_in_place(struct scene *scene) {
    scene->given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] =
        scene->given[KVMILL_TENSOR_SCATTER_PAST_CACHE];
}

/* ---- Planning it ---- */

static const kvmill_plan_options *options_of(bool use_packs) {
    return use_packs ? &with_packs : NULL;
}

static bool is_tried(const struct scene *scene, int use_packs) {
    return scene->kernels == ANY_KERNELS || (scene->kernels == PACKS_ONLY) == use_packs;
}

static kvmill_status plan_as_given(const struct scene *scene, const kvmill_plan_options *options,
                                   kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op,
        .axis = scene->axis,
        .mode = scene->mode,
        .past_cache = scene->given[KVMILL_TENSOR_SCATTER_PAST_CACHE],
        .update = scene->given[KVMILL_TENSOR_SCATTER_UPDATE],
        .write_indices = scene->given[KVMILL_TENSOR_SCATTER_WRITE_INDICES],
        .present_cache = scene->given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE],
    };
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

/* A plan that leaves all that can go wrong to the run. */
static kvmill_status plan_dynamic(const struct scene *scene, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error) {
    int64_t open[MOST_DIMS];
    for (int d = 0; d < MOST_DIMS; d++)
        open[d] = KVMILL_DYNAMIC;
    const DLTensor *past = &scene->tensor[KVMILL_TENSOR_SCATTER_PAST_CACHE].dl;
    DLTensor cache = {.ndim = past->ndim, .dtype = past->dtype, .shape = open};
    DLTensor indices = {.ndim = 1, .dtype = int64, .shape = open};
    struct scene prototypes = *scene;
    prototypes.given[KVMILL_TENSOR_SCATTER_PAST_CACHE] =
        prototypes.given[KVMILL_TENSOR_SCATTER_UPDATE] = &cache;
    prototypes.given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] = NULL;
    prototypes.given[KVMILL_TENSOR_SCATTER_WRITE_INDICES] =
        scene->planned_with_indices ? &indices : NULL;
    return plan_as_given(&prototypes, options, plan, error);
}

/* ---- Judging ---- */

static bool has_words(const char *message, const char *const *words) {
    for (int i = 0; words != NULL && words[i] != NULL; i++)
        if (strstr(message, words[i]) == NULL) {
            diag("\"%s\" does not say \"%s\"", message, words[i]);
            return false;
        }
    return true;
}

static bool is_status(kvmill_status have, kvmill_status want, const kvmill_error *error,
                      const char *const *words) {
    if (have != want) {
        diag("have %s, want %s: %s", kvmill_status_name(have), kvmill_status_name(want),
             error->message);
        return false;
    }
    if ((*error->message == '\0') != (want == KVMILL_OK)) {
        diag("the message of %s is \"%s\"", kvmill_status_name(have), error->message);
        return false;
    }
    return has_words(error->message, words);
}

struct snapshot {
    unsigned char *bytes[TENSORS];
};

static struct snapshot take_snapshot(const struct scene *scene) {
    struct snapshot snapshot;
    for (int i = 0; i < TENSORS; i++) {
        const struct fence *fence = &scene->tensor[i].fence;
        snapshot.bytes[i] = malloc(fence->size + 1);
        memcpy(snapshot.bytes[i], fence->data ? fence->data : (unsigned char *)"", fence->size);
    }
    return snapshot;
}

static void restore(const struct scene *scene, const struct snapshot *snapshot) {
    for (int i = 0; i < TENSORS; i++)
        if (scene->tensor[i].fence.size > 0)
            memcpy(scene->tensor[i].fence.data, snapshot->bytes[i], scene->tensor[i].fence.size);
}

static void free_snapshot(struct snapshot *snapshot) {
    for (int i = 0; i < TENSORS; i++)
        free(snapshot->bytes[i]);
}

/* Of all tensors, or of all but the one at address `but`. */
static bool is_unchanged(const struct scene *scene, const struct snapshot *snapshot,
                         const struct fenced_tensor *but) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    int64_t where;
    for (int i = 0; i < TENSORS; i++) {
        const struct fence *fence = &scene->tensor[i].fence;
        if (fence->pages != NULL && !fence_is_intact(fence, &where)) {
            diag("byte %" PRId64 " is outside of %s, but was written", where, names[i]);
            return false;
        }
        if (&scene->tensor[i] != but && fence->size > 0 &&
            memcmp(fence->data, snapshot->bytes[i], fence->size) != 0) {
            diag("%s was changed", names[i]);
            return false;
        }
    }
    return true;
}

static const struct fenced_tensor *output_of(const struct scene *scene) {
    bool in_place = scene->given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] ==
                    scene->given[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    return &scene->tensor[in_place ? KVMILL_TENSOR_SCATTER_PAST_CACHE
                                   : KVMILL_TENSOR_SCATTER_PRESENT_CACHE];
}

static void compute_expected(const struct scene *scene, struct fenced_tensor *expected) {
    const struct fenced_tensor *output = output_of(scene);
    int axis = (int)(scene->axis < 0 ? scene->axis + output->dl.ndim : scene->axis);
    bool in_place = output == &scene->tensor[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    tensor_open_copy(expected, output, &dice);
    oracle_tensor_scatter(axis, scene->mode != NULL && strcmp(scene->mode, "circular") == 0,
                          in_place ? &expected->dl : scene->given[KVMILL_TENSOR_SCATTER_PAST_CACHE],
                          scene->given[KVMILL_TENSOR_SCATTER_UPDATE],
                          scene->given[KVMILL_TENSOR_SCATTER_WRITE_INDICES], &expected->dl);
}

static bool is_as_expected(const struct scene *scene, const struct fenced_tensor *expected) {
    int64_t where;
    if (tensor_is_equal(output_of(scene), expected, &where))
        return true;
    diag("byte %" PRId64 " of present_cache: have %02x, want %02x", where,
         output_of(scene)->fence.data[where], expected->fence.data[where]);
    return false;
}

/* ---- Running it in every way there is ---- */

static void backwards(void *data, int64_t parts, void (*part)(void *context, int64_t index),
                      void *context) {
    (void)data;
    while (parts-- > 0)
        part(context, parts);
}

static kvmill_status begin_and_finish(const kvmill_plan *plan, const DLTensor *const *tensors,
                                      kvmill_error *error) {
    kvmill_call call;
    kvmill_status status = kvmill_begin(&call, plan, tensors, NULL, error);
    if (status != KVMILL_OK)
        return status;
    do
        for (int64_t part = 0; part < kvmill_parts(&call); part++)
            kvmill_part(&call, part);
    while (kvmill_next(&call));
    return status;
}

enum { WAYS = 3 };

static kvmill_status run_way(int way, const kvmill_plan *plan, const DLTensor *const *tensors,
                             kvmill_error *error) {
    if (way == 0)
        return kvmill_run(plan, tensors, NULL, error);
    if (way == 1)
        return begin_and_finish(plan, tensors, error);
    return kvmill_run_parallel(plan, tensors, NULL, backwards, NULL, error);
}

struct outcome {
    kvmill_status status;
    const char *const *words;
    const struct fenced_tensor *expected; /* NULL: nothing may change */
};

static bool run_ways(const struct scene *scene, const kvmill_plan *plan,
                     const struct outcome *outcome) {
    struct snapshot snapshot = take_snapshot(scene);
    kvmill_error error;
    bool good = true;
    for (int way = 0; good && way < WAYS; way++) {
        kvmill_status status = run_way(way, plan, scene->given, &error);
        good = is_status(status, outcome->status, &error, outcome->words) &&
               is_unchanged(scene, &snapshot, outcome->expected ? output_of(scene) : NULL) &&
               (outcome->expected == NULL || is_as_expected(scene, outcome->expected)) &&
               run_way(way, plan, scene->given, NULL) == status;
        restore(scene, &snapshot);
    }
    free_snapshot(&snapshot);
    return good;
}

static bool plan_and_run(const struct scene *scene, bool use_packs, const struct outcome *outcome) {
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_status status = (scene->planning == DYNAMIC ? plan_dynamic : plan_as_given)(
        scene, options_of(use_packs), &plan, &error);
    if (!is_status(status, KVMILL_OK, &error, NULL))
        return false;
    bool good = run_ways(scene, plan, outcome);
    kvmill_plan_destroy(plan);
    return good;
}

static bool run_outcome(struct scene *scene, const struct outcome *outcome, const char *name) {
    bool good = true;
    fence_explain_traps(name);
    for (int use_packs = 0; good && use_packs < 2; use_packs++)
        good = !is_tried(scene, use_packs) || plan_and_run(scene, use_packs, outcome);
    close_scene(scene);
    return ok(good, "%s", name);
}

/* The run succeeds and gives what the oracle gives; closes the scene. */
static void runs(struct scene *scene, const char *name) {
    struct fenced_tensor expected;
    compute_expected(scene, &expected);
    run_outcome(scene, &(struct outcome){.status = KVMILL_OK, .expected = &expected}, name);
    tensor_close(&expected);
}

/* The run succeeds and gives these bytes; closes the scene. */
static void gives(struct scene *scene, const void *bytes, const char *name) {
    struct fenced_tensor expected;
    tensor_open_copy(&expected, output_of(scene), &dice);
    memcpy(expected.fence.data, bytes, expected.fence.size);
    run_outcome(scene, &(struct outcome){.status = KVMILL_OK, .expected = &expected}, name);
    tensor_close(&expected);
}

/* The plan succeeds, the run is refused with a message that has these words; closes the scene. */
#define run_fails(scene, status, name, ...)                                                        \
    run_outcome(scene, &(struct outcome){status, (const char *const[]){__VA_ARGS__, NULL}, NULL},  \
                name)

static bool is_plan_refused(const struct scene *scene, bool use_packs, kvmill_status status,
                            const char *const *words) {
    kvmill_plan *plan = (kvmill_plan *)&dice, *none = plan;
    kvmill_error error;
    if (!is_status(plan_as_given(scene, options_of(use_packs), &plan, &error), status, &error,
                   words))
        return false;
    if (plan != NULL)
        diag("the plan is not NULL");
    return plan == NULL && plan_as_given(scene, options_of(use_packs), &none, NULL) == status;
}

static void refuse_plan(struct scene *scene, kvmill_status status, const char *const *words,
                        const char *name) {
    struct snapshot snapshot = take_snapshot(scene);
    ok(is_plan_refused(scene, false, status, words) &&
           is_plan_refused(scene, true, status, words) && is_unchanged(scene, &snapshot, NULL),
       "%s", name);
    free_snapshot(&snapshot);
    close_scene(scene);
}

/* Planning is refused with a message that has these words; closes the scene. */
#define plan_fails(scene, status, name, ...)                                                       \
    refuse_plan(scene, status, (const char *const[]){__VA_ARGS__, NULL}, name)

/* ---- Rows 1 to 7: attributes and shapes ---- */

static void test_axis(void) {
    static const int64_t good[] = {-3, -2, -1, 1, 2, 3};
    static const int64_t bad[] = {0, -4, 4, 5, -5, INT64_MAX, INT64_MIN};
    struct scene scene;
    char name[80], word[40];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        open_scene(&scene, NULL, float32, 4, DIMS(2, 3, 3, 3), DIMS(2, 3, 3, 3));
        scene.axis = good[i];
        int axis = (int)(good[i] + 4) % 4;
        int64_t dims[] = {2, 3, 3, 3};
        dims[axis] = 2;
        replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 4, dims, NULL);
        set_indices(&scene, 2, DIMS(1, 0));
        snprintf(name, sizeof name, "row 1: axis %" PRId64 " of rank 4", good[i]);
        runs(&scene, name);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        open_usual(&scene);
        scene.axis = bad[i];
        snprintf(name, sizeof name, "rows 2 and 3: axis %" PRId64 " of rank 4", bad[i]);
        snprintf(word, sizeof word, "axis is %" PRId64, bad[i]);
        plan_fails(&scene, KVMILL_E_ATTRIBUTE, name, word, "-3 to -1", "1 to 3");
    }
}

static void test_rank(void) {
    struct scene scene;
    char name[80];
    for (int rank = 0; rank < 2; rank++) {
        open_scene(&scene, NULL, float32, rank, DIMS(3), DIMS(3));
        snprintf(name, sizeof name, "row 4: rank %d", rank);
        plan_fails(&scene, KVMILL_E_SHAPE, name, "past_cache has rank", name + strlen(name) - 1);
    }
    for (int rank = 2; rank <= MOST_DIMS; rank++) {
        open_scene(&scene, "circular", float32, rank, DIMS(2, 3, 2, 1, 2, 3, 2, 2),
                   DIMS(2, 2, 2, 1, 2, 3, 2, 2));
        scene.axis = 1;
        set_indices(&scene, 2, DIMS(2, 0));
        snprintf(name, sizeof name, "row 4: rank %d", rank);
        runs(&scene, name);
    }
    open_usual(&scene);
    replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 3, DIMS(2, 3, 2), NULL);
    plan_fails(&scene, KVMILL_E_SHAPE, "row 5: update of another rank", "update", "[2, 3, 2]");
    open_usual(&scene);
    replace(&scene, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, float32, 3, DIMS(2, 3, 5), NULL);
    plan_fails(&scene, KVMILL_E_SHAPE, "row 5: present_cache of another rank", "present_cache");
}

/* The same tensors are refused by a plan made for them, and by a run of a plan that left all dims
   open. */
static void test_misfit(int tensor, DLDataType dtype, int rank, const int64_t *dims,
                        kvmill_status status, const char *word, const char *value,
                        const char *name) {
    struct scene scene;
    open_usual(&scene);
    replace(&scene, tensor, dtype, rank, dims, NULL);
    plan_fails(&scene, status, name, word, value);
    open_usual(&scene);
    replace(&scene, tensor, dtype, rank, dims, NULL);
    scene.planning = DYNAMIC;
    char run_name[128];
    snprintf(run_name, sizeof run_name, "%s, at run time", name);
    run_fails(&scene, status, run_name, word, value);
}

static void test_shapes(void) {
    const int update = KVMILL_TENSOR_SCATTER_UPDATE, present = KVMILL_TENSOR_SCATTER_PRESENT_CACHE;
    test_misfit(update, float32, 3, DIMS(2, 3, 2), KVMILL_E_SHAPE, "update", "[2, 3, 2]",
                "row 5: ranks differ");
    test_misfit(update, float32, 4, DIMS(1, 3, 2, 4), KVMILL_E_SHAPE, "update", "[1, 3, 2, 4]",
                "row 6: another batch");
    test_misfit(update, float32, 4, DIMS(2, 1, 2, 4), KVMILL_E_SHAPE, "update", "[2, 1, 2, 4]",
                "row 6: other heads");
    test_misfit(update, float32, 4, DIMS(2, 3, 2, 3), KVMILL_E_SHAPE, "update", "[2, 3, 2, 3]",
                "row 6: another row");
    test_misfit(present, float32, 4, DIMS(2, 3, 4, 4), KVMILL_E_SHAPE, "present_cache",
                "[2, 3, 4, 4]", "row 6: another capacity of present_cache");
    test_misfit(present, float32, 4, DIMS(3, 3, 5, 4), KVMILL_E_SHAPE, "present_cache",
                "[3, 3, 5, 4]", "row 6: another batch of present_cache");
    test_misfit(update, float32, 4, DIMS(2, 3, 6, 4), KVMILL_E_SHAPE, "update", "6 rows",
                "row 7: more rows than slots");
}

static void test_too_many_rows_circular(void) {
    struct scene scene;
    open_usual(&scene);
    scene.mode = "circular";
    replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 4, DIMS(2, 3, 6, 4), NULL);
    plan_fails(&scene, KVMILL_E_SHAPE, "row 7: more rows than slots, circular", "6 rows", "5");
}

/* A dim that only a prototype may leave open. */
static void test_open_dims_at_run(void) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    char name[80];
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        open_usual(&scene);
        scene.planning = DYNAMIC;
        scene.tensor[i].shape[0] = KVMILL_DYNAMIC;
        snprintf(name, sizeof name, "row 6: a run with an open dim of %s", names[i]);
        run_fails(&scene, KVMILL_E_SHAPE, name, names[i]);
    }
    struct scene scene;
    open_usual(&scene);
    past_of(&scene)->shape[1] = -2;
    plan_fails(&scene, KVMILL_E_SHAPE, "row 6: a dim of -2", "past_cache", "-2");
}

/* A plan for other dims than the run's. */
static void test_planned_dims(void) {
    struct scene scene;
    kvmill_plan *plan;
    kvmill_error error;
    open_usual(&scene);
    bool good = plan_as_given(&scene, &with_packs, &plan, &error) == KVMILL_OK;
    close_scene(&scene);
    open_scene(&scene, "linear", float32, 4, DIMS(2, 3, 7, 4), DIMS(2, 3, 2, 4));
    set_indices(&scene, 2, DIMS(0, 0));
    struct outcome outcome = {
        KVMILL_E_SHAPE, (const char *const[]){"past_cache", "[2, 3, 7, 4]", "[2, 3, 5, 4]", NULL},
        NULL};
    ok(good && run_ways(&scene, plan, &outcome), "row 6: past_cache is not what was planned");
    close_scene(&scene);
    open_scene(&scene, "linear", float32, 4, DIMS(2, 3, 5, 4), DIMS(2, 3, 1, 4));
    set_indices(&scene, 2, DIMS(0, 0));
    outcome.words = (const char *const[]){"update", "[2, 3, 1, 4]", "[2, 3, 2, 4]", NULL};
    ok(good && run_ways(&scene, plan, &outcome), "row 6: update is not what was planned");
    kvmill_plan_destroy(plan);
    close_scene(&scene);
}

/* ---- Rows 8 to 14 and 19: starts ---- */

struct starts_case {
    const char *name, *mode;
    int64_t rows, first, last; /* starts of a batch of 2 */
    kvmill_status status;
    const char *word;
};

/* Capacity 4. */
static const struct starts_case starts_cases[] = {
    {"row 8: no rows, start 0", "linear", 0, 0, 0, KVMILL_OK, NULL},
    {"row 8: no rows, start M + 1", "linear", 0, 0, 5, KVMILL_E_INDEX_RANGE,
     "write_indices[1] is 5"},
    {"row 8: no rows, start -1", "linear", 0, -1, 0, KVMILL_E_INDEX_NEGATIVE,
     "write_indices[0] is -1"},
    {"row 8: no rows, start M + 1, circular", "circular", 0, 5, 0, KVMILL_OK, NULL},
    {"row 8: no rows, start -1, circular", "circular", 0, 0, -1, KVMILL_E_INDEX_NEGATIVE,
     "write_indices[1] is -1"},
    {"row 9: start M - S", "linear", 3, 1, 0, KVMILL_OK, NULL},
    {"row 9: start M - S + 1", "linear", 3, 2, 0, KVMILL_E_INDEX_RANGE, "write_indices[0] is 2"},
    {"row 9: start INT64_MAX", "linear", 3, 0, INT64_MAX, KVMILL_E_INDEX_RANGE,
     "write_indices[1] is 9223372036854775807"},
    {"row 9: S = M, start 0", "linear", 4, 0, 0, KVMILL_OK, NULL},
    {"row 9: S = M, start 1", "linear", 4, 0, 1, KVMILL_E_INDEX_RANGE, "write_indices[1] is 1"},
    {"row 10: no rows, start M", "linear", 0, 4, 4, KVMILL_OK, NULL},
    {"row 11: start -1", "linear", 1, -1, 0, KVMILL_E_INDEX_NEGATIVE, "write_indices[0] is -1"},
    {"row 11: start INT64_MIN", "linear", 1, 0, INT64_MIN, KVMILL_E_INDEX_NEGATIVE,
     "write_indices[1] is -9223372036854775808"},
    {"row 12: start M and M + 1, circular", "circular", 2, 4, 5, KVMILL_OK, NULL},
    {"row 12: start 3M - 1, circular", "circular", 2, 11, 3, KVMILL_OK, NULL},
    {"row 12: S = M, start above 0, circular", "circular", 4, 3, 1, KVMILL_OK, NULL},
    {"row 13: start -1, circular", "circular", 1, 0, -1, KVMILL_E_INDEX_NEGATIVE,
     "write_indices[1] is -1"},
    {"row 13: start INT64_MIN, circular", "circular", 1, INT64_MIN, 0, KVMILL_E_INDEX_NEGATIVE,
     "write_indices[0] is -9223372036854775808"},
    {"row 19: start INT64_MAX, circular", "circular", 2, INT64_MAX, INT64_MAX - 1, KVMILL_OK, NULL},
    {"row 19: S = M, start INT64_MAX, circular", "circular", 4, INT64_MAX, INT64_MAX - 2, KVMILL_OK,
     NULL},
};

static void test_starts_case(const struct starts_case *starts, bool in_place) {
    struct scene scene;
    char name[96];
    open_scene(&scene, starts->mode, float32, 4, DIMS(2, 3, 4, 5), DIMS(2, 3, starts->rows, 5));
    set_indices(&scene, 2, DIMS(starts->first, starts->last));
    if (in_place)
        make_in_place(&scene);
    snprintf(name, sizeof name, "%s%s", starts->name, in_place ? ", in place" : "");
    if (starts->status == KVMILL_OK)
        runs(&scene, name);
    else
        run_fails(&scene, starts->status, name, starts->word, "accepted: 0 to");
}

static void test_starts(void) {
    for (size_t i = 0; i < sizeof starts_cases / sizeof *starts_cases; i++)
        for (int in_place = 0; in_place < 2; in_place++)
            test_starts_case(&starts_cases[i], in_place);
}

static void test_absent_indices(void) {
    struct scene scene;
    for (int64_t rows = 0; rows <= 4; rows += 2) {
        open_scene(&scene, rows ? "linear" : "circular", float32, 3, DIMS(3, 4, 5),
                   DIMS(3, rows, 5));
        runs(&scene, "row 14: no indices");
    }
    open_usual(&scene);
    scene.planning = DYNAMIC;
    scene.planned_with_indices = false;
    run_fails(&scene, KVMILL_E_SHAPE, "row 14: planned without indices, run with", "write_indices");
    open_usual(&scene);
    scene.planning = DYNAMIC;
    scene.given[KVMILL_TENSOR_SCATTER_WRITE_INDICES] = NULL;
    run_fails(&scene, KVMILL_E_SHAPE, "row 14: planned with indices, run without", "write_indices");
}

/* ---- Rows 15 and 16: the indices themselves ---- */

static void test_indices(void) {
    const int indices = KVMILL_TENSOR_SCATTER_WRITE_INDICES;
    test_misfit(indices, int32, 1, DIMS(2), KVMILL_E_DTYPE, "write_indices", "int32",
                "row 15: int32 indices");
    test_misfit(indices, (DLDataType){kDLUInt, 64, 1}, 1, DIMS(2), KVMILL_E_DTYPE, "write_indices",
                "uint64", "row 15: uint64 indices");
    test_misfit(indices, int64, 0, DIMS(0), KVMILL_E_SHAPE, "write_indices", "[]",
                "row 16: a scalar");
    test_misfit(indices, int64, 2, DIMS(2, 1), KVMILL_E_SHAPE, "write_indices", "[2, 1]",
                "row 16: [B, 1]");
    test_misfit(indices, int64, 1, DIMS(3), KVMILL_E_SHAPE, "write_indices", "[3]",
                "row 16: longer than the batch");
    test_misfit(indices, int64, 1, DIMS(1), KVMILL_E_SHAPE, "write_indices", "[1]",
                "row 16: shorter than the batch");
}

/* ---- Rows 17 and 18: nothing to do ---- */

static void test_nothing_in(int rank, const int64_t *cache, const int64_t *update,
                            const char *what) {
    struct scene scene;
    char name[96];
    for (int i = 0; i < 4; i++) {
        open_scene(&scene, i & 1 ? "circular" : "linear", float32, rank, cache, update);
        if (i & 2)
            set_indices(&scene, cache[0], DIMS(0, 0, 0));
        scene.planning = i & 1 ? DYNAMIC : AS_GIVEN;
        past_of(&scene)->dl.data = update_of(&scene)->dl.data = present_of(&scene)->dl.data = NULL;
        if (cache[0] == 0)
            indices_of(&scene)->dl.data = NULL;
        snprintf(name, sizeof name, "rows 17, 18 and 28: %s, data NULL%s%s", what,
                 i & 1 ? ", circular" : "", i & 2 ? ", indices" : "");
        runs(&scene, name);
    }
}

static void test_nothing(void) {
    struct scene scene;
    test_nothing_in(4, DIMS(0, 2, 3, 4), DIMS(0, 2, 1, 4), "batch 0");
    test_nothing_in(4, DIMS(2, 0, 3, 4), DIMS(2, 0, 1, 4), "0 heads");
    test_nothing_in(4, DIMS(2, 2, 3, 0), DIMS(2, 2, 1, 0), "rows of 0");
    test_nothing_in(4, DIMS(2, 2, 0, 4), DIMS(2, 2, 0, 4), "capacity 0");
    test_nothing_in(2, DIMS(3, 0), DIMS(3, 0), "capacity 0 of rank 2");
    open_scene(&scene, "circular", float32, 4, DIMS(2, 2, 0, 4), DIMS(2, 2, 0, 4));
    set_indices(&scene, 2, DIMS(7, INT64_MAX));
    runs(&scene, "row 18: capacity 0, circular, any start");
    open_scene(&scene, "linear", float32, 4, DIMS(2, 2, 0, 4), DIMS(2, 2, 0, 4));
    set_indices(&scene, 2, DIMS(0, 1));
    run_fails(&scene, KVMILL_E_INDEX_RANGE, "row 18: capacity 0, linear, start 1",
              "write_indices[1] is 1");
    open_scene(&scene, "circular", float32, 4, DIMS(2, 2, 0, 4), DIMS(2, 2, 0, 4));
    set_indices(&scene, 2, DIMS(-1, 0));
    run_fails(&scene, KVMILL_E_INDEX_NEGATIVE, "row 18: capacity 0, circular, start -1",
              "write_indices[0] is -1");
    open_scene(&scene, "linear", int4, 3, DIMS(2, 7, 0), DIMS(2, 1, 0));
    set_indices(&scene, 2, DIMS(0, 1));
    update_of(&scene)->dl.strides = update_of(&scene)->strides;
    memcpy(update_of(&scene)->strides, DIMS(1, 1, 1), 3 * sizeof(int64_t));
    runs(&scene, "row 17: an empty 4-bit tensor with strides as NumPy gives them");
    open_scene(&scene, "linear", float32, 3, DIMS(0, 7, 4), DIMS(0, 1, 4));
    present_of(&scene)->dl.strides = present_of(&scene)->strides;
    memcpy(present_of(&scene)->strides, DIMS(0, 0, 0), 3 * sizeof(int64_t));
    runs(&scene, "row 17: an empty present_cache with strides of 0");
}

/* ---- Rows 20 to 23: words and types ---- */

static void test_mode(void) {
    static const char *const bad[] = {"Linear", "CIRCULAR", "", "ring", "linear "};
    struct scene scene;
    char name[64];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        open_usual(&scene);
        scene.mode = bad[i];
        snprintf(name, sizeof name, "row 20: mode is \"%s\"", bad[i]);
        plan_fails(&scene, KVMILL_E_ATTRIBUTE, name, name + 8, "\"linear\"", "\"circular\"");
    }
    open_usual(&scene);
    scene.mode = NULL;
    runs(&scene, "row 20: no mode is linear");
}

static void test_types(void) {
    test_misfit(KVMILL_TENSOR_SCATTER_UPDATE, int32, 4, DIMS(2, 3, 2, 4), KVMILL_E_DTYPE, "update",
                "int32", "row 21: update of another type");
    test_misfit(KVMILL_TENSOR_SCATTER_PRESENT_CACHE, int32, 4, DIMS(2, 3, 5, 4), KVMILL_E_DTYPE,
                "present_cache", "int32", "row 21: present_cache of another type");
    static const DLDataType unknown[] = {{kDLInt, 2, 1}, {kDLUInt, 2, 1}, {kDLFloat, 32, 2},
                                         {99, 8, 1},     {kDLInt, 0, 1},  {kDLInt, 8, 0}};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct scene scene;
        char name[96];
        open_usual(&scene);
        past_of(&scene)->dl.dtype = update_of(&scene)->dl.dtype = present_of(&scene)->dl.dtype =
            unknown[i];
        snprintf(name, sizeof name, "rows 22 and 23: type code %d, %d bits, %d lanes",
                 unknown[i].code, unknown[i].bits, unknown[i].lanes);
        plan_fails(&scene, KVMILL_E_DTYPE, name, "past_cache", "TensorScatter-24");
    }
}

static void test_planned_type(void) {
    struct scene scene, other;
    kvmill_plan *plan = NULL;
    kvmill_error error;
    open_usual(&scene);
    bool good = plan_as_given(&scene, NULL, &plan, &error) == KVMILL_OK;
    open_scene(&other, NULL, int32, 4, DIMS(2, 3, 5, 4), DIMS(2, 3, 2, 4));
    set_indices(&other, 2, DIMS(0, 0));
    struct outcome outcome = {KVMILL_E_DTYPE, (const char *const[]){"int32", "float32", NULL},
                              NULL};
    ok(good && run_ways(&other, plan, &outcome), "row 21: a type the plan was not made for");
    kvmill_plan_destroy(plan);
    close_scene(&scene);
    close_scene(&other);
}

static void test_bits_survive(void) {
    static const uint32_t bits[] = {0x7fa00001, 0xffc12345, 0x80000000, 0x00000001,
                                    0x7f800000, 0x7fc00000, 0x807fffff, 0xffffffff};
    struct scene scene;
    open_scene(&scene, "linear", float32, 3, DIMS(1, 3, 4), DIMS(1, 1, 4));
    set_indices(&scene, 1, DIMS(1));
    memcpy(past_of(&scene)->fence.data, bits, 32);
    memcpy(update_of(&scene)->fence.data, bits + 4, 16);
    memcpy(past_of(&scene)->fence.data + 32, bits, 16);
    uint32_t want[12];
    memcpy(want, bits, 32);
    memcpy(want + 8, bits, 16);
    gives(&scene, want, "section 1: NaN payloads, -0 and denormals survive");
}

/* ---- Row 24 and section 3: four bits ---- */

static void open_nibbles(struct scene *scene) {
    static const unsigned char past[] = {0x21, 0x43, 0x65, 0x87, 0x09}, update[] = {0xef, 0x0d};
    open_scene(scene, "linear", int4, 3, DIMS(1, 3, 3), DIMS(1, 1, 3));
    set_indices(scene, 1, DIMS(1));
    memcpy(past_of(scene)->fence.data, past, sizeof past);
    memcpy(update_of(scene)->fence.data, update, sizeof update);
}

static void test_nibbles(void) {
    static const unsigned char want[] = {0x21, 0xf3, 0xde, 0x87, 0x09};
    static const unsigned char want_pad[] = {0x21, 0xf3, 0xde, 0x87, 0x59};
    struct scene scene;
    open_nibbles(&scene);
    gives(&scene, want, "section 3: the int4 example");
    open_nibbles(&scene);
    make_in_place(&scene);
    gives(&scene, want, "section 3: the int4 example, in place");
    open_nibbles(&scene);
    past_of(&scene)->fence.data[4] = 0x59;
    gives(&scene, want, "section 3: the pad of a fresh output is 0");
    open_nibbles(&scene);
    past_of(&scene)->fence.data[4] = 0x59;
    make_in_place(&scene);
    gives(&scene, want_pad, "section 3: the pad survives in place");
}

/* So few nibbles that their bytes are easily rounded away. */
static void test_few_nibbles(void) {
    struct scene scene;
    char name[80];
    for (int64_t capacity = 1; capacity <= 4; capacity++)
        for (int in_place = 0; in_place < 2; in_place++) {
            open_scene(&scene, "linear", int4, 3, DIMS(1, capacity, 1), DIMS(1, 1, 1));
            set_indices(&scene, 1, DIMS(capacity - 1));
            if (in_place)
                make_in_place(&scene);
            snprintf(name, sizeof name, "row 24: one nibble into a cache of %" PRId64 "%s",
                     capacity, in_place ? ", in place" : "");
            runs(&scene, name);
        }
}

/* ---- Rows 25 and 26: overlaps ---- */

static void move_into(struct fenced_tensor *tensor, const struct fenced_tensor *host,
                      int64_t offset) {
    tensor->dl.data = host->fence.data + offset;
    tensor->dl.byte_offset = 0;
}

static void test_in_place(void) {
    struct scene scene;
    open_usual(&scene);
    make_in_place(&scene);
    runs(&scene, "row 25: in place");
    open_usual(&scene);
    DLTensor same = past_of(&scene)->dl;
    same.data = (unsigned char *)same.data - 8;
    same.byte_offset += 8;
    same.strides = (int64_t[]){60, 20, 4, 1};
    struct fenced_tensor expected;
    make_in_place(&scene);
    compute_expected(&scene, &expected);
    struct scene other = scene;
    kvmill_plan *plan = NULL;
    kvmill_error error;
    bool good = plan_as_given(&scene, &with_packs, &plan, &error) == KVMILL_OK;
    other.given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] = &same;
    good = good && run_way(0, plan, other.given, &error) == KVMILL_OK &&
           is_as_expected(&scene, &expected);
    ok(good, "row 25: in place, the same memory in other words");
    kvmill_plan_destroy(plan);
    tensor_close(&expected);
    close_scene(&scene);
}

/* present_cache begins `offset` bytes behind the begin of past_cache's buffer. */
static void test_partial_overlap(int64_t offset, bool shifted_past) {
    struct scene scene;
    char name[80];
    open_usual(&scene);
    replace(&scene, KVMILL_TENSOR_SCATTER_PAST_CACHE, uint8, 1, DIMS(1200), NULL);
    struct fenced_tensor *past = past_of(&scene);
    past->dl = update_of(&scene)->dl;
    memcpy(past->shape, DIMS(2, 3, 5, 4), 4 * sizeof(int64_t));
    past->dl.shape = past->shape;
    move_into(shifted_past ? past : present_of(&scene), past, offset);
    move_into(shifted_past ? present_of(&scene) : past, past, 0);
    snprintf(name, sizeof name, "row 26: %s begins %" PRId64 " bytes behind the other",
             shifted_past ? "past_cache" : "present_cache", offset);
    run_fails(&scene, KVMILL_E_ALIAS, name, "past_cache overlaps present_cache");
}

/* The first (or last) byte of a tensor is the last (or first) byte of present_cache. */
static void test_input_overlap(int input, int64_t offset, const char *words, bool in_place) {
    struct scene scene;
    char name[96];
    open_usual(&scene);
    if (in_place)
        make_in_place(&scene);
    move_into(&scene.tensor[input], output_of(&scene), offset);
    snprintf(name, sizeof name, "row 26: %s at byte %" PRId64 "%s", words, offset,
             in_place ? ", in place" : "");
    run_fails(&scene, KVMILL_E_ALIAS, name, words);
}

static void test_same_begin_other_strides(void) {
    struct scene scene;
    open_usual(&scene);
    replace(&scene, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, float32, 4, DIMS(2, 3, 5, 4),
            DIMS(60, 4, 12, 1));
    move_into(present_of(&scene), past_of(&scene), 0);
    run_fails(&scene, KVMILL_E_ALIAS, "row 25: the same memory, other strides",
              "past_cache overlaps present_cache", "strides");
}

static void test_overlaps(void) {
    static const int64_t offsets[] = {1, 4, 16, 80, 240, 479};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        test_partial_overlap(offsets[i], false);
        test_partial_overlap(offsets[i], true);
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        test_input_overlap(KVMILL_TENSOR_SCATTER_UPDATE, 0, "update overlaps present_cache",
                           in_place);
        test_input_overlap(KVMILL_TENSOR_SCATTER_UPDATE, 479, "update overlaps present_cache",
                           in_place);
        test_input_overlap(KVMILL_TENSOR_SCATTER_UPDATE, -191, "update overlaps present_cache",
                           in_place);
        test_input_overlap(KVMILL_TENSOR_SCATTER_WRITE_INDICES, 100,
                           "write_indices overlaps present_cache", in_place);
        test_input_overlap(KVMILL_TENSOR_SCATTER_WRITE_INDICES, 479,
                           "write_indices overlaps present_cache", in_place);
        test_input_overlap(KVMILL_TENSOR_SCATTER_WRITE_INDICES, -15,
                           "write_indices overlaps present_cache", in_place);
    }
    test_same_begin_other_strides();
}

/* All four in one piece of memory, in this order and without a gap. */
static void test_neighbours(int first, int second, int third, int fourth) {
    const int order[] = {first, second, third, fourth};
    struct scene scene;
    struct fenced_tensor pool, expected;
    kvmill_plan *plan = NULL;
    int64_t at = 0;
    open_usual(&scene);
    compute_expected(&scene, &expected);
    tensor_open(&pool, uint8, 1, DIMS(480 + 480 + 192 + 16), NULL, &dice);
    for (int i = 0; i < TENSORS; i++) {
        const struct fence *own = &scene.tensor[order[i]].fence;
        memcpy(pool.fence.data + at, own->data, own->size);
        move_into(&scene.tensor[order[i]], &pool, at);
        at += (int64_t)own->size;
    }
    bool good = plan_as_given(&scene, &with_packs, &plan, NULL) == KVMILL_OK &&
                run_way(0, plan, scene.given, NULL) == KVMILL_OK &&
                memcmp(present_of(&scene)->dl.data, expected.fence.data, 480) == 0;
    ok(good, "row 26: neighbours that touch do not overlap, order %d%d%d%d", first, second, third,
       fourth);
    kvmill_plan_destroy(plan);
    tensor_close(&pool);
    tensor_close(&expected);
    close_scene(&scene);
}

static void test_all_neighbours(void) {
    test_neighbours(KVMILL_TENSOR_SCATTER_PAST_CACHE, KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
                    KVMILL_TENSOR_SCATTER_UPDATE, KVMILL_TENSOR_SCATTER_WRITE_INDICES);
    test_neighbours(KVMILL_TENSOR_SCATTER_UPDATE, KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
                    KVMILL_TENSOR_SCATTER_PAST_CACHE, KVMILL_TENSOR_SCATTER_WRITE_INDICES);
    test_neighbours(KVMILL_TENSOR_SCATTER_PAST_CACHE, KVMILL_TENSOR_SCATTER_WRITE_INDICES,
                    KVMILL_TENSOR_SCATTER_PRESENT_CACHE, KVMILL_TENSOR_SCATTER_UPDATE);
    test_neighbours(KVMILL_TENSOR_SCATTER_UPDATE, KVMILL_TENSOR_SCATTER_PAST_CACHE,
                    KVMILL_TENSOR_SCATTER_PRESENT_CACHE, KVMILL_TENSOR_SCATTER_WRITE_INDICES);
}

static void test_empty_inside(void) {
    struct scene scene;
    open_scene(&scene, "linear", float32, 3, DIMS(2, 5, 4), DIMS(2, 0, 4));
    make_in_place(&scene);
    move_into(update_of(&scene), past_of(&scene), 16);
    runs(&scene, "rows 8 and 26: an update without elements overlaps nothing");
}

static void test_overlapping_inputs(void) {
    struct scene scene;
    open_usual(&scene);
    move_into(update_of(&scene), past_of(&scene), 32);
    runs(&scene, "row 26: update may be a view of past_cache when not in place");
}

/* ---- Rows 27 and 28 ---- */

static void test_atomicity(void) {
    struct scene scene;
    for (int in_place = 0; in_place < 2; in_place++) {
        open_scene(&scene, "linear", float32, 4, DIMS(9, 2, 6, 3), DIMS(9, 2, 2, 3));
        set_indices(&scene, 9, DIMS(0, 1, 2, 3, 4, 0, 1, 2, 5));
        if (in_place)
            make_in_place(&scene);
        run_fails(&scene, KVMILL_E_INDEX_RANGE,
                  in_place ? "row 27: the last start is wrong, in place"
                           : "row 27: the last start is wrong",
                  "write_indices[8] is 5", "0 to 4");
    }
}

static void test_null_data(void) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    static const char *const counts[] = {"120", "48", "2", "120"};
    char name[64];
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        open_usual(&scene);
        scene.tensor[i].dl.data = NULL;
        snprintf(name, sizeof name, "row 28: the data of %s is NULL", names[i]);
        run_fails(&scene, KVMILL_E_NULL, name, names[i], counts[i]);
    }
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        if (i == KVMILL_TENSOR_SCATTER_WRITE_INDICES)
            continue;
        open_usual(&scene);
        scene.planning = DYNAMIC;
        scene.given[i] = NULL;
        snprintf(name, sizeof name, "row 28: %s is NULL", names[i]);
        run_fails(&scene, KVMILL_E_NULL, name, names[i]);
    }
}

static void test_misalignment(void) {
    struct fenced_tensor pool;
    struct scene scene;
    kvmill_plan *plan = NULL;
    bool good = true;
    open_usual(&scene);
    tensor_open(&pool, uint8, 1, DIMS(1200), NULL, &dice);
    good = plan_as_given(&scene, &with_packs, &plan, NULL) == KVMILL_OK;
    for (int64_t offset = 0; good && offset < 64; offset++) {
        struct fenced_tensor expected;
        compute_expected(&scene, &expected);
        struct scene moved = scene;
        DLTensor present = present_of(&scene)->dl;
        present.data = pool.fence.data + offset;
        moved.given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] = &present;
        good = run_way(0, plan, moved.given, NULL) == KVMILL_OK &&
               memcmp(pool.fence.data + offset, expected.fence.data, 480) == 0;
        tensor_close(&expected);
    }
    ok(good, "row 28: present_cache at any address");
    kvmill_plan_destroy(plan);
    tensor_close(&pool);
    close_scene(&scene);
}

/* ---- Section 5: what the table does not say ---- */

static void test_null_arguments(void) {
    struct scene scene;
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_call call;
    open_usual(&scene);
    kvmill_tensor_scatter op = {.struct_size = sizeof op};
    const char *const no_op[] = {"op", NULL}, *const no_plan[] = {"plan", NULL};
    ok(is_status(kvmill_plan_tensor_scatter(NULL, NULL, &plan, &error), KVMILL_E_NULL, &error,
                 no_op),
       "NULL op");
    ok(is_status(kvmill_plan_tensor_scatter(&op, NULL, NULL, &error), KVMILL_E_NULL, &error,
                 no_plan),
       "NULL plan to be made");
    ok(is_status(kvmill_run(NULL, scene.given, NULL, &error), KVMILL_E_NULL, &error, no_plan),
       "NULL plan to be run");
    ok(is_status(kvmill_begin(&call, NULL, scene.given, NULL, &error), KVMILL_E_NULL, &error,
                 no_plan),
       "NULL plan to begin");
    bool good = plan_as_given(&scene, NULL, &plan, NULL) == KVMILL_OK;
    const char *const no_tensors[] = {"tensors", NULL}, *const no_call[] = {"call", NULL};
    const char *const no_loop[] = {"parallel_for", NULL};
    ok(good && is_status(kvmill_run(plan, NULL, NULL, &error), KVMILL_E_NULL, &error, no_tensors),
       "NULL tensors");
    ok(good && is_status(kvmill_begin(NULL, plan, scene.given, NULL, &error), KVMILL_E_NULL, &error,
                         no_call),
       "NULL call");
    ok(good && is_status(kvmill_run_parallel(plan, scene.given, NULL, NULL, NULL, &error),
                         KVMILL_E_NULL, &error, no_loop),
       "NULL parallel loop");
    kvmill_plan_destroy(plan);
    kvmill_plan_destroy(NULL);
    close_scene(&scene);
    open_usual(&scene);
    scene.given[KVMILL_TENSOR_SCATTER_PAST_CACHE] = NULL;
    plan_fails(&scene, KVMILL_E_NULL, "NULL past_cache to plan for", "past_cache");
    open_usual(&scene);
    scene.given[KVMILL_TENSOR_SCATTER_UPDATE] = NULL;
    plan_fails(&scene, KVMILL_E_NULL, "NULL update to plan for", "update");
}

static void test_device_in_place(void) {
    struct scene scene;
    open_usual(&scene);
    DLTensor elsewhere = past_of(&scene)->dl;
    elsewhere.device.device_type = kDLCUDA;
    scene.given[KVMILL_TENSOR_SCATTER_PRESENT_CACHE] = &elsewhere;
    run_fails(&scene, KVMILL_E_DEVICE, "the same address on another device", "present_cache");
}

static void test_devices(void) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    char name[64];
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        open_usual(&scene);
        scene.tensor[i].dl.device.device_type = kDLCUDA;
        snprintf(name, sizeof name, "%s on another device", names[i]);
        run_fails(&scene, KVMILL_E_DEVICE, name, names[i], "device type 2");
    }
}

static void test_struct_sizes(void) {
    struct scene scene;
    kvmill_plan *plan;
    kvmill_error error;
    open_usual(&scene);
    kvmill_tensor_scatter op = {.axis = 2,
                                .past_cache = scene.given[KVMILL_TENSOR_SCATTER_PAST_CACHE],
                                .update = scene.given[KVMILL_TENSOR_SCATTER_UPDATE]};
    ok(is_status(kvmill_plan_tensor_scatter(&op, NULL, &plan, &error), KVMILL_E_ATTRIBUTE, &error,
                 (const char *const[]){"op.struct_size is 0", NULL}),
       "struct_size 0 of the op");
    op.struct_size = sizeof op;
    kvmill_plan_options options = {.packs = packs, .pack_count = 2};
    ok(is_status(kvmill_plan_tensor_scatter(&op, &options, &plan, &error), KVMILL_E_ATTRIBUTE,
                 &error, (const char *const[]){"options.struct_size is 0", NULL}),
       "struct_size 0 of the options");
    close_scene(&scene);
}

static void test_pack_refused(const kvmill_pack *const *list, size_t count, kvmill_status status,
                              const char *word, const char *name) {
    struct scene scene;
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = list, .pack_count = count};
    open_usual(&scene);
    ok(is_status(plan_as_given(&scene, &options, &plan, &error), status, &error,
                 (const char *const[]){word, NULL}) &&
           plan == NULL,
       "%s", name);
    close_scene(&scene);
}

static void test_packs(void) {
    kvmill_pack strange = kvmill_pack_kvmill_test;
    strange.abi = 999;
    const kvmill_pack *const list[] = {&kvmill_pack_kvmill_test, &strange, NULL};
    test_pack_refused(list, 2, KVMILL_E_PACK, "999", "a pack of another ABI");
    test_pack_refused(list + 1, 1, KVMILL_E_PACK, "options.packs[0]", "a pack of another ABI alone");
    strange.abi = 3;
    strange.name = "old";
    test_pack_refused(list + 1, 1, KVMILL_E_PACK,
                      "options.packs[0], old, has kernel ABI 3 of kvmill 0.1; libkvmill "
                      KVMILL_VERSION " takes 4 to ",
                      "a pack of version 0.1, by its name and both versions");
    test_pack_refused(list + 2, 1, KVMILL_E_NULL, "packs[0]", "a pack that is NULL");
    test_pack_refused(NULL, 3, KVMILL_E_NULL, "packs is NULL", "no list of packs");
}

/* ---- Overflow ---- */

/* Only prototypes: nobody has so much memory. */
static kvmill_status plan_for_dims(DLDataType dtype, int rank, const int64_t *dims,
                                   const int64_t *update, kvmill_plan **plan, kvmill_error *error) {
    DLTensor past = {.ndim = rank, .dtype = dtype, .shape = (int64_t *)dims};
    DLTensor rows = {.ndim = rank, .dtype = dtype, .shape = (int64_t *)update};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &past, .update = &rows};
    return kvmill_plan_tensor_scatter(&op, &with_packs, plan, error);
}

static void test_overflow(int rank, const int64_t *dims, const int64_t *update, const char *name) {
    int64_t open[MOST_DIMS] = {-1, -1, -1, -1, -1, -1, -1, -1}, byte = 0;
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_call call;
    const char *const words[] = {"past_cache", NULL};
    ok(is_status(plan_for_dims(float32, rank, dims, update, &plan, &error), KVMILL_E_OVERFLOW,
                 &error, words),
       "overflow: %s", name);
    bool good = plan_for_dims(float32, rank, open, open, &plan, NULL) == KVMILL_OK;
    DLTensor past = {&byte, {kDLCPU, 0}, rank, float32, (int64_t *)dims, NULL, 0};
    DLTensor rows = {&byte, {kDLCPU, 0}, rank, float32, (int64_t *)update, NULL, 0};
    const DLTensor *const tensors[] = {&past, &rows, NULL, &past};
    ok(good && is_status(kvmill_begin(&call, plan, tensors, NULL, &error), KVMILL_E_OVERFLOW,
                         &error, words),
       "overflow: %s, at run time", name);
    kvmill_plan_destroy(plan);
}

static void test_overflows(void) {
    const int64_t big = (int64_t)1 << 31, huge = (int64_t)1 << 62;
    test_overflow(4, DIMS(big, big, 2, 4), DIMS(big, big, 1, 4), "2^65 elements");
    test_overflow(3, DIMS(2, huge, 1), DIMS(2, 1, 1), "2^63 elements");
    test_overflow(3, DIMS(1, huge, 1), DIMS(1, 1, 1), "2^62 elements of 4 bytes");
    test_overflow(4, DIMS(2 * big, 2 * big, 4, 4), DIMS(2 * big, 2 * big, 1, 4),
                  "2^68 elements, a product that is 0 modulo 2^64");
    test_overflow(3, DIMS(3, INT64_MAX, 5), DIMS(3, 1, 5), "a dim of INT64_MAX");
    test_overflow(3, DIMS(1, INT64_MAX, 1), DIMS(1, 1, 1), "a lone dim of INT64_MAX");
}

/* Dims whose product overflows beside a dim of 0: there is not one element. */
static void test_zero_beside_huge(void) {
    const int64_t big = (int64_t)1 << 40;
    struct scene scene;
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        open_scene(&scene, "circular", float32, 5, DIMS(0, 1, 1, 1, 1), DIMS(0, 1, 1, 1, 1));
        for (int i = 0; i < TENSORS; i++)
            if (i != KVMILL_TENSOR_SCATTER_WRITE_INDICES)
                memcpy(scene.tensor[i].shape, DIMS(0, big, big, 1, big), 5 * sizeof(int64_t));
        scene.planning = dynamic;
        runs(&scene, "overflow: not where another dim is 0");
    }
}

/* Strides of prototypes that leave a dim open are looked at by a run; a plan only folds them. */
static void test_open_huge_strides(void) {
    int64_t open[] = {-1, 2, 3, 5, 4}, rows[] = {-1, 2, 3, 2, 4}, batch[] = {2, 2, 3, 5, 4};
    int64_t strides[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2, 4, 1};
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_call call;
    unsigned char byte = 0;
    DLTensor past = {&byte, {kDLCPU, 0}, 5, float32, open, strides, 0};
    DLTensor update = {&byte, {kDLCPU, 0}, 5, float32, rows, NULL, 0};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &past, .update = &update};
    const DLTensor *const tensors[] = {&past, &update, NULL, &past};
    bool good = kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_OK;
    past.shape = batch;
    ok(good && is_status(kvmill_begin(&call, plan, tensors, NULL, &error), KVMILL_E_OVERFLOW,
                         &error, (const char *const[]){"past_cache", NULL}),
       "overflow: strides that a plan could not judge");
    kvmill_plan_destroy(plan);
}

/* The most bytes there may be: still a valid plan, whatever its size in bits. */
static void test_largest(void) {
    const int64_t most = PTRDIFF_MAX / 16;
    kvmill_plan *plan;
    kvmill_error error;
    ok(is_status(plan_for_dims((DLDataType){kDLComplex, 128, 1}, 3, DIMS(1, 1, most),
                               DIMS(1, 1, most), &plan, &error),
                 KVMILL_OK, &error, NULL),
       "overflow: not for the longest row there may be");
    kvmill_plan_destroy(plan);
}

/* ---- Strides ---- */

/* Rows a nibble apart. */
static void open_nibble_strides(struct scene *scene, int tensor) {
    open_nibbles(scene);
    scene->tensor[tensor].dl.strides = scene->tensor[tensor].strides;
    memcpy(scene->tensor[tensor].strides,
           tensor == KVMILL_TENSOR_SCATTER_UPDATE ? DIMS(6, 6, 2) : DIMS(12, 4, 1),
           3 * sizeof(int64_t));
}

/* Known when it is planned, or only when it runs. */
static void test_nibble_strides(void) {
    static const char *const names[] = {"past_cache", "update", NULL, "present_cache"};
    char name[64];
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        if (names[i] == NULL)
            continue;
        open_nibble_strides(&scene, i);
        snprintf(name, sizeof name, "strides of a 4-bit %s", names[i]);
        plan_fails(&scene, KVMILL_E_STRIDE, name, names[i], "4-bit");
        open_nibble_strides(&scene, i);
        scene.planning = DYNAMIC;
        snprintf(name, sizeof name, "strides of a 4-bit %s, at run time", names[i]);
        run_fails(&scene, KVMILL_E_STRIDE, name, names[i], "4-bit");
    }
}

static void open_strided_present(struct scene *scene, const int64_t *strides) {
    open_usual(scene);
    replace(scene, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, float32, 4, DIMS(2, 3, 5, 4), strides);
}

static void test_overlapping_strides(const int64_t *strides, const char *name) {
    struct scene scene;
    open_strided_present(&scene, strides);
    plan_fails(&scene, KVMILL_E_STRIDE, name, "present_cache", "overlap");
    open_strided_present(&scene, strides);
    scene.planning = DYNAMIC;
    run_fails(&scene, KVMILL_E_STRIDE, name, "present_cache", "overlap");
}

/* Strides a plan did not see: no matter to the portable kernels, too much for a pack's. */
static void test_unplanned_strides(void) {
    for (int kernels = PORTABLE_ONLY; kernels <= PACKS_ONLY; kernels++) {
        struct scene scene;
        open_usual(&scene);
        replace(&scene, KVMILL_TENSOR_SCATTER_PAST_CACHE, float32, 4, DIMS(2, 3, 5, 4),
                DIMS(60, 20, 1, 5));
        scene.planning = DYNAMIC;
        scene.kernels = kernels;
        if (kernels == PORTABLE_ONLY)
            runs(&scene, "rows in pieces, not planned, portable");
        else
            run_fails(&scene, KVMILL_E_STRIDE, "rows in pieces, not planned, packs",
                      "plan with these strides");
    }
}

static void test_repeated_update(void) {
    struct scene scene;
    open_scene(&scene, "linear", float32, 5, DIMS(2, 3, 2, 5, 4), DIMS(2, 3, 2, 2, 4));
    replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 5, DIMS(2, 3, 2, 2, 4),
            DIMS(24, 8, 0, 4, 1));
    runs(&scene, "an update repeated over its last head dim");
    open_scene(&scene, "linear", float32, 5, DIMS(2, 3, 2, 5, 4), DIMS(2, 3, 2, 2, 4));
    replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 5, DIMS(2, 3, 2, 2, 4),
            DIMS(16, 0, 8, 4, 1));
    runs(&scene, "an update repeated over its first head dim");
    open_scene(&scene, "linear", float32, 5, DIMS(2, 3, 2, 5, 4), DIMS(2, 3, 2, 2, 4));
    replace(&scene, KVMILL_TENSOR_SCATTER_UPDATE, float32, 5, DIMS(2, 3, 2, 2, 4),
            DIMS(0, 0, 0, 0, 1));
    runs(&scene, "an update of one row, repeated");
}

/* One place for each element, but no dim holds another whole: more than is looked into. */
static void test_interleaved_present(void) {
    struct scene scene;
    open_scene(&scene, "linear", float32, 2, DIMS(2, 3), DIMS(2, 1));
    replace(&scene, KVMILL_TENSOR_SCATTER_PRESENT_CACHE, float32, 2, DIMS(2, 3), DIMS(3, 2));
    plan_fails(&scene, KVMILL_E_STRIDE, "present_cache with interleaved strides", "present_cache");
}

static void open_huge(struct scene *scene, int tensor) {
    open_usual(scene);
    scene->tensor[tensor].dl.strides = scene->tensor[tensor].strides;
    memcpy(scene->tensor[tensor].strides, DIMS(INT64_MAX / 2, 8, 4, 1), 4 * sizeof(int64_t));
}

static void test_huge_strides(void) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    char name[80];
    for (int i = 0; i < TENSORS; i++) {
        struct scene scene;
        open_huge(&scene, i);
        snprintf(name, sizeof name, "strides beyond all memory of %s", names[i]);
        plan_fails(&scene, KVMILL_E_OVERFLOW, name, names[i]);
        open_huge(&scene, i);
        scene.planning = DYNAMIC;
        snprintf(name, sizeof name, "strides beyond all memory of %s, at run time", names[i]);
        run_fails(&scene, KVMILL_E_OVERFLOW, name, names[i]);
    }
}

/* A plan with all dims known and prototypes without strides, run with a huge step of write_indices;
   and one whose prototypes tell different dims each, run with other ones. */
static kvmill_status run_prepared(int64_t *index_stride, const int64_t *planned_batch,
                                  kvmill_error *error) {
    float cache[2 * 8] = {0}, update[2 * 2] = {0};
    int64_t past_dims[] = {2, 4, 2}, planned_dims[] = {-1, 4, 2}, rows[] = {2, 1, 2};
    int64_t open_rows[] = {-1, 1, 2}, starts[] = {0, 1}, two[] = {2};
    DLTensor past = {cache, {kDLCPU, 0}, 3, float32, past_dims, NULL, 0}, planned_past = past;
    DLTensor news = {update, {kDLCPU, 0}, 3, float32, rows, NULL, 0}, planned_news = news;
    DLTensor indices = {starts, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, two, NULL, 0}, planned = indices;
    kvmill_tensor_scatter op = {sizeof op,     1,        "linear", &planned_past,
                                &planned_news, &planned, NULL};
    const DLTensor *tensors[] = {&past, &news, &indices, &past};
    kvmill_plan *plan;
    if (planned_batch != NULL) {
        planned_past.shape = planned_dims;
        planned_news.shape = open_rows;
        planned.shape = (int64_t *)planned_batch;
    }
    if (kvmill_plan_tensor_scatter(&op, NULL, &plan, error) != KVMILL_OK)
        bail_out("%s", error->message);
    indices.strides = index_stride;
    kvmill_status status = kvmill_run(plan, tensors, NULL, error);
    kvmill_plan_destroy(plan);
    return status;
}

static void test_prepared(void) {
    kvmill_error error;
    ok(run_prepared(NULL, NULL, &error) == KVMILL_OK, "a prepared run");
    ok(run_prepared((int64_t[]){INT64_MAX / 2}, NULL, &error) == KVMILL_E_OVERFLOW &&
           strstr(error.message, "write_indices") != NULL,
       "a prepared run with a huge step of write_indices");
    ok(run_prepared(NULL, (int64_t[]){2}, &error) == KVMILL_OK,
       "a batch that only write_indices told");
    ok(run_prepared(NULL, (int64_t[]){7}, &error) == KVMILL_E_SHAPE,
       "another batch than write_indices told");
}

static void test_strides(void) {
    test_nibble_strides();
    test_overlapping_strides(DIMS(0, 20, 4, 1), "batches of present_cache in one place");
    test_overlapping_strides(DIMS(60, 20, 3, 1), "rows of present_cache overlap");
    test_overlapping_strides(DIMS(60, 20, 4, 0), "elements of present_cache in one place");
    test_overlapping_strides(DIMS(20, 20, 4, 1), "two dims of present_cache with one step");
    test_unplanned_strides();
    test_repeated_update();
    test_interleaved_present();
}

/* ---- Section 7: the published tests, and the erratum ---- */

static void test_published_linear(void) {
    static const float past[] = {1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0,
                                 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0};
    static const float update[] = {5, 5, 5, 5, 5, 1, 1, 1, 1, 1};
    static const float want[] = {1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0,
                                 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 1, 1, 1, 1, 1, 4, 3, 2, 1, 0};
    struct scene scene;
    open_scene(&scene, "linear", float32, 4, DIMS(2, 1, 4, 5), DIMS(2, 1, 1, 5));
    set_indices(&scene, 2, DIMS(1, 2));
    memcpy(past_of(&scene)->fence.data, past, sizeof past);
    memcpy(update_of(&scene)->fence.data, update, sizeof update);
    gives(&scene, want, "section 7: test_tensorscatter");
}

/* past counts from 0; rows of update are negative. */
static void number(struct scene *scene) {
    float *past = (float *)(void *)past_of(scene)->fence.data;
    float *update = (float *)(void *)update_of(scene)->fence.data;
    for (size_t i = 0; i < past_of(scene)->fence.size / sizeof *past; i++)
        memcpy(&past[i], &(float){(float)i}, sizeof *past);
    for (size_t i = 0; i < update_of(scene)->fence.size / sizeof *update; i++)
        memcpy(&update[i], &(float){-1 - (float)i}, sizeof *update);
}

static void test_published_3d(void) {
    static const float want[] = {0,   1,   2,   3,   4,   -1,  -2,  -3,  -4,  -5,  -6,  -7,
                                 -8,  -9,  -10, 15,  16,  17,  18,  19,  20,  21,  22,  23,
                                 24,  25,  26,  27,  28,  29,  -11, -12, -13, -14, -15, -16,
                                 -17, -18, -19, -20, -21, -22, -23, -24, -25, -26, -27, -28,
                                 -29, -30, 50,  51,  52,  53,  54,  55,  56,  57,  58,  59};
    struct scene scene;
    open_scene(&scene, NULL, float32, 3, DIMS(3, 4, 5), DIMS(3, 2, 5));
    set_indices(&scene, 3, DIMS(1, 2, 0));
    number(&scene);
    gives(&scene, want, "section 7: test_tensorscatter_3d");
}

static void test_published_circular(void) {
    static const float want[] = {0,   1,  2,  3,  4,  -1, -2,  -3,  -4,  -5,  -6,  -7, -8, -9,
                                 -10, 15, 16, 17, 18, 19, -16, -17, -18, -19, -20, 25, 26, 27,
                                 28,  29, 30, 31, 32, 33, 34,  -11, -12, -13, -14, -15};
    struct scene scene;
    open_scene(&scene, "circular", float32, 4, DIMS(2, 1, 4, 5), DIMS(2, 1, 2, 5));
    set_indices(&scene, 2, DIMS(1, 3));
    number(&scene);
    gives(&scene, want, "section 7: test_tensorscatter_circular");
}

/* Only the sequence coordinate wraps: batch entries and heads beyond the capacity are their own. */
static void test_erratum(void) {
    static const unsigned char want[] = {1,  12, 13, 14, 2,  22, 23, 24, 3,  32,
                                         33, 34, 4,  42, 43, 44, 5,  52, 53, 54};
    struct scene scene;
    open_scene(&scene, "circular", uint8, 3, DIMS(5, 4, 1), DIMS(5, 1, 1));
    set_indices(&scene, 5, DIMS(0, 0, 0, 0, 0));
    for (int i = 0; i < 20; i++)
        past_of(&scene)->fence.data[i] = (unsigned char)(10 * (i / 4) + i % 4 + 11);
    for (int i = 0; i < 5; i++)
        update_of(&scene)->fence.data[i] = (unsigned char)(i + 1);
    gives(&scene, want, "section 1: the example of the erratum, B above M");
    open_scene(&scene, "circular", float32, 4, DIMS(2, 7, 3, 4), DIMS(2, 7, 2, 4));
    set_indices(&scene, 2, DIMS(2, 1));
    runs(&scene, "section 7: H above M, circular");
}

int main(void) {
    dice = dice_for(dice_seed(), "cases");
    test_axis();
    test_rank();
    test_shapes();
    test_too_many_rows_circular();
    test_open_dims_at_run();
    test_planned_dims();
    test_starts();
    test_absent_indices();
    test_indices();
    test_nothing();
    test_mode();
    test_types();
    test_planned_type();
    test_bits_survive();
    test_nibbles();
    test_few_nibbles();
    test_in_place();
    test_overlaps();
    test_all_neighbours();
    test_empty_inside();
    test_overlapping_inputs();
    test_atomicity();
    test_null_data();
    test_misalignment();
    test_null_arguments();
    test_devices();
    test_device_in_place();
    test_struct_sizes();
    test_packs();
    test_overflows();
    test_zero_beside_huge();
    test_largest();
    test_open_huge_strides();
    test_strides();
    test_published_linear();
    test_published_3d();
    test_published_circular();
    test_erratum();
    test_huge_strides();
    test_prepared();
    return done_testing();
}
