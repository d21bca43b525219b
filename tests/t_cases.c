/* The case table of the TensorScatter reference, row by row, and its vectors: what is accepted and
   gives which bytes.  What is refused is in tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <kvmill_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "oracle/tensor_scatter.h"
#include "settings.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
static const kvmill_plan_options with_packs = {
    .struct_size = sizeof with_packs, .packs = packs, .pack_count = 2};

static const DLDataType float32 = {kDLFloat, 32, 1}, int64 = {kDLInt, 64, 1};

static struct dice dice;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
enum {
    PAST = KVMILL_TENSOR_SCATTER_PAST_CACHE,
    UPDATE = KVMILL_TENSOR_SCATTER_UPDATE,
    INDICES = KVMILL_TENSOR_SCATTER_WRITE_INDICES,
    PRESENT = KVMILL_TENSOR_SCATTER_PRESENT_CACHE,
    TENSORS = KVMILL_TENSOR_SCATTER_TENSORS
};

/* ---- A scene: four tensors and how they are handed over ---- */

struct scene {
    int64_t axis;
    const char *mode;
    bool open; /* planned from prototypes with all dims open */
    struct fenced_tensor tensor[TENSORS];
    const DLTensor *given[TENSORS];
};

static void close_scene(struct scene *scene) {
    for (int i = 0; i < TENSORS; i++)
        tensor_close(&scene->tensor[i]);
}

struct dims {
    int64_t dims[MOST_DIMS], strides[MOST_DIMS];
    int rank;
    bool strided;
};

static void open_tensor(struct scene *scene, int i, DLDataType dtype, const struct dims *dims) {
    tensor_open(&scene->tensor[i], dtype, dims->rank, dims->dims,
                dims->strided ? dims->strides : NULL, &dice);
    scene->given[i] = &scene->tensor[i].dl;
}

/* Where the words "past=", "update=", "starts=", "present=" or those of strides go. */
static bool take_dims(struct dims *dims, const struct setting *setting) {
    static const char *const names[] = {"past", "update", "starts", "present"};
    for (int i = 0; i < TENSORS; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(setting->name, names[i], length) != 0)
            continue;
        dims[i].strided |= setting->name[length] == '-';
        int64_t *to = setting->name[length] == '-' ? dims[i].strides : dims[i].dims;
        dims[i].rank = setting_integers(setting->value, to, MOST_DIMS);
        return true;
    }
    return false;
}

static void make_in_place(struct scene *scene) {
    scene->given[PRESENT] = scene->given[PAST];
}

/* Words: axis, mode, dtype; past, update and present (past's) have dims, and past-strides ...;
   starts are write_indices; "in-place"; "open": see above; "no-data". */
static void open_scene(struct scene *scene, const char *settings) {
    struct dims dims[TENSORS] = {{.rank = 0}};
    DLDataType dtype = float32;
    bool in_place = false, no_data = false;
    *scene = (struct scene){.axis = -2};
    for (struct setting setting; setting_next(&settings, &setting);)
        if (strcmp(setting.name, "axis") == 0)
            scene->axis = setting_integer(setting.value);
        else if (strcmp(setting.name, "mode") == 0)
            scene->mode = setting.value[0] == 'c' ? "circular" : "linear";
        else if (strcmp(setting.name, "dtype") == 0)
            dtype = setting_type(setting.value);
        else if (strcmp(setting.name, "open") == 0)
            scene->open = true;
        else if (strcmp(setting.name, "in-place") == 0)
            in_place = true;
        else if (strcmp(setting.name, "no-data") == 0)
            no_data = true;
        else if (!take_dims(dims, &setting))
            bail_out("a scene has no %s", setting.name);
    if (dims[PRESENT].strided || dims[PRESENT].rank == 0) {
        memcpy(dims[PRESENT].dims, dims[PAST].dims, sizeof dims[PAST].dims);
        dims[PRESENT].rank = dims[PAST].rank;
    }
    for (int i = 0; i < TENSORS; i++)
        if (i != INDICES)
            open_tensor(scene, i, dtype, &dims[i]);
    if (dims[INDICES].rank > 0 || dims[INDICES].strided) {
        struct dims count = {.dims = {dims[INDICES].rank}, .rank = 1};
        open_tensor(scene, INDICES, int64, &count);
        memcpy(scene->tensor[INDICES].fence.data, dims[INDICES].dims, 8 * (size_t)count.dims[0]);
    }
    for (int i = 0; i < TENSORS; i++)
        if (no_data && scene->tensor[i].fence.size == 0)
            scene->tensor[i].dl.data = NULL;
    if (in_place)
        make_in_place(scene);
}

static void *bytes_of(const struct scene *scene, int i) {
    return scene->tensor[i].fence.data;
}

/* ---- Planning it ---- */

static kvmill_status plan_as_given(const struct scene *scene, const kvmill_plan_options *options,
                                   kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                .axis = scene->axis,
                                .mode = scene->mode,
                                .past_cache = scene->given[PAST],
                                .update = scene->given[UPDATE],
                                .write_indices = scene->given[INDICES],
                                .present_cache = scene->given[PRESENT]};
    return kvmill_plan_tensor_scatter(&op, options, plan, error);
}

/* A plan that leaves all that can go wrong to the run. */
static kvmill_status plan_open(const struct scene *scene, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    int64_t open[MOST_DIMS];
    for (int d = 0; d < MOST_DIMS; d++)
        open[d] = KVMILL_DYNAMIC;
    const DLTensor *past = &scene->tensor[PAST].dl;
    DLTensor cache = {.ndim = past->ndim, .dtype = past->dtype, .shape = open};
    DLTensor indices = {.ndim = 1, .dtype = int64, .shape = open};
    struct scene prototypes = *scene;
    prototypes.given[PAST] = prototypes.given[UPDATE] = &cache;
    prototypes.given[PRESENT] = NULL;
    prototypes.given[INDICES] = scene->given[INDICES] ? &indices : NULL;
    return plan_as_given(&prototypes, options, plan, error);
}

static kvmill_status plan_scene(const struct scene *scene, const kvmill_plan_options *options,
                                kvmill_plan **plan, kvmill_error *error) {
    return (scene->open ? plan_open : plan_as_given)(scene, options, plan, error);
}

/* ---- Judging ---- */

static const struct fenced_tensor *output_of(const struct scene *scene) {
    return &scene->tensor[scene->given[PRESENT] == scene->given[PAST] ? PAST : PRESENT];
}

static void compute_expected(const struct scene *scene, struct fenced_tensor *expected) {
    const struct fenced_tensor *output = output_of(scene);
    int axis = (int)(scene->axis < 0 ? scene->axis + output->dl.ndim : scene->axis);
    tensor_open_copy(expected, output, &dice);
    oracle_tensor_scatter(axis, scene->mode != NULL && strcmp(scene->mode, "circular") == 0,
                          output == &scene->tensor[PAST] ? &expected->dl : scene->given[PAST],
                          scene->given[UPDATE], scene->given[INDICES], &expected->dl);
}

/* The output is as expected, all else as before. */
static bool is_right(const struct scene *scene, const struct fenced_tensor *before,
                     const struct fenced_tensor *expected) {
    static const char *const names[] = {"past_cache", "update", "write_indices", "present_cache"};
    int64_t where;
    for (int i = 0; i < TENSORS; i++) {
        const struct fenced_tensor *have = &scene->tensor[i];
        if (have->fence.pages == NULL)
            continue;
        if (!fence_is_intact(&have->fence, &where)) {
            diag("byte %" PRId64 " is outside of %s, but was written", where, names[i]);
            return false;
        }
        if (!tensor_is_equal(have, have == output_of(scene) ? expected : &before[i], &where)) {
            diag("byte %" PRId64 " of %s is not as it must be", where, names[i]);
            return false;
        }
    }
    return true;
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

/* Each way twice: after a run in place there is something else to begin with. */
static bool run_ways(struct scene *scene, const kvmill_plan *plan,
                     const struct fenced_tensor *expected) {
    struct fenced_tensor before[TENSORS] = {{.shape = {0}}};
    kvmill_error error;
    bool good = true;
    for (int i = 0; i < TENSORS; i++)
        if (scene->tensor[i].fence.pages != NULL)
            tensor_open_copy(&before[i], &scene->tensor[i], &dice);
    for (int way = 0; good && way < WAYS; way++) {
        kvmill_status status = run_way(way, plan, scene->given, &error);
        good = status == KVMILL_OK && error.message[0] == '\0' &&
               is_right(scene, before, expected) &&
               run_way(way, plan, scene->given, NULL) == KVMILL_OK;
        if (!good)
            diag("%s: %s", kvmill_status_name(status), error.message);
        for (int i = 0; i < TENSORS; i++)
            if (before[i].fence.size > 0)
                memcpy(scene->tensor[i].fence.data, before[i].fence.data, before[i].fence.size);
    }
    for (int i = 0; i < TENSORS; i++)
        tensor_close(&before[i]);
    return good;
}

/* With and without packs; closes the scene and what is expected of it. */
static void run_expecting(struct scene *scene, struct fenced_tensor *expected, const char *name) {
    bool good = true;
    fence_explain_traps(name);
    for (int use_packs = 0; good && use_packs < 2; use_packs++) {
        kvmill_plan *plan;
        kvmill_error error = {""};
        good = plan_scene(scene, use_packs ? &with_packs : NULL, &plan, &error) == KVMILL_OK &&
               run_ways(scene, plan, expected);
        if (!good)
            diag("%s packs: %s", use_packs ? "with" : "without", error.message);
        kvmill_plan_destroy(plan);
    }
    tensor_close(expected);
    close_scene(scene);
    ok(good, "%s", name);
}

/* The run gives what the oracle gives. */
static void runs(struct scene *scene, const char *name) {
    struct fenced_tensor expected;
    compute_expected(scene, &expected);
    run_expecting(scene, &expected, name);
}

/* The run gives these bytes. */
static void gives(struct scene *scene, const void *bytes, const char *name) {
    struct fenced_tensor expected;
    tensor_open_copy(&expected, output_of(scene), &dice);
    memcpy(expected.fence.data, bytes, expected.fence.size);
    run_expecting(scene, &expected, name);
}

/* ---- Rows of the table ---- */

#define USUAL "past=2,3,5,4 update=2,3,2,4 starts=1,3 "
#define FOUR  "past=2,3,4,5 update=2,3,"
#define HUGE                                                                                       \
    "past=0,1099511627776,1099511627776,1,1099511627776 "                                          \
    "update=0,1099511627776,1099511627776,1,1099511627776 "

/* Each in place, too, and planned with open dims, unless there are strides. */
static const struct {
    const char *name, *settings;
} accepted[] = {
    {"row 1: axis -3 of rank 4", "axis=-3 past=2,3,3,3 update=2,2,3,3 starts=1,0"},
    {"row 1: axis -2 of rank 4", "axis=-2 past=2,3,3,3 update=2,3,2,3 starts=1,0"},
    {"row 1: axis -1 of rank 4", "axis=-1 past=2,3,3,3 update=2,3,3,2 starts=1,0"},
    {"row 1: axis 1 of rank 4", "axis=1 past=2,3,3,3 update=2,2,3,3 starts=1,0"},
    {"row 1: axis 2 of rank 4", "axis=2 past=2,3,3,3 update=2,3,2,3 starts=1,0"},
    {"row 1: axis 3 of rank 4", "axis=3 past=2,3,3,3 update=2,3,3,2 starts=1,0"},
    {"row 4: rank 2", "mode=circular axis=1 past=2,3 update=2,2 starts=2,0"},
    {"row 4: rank 3", "mode=circular axis=1 past=2,3,2 update=2,2,2 starts=2,0"},
    {"row 4: rank 5", "mode=circular axis=1 past=2,3,2,1,2 update=2,2,2,1,2 starts=2,0"},
    {"row 4: rank 8",
     "mode=circular axis=1 past=2,3,2,1,2,3,2,2 update=2,2,2,1,2,3,2,2 starts=2,0"},
    {"row 8: no rows, start 0", FOUR "0,5 starts=0,0"},
    {"row 8: no rows, start M + 1, circular", "mode=circular " FOUR "0,5 starts=5,0"},
    {"row 9: start M - S", FOUR "3,5 starts=1,0"},
    {"row 9: S = M, start 0", FOUR "4,5 starts=0,0"},
    {"row 10: no rows, start M", FOUR "0,5 starts=4,4"},
    {"row 12: start M and M + 1, circular", "mode=circular " FOUR "2,5 starts=4,5"},
    {"row 12: start 3M - 1, circular", "mode=circular " FOUR "2,5 starts=11,3"},
    {"row 12: S = M, start above 0, circular", "mode=circular " FOUR "4,5 starts=3,1"},
    {"row 14: no indices, no rows", "mode=circular past=3,4,5 update=3,0,5"},
    {"row 14: no indices, half the rows", "past=3,4,5 update=3,2,5"},
    {"row 14: no indices, all rows", "past=3,4,5 update=3,4,5"},
    {"rows 17, 28: batch 0, data NULL", "past=0,2,3,4 update=0,2,1,4 no-data"},
    {"rows 17, 28: 0 heads, data NULL", "past=2,0,3,4 update=2,0,1,4 no-data starts=0,0"},
    {"rows 17, 28: rows of 0, data NULL", "past=2,2,3,0 update=2,2,1,0 no-data starts=0,0"},
    {"rows 18, 28: capacity 0, data NULL", "past=2,2,0,4 update=2,2,0,4 no-data starts=0,0"},
    {"rows 18, 28: capacity 0 of rank 2, data NULL", "axis=1 past=3,0 update=3,0 no-data"},
    {"row 18: capacity 0, circular, any start",
     "mode=circular past=2,2,0,4 update=2,2,0,4 starts=7,max"},
    {"row 17: an empty 4-bit tensor with strides as NumPy gives them",
     "dtype=int4 past=2,7,0 update=2,1,0 update-strides=1,1,1 starts=0,1"},
    {"row 17: an empty present_cache with strides of 0",
     "past=0,7,4 update=0,1,4 present-strides=0,0,0"},
    {"row 19: start INT64_MAX, circular",
     "mode=circular " FOUR "2,5 starts=max,9223372036854775806"},
    {"row 19: S = M, start INT64_MAX, circular",
     "mode=circular " FOUR "4,5 starts=max,9223372036854775805"},
    {"row 20: no mode is linear", USUAL},
    {"row 24: one nibble into a cache of 1", "dtype=int4 past=1,1,1 update=1,1,1 starts=0"},
    {"row 24: one nibble into a cache of 2", "dtype=int4 past=1,2,1 update=1,1,1 starts=1"},
    {"row 24: one nibble into a cache of 3", "dtype=int4 past=1,3,1 update=1,1,1 starts=2"},
    {"row 24: one nibble into a cache of 4", "dtype=int4 past=1,4,1 update=1,1,1 starts=3"},
    {"overflow: not where another dim is 0", "mode=circular axis=-2 " HUGE},
    {"an update repeated over its last head dim",
     "past=2,3,2,5,4 update=2,3,2,2,4 update-strides=24,8,0,4,1"},
    {"an update repeated over its first head dim",
     "past=2,3,2,5,4 update=2,3,2,2,4 update-strides=16,0,8,4,1"},
    {"an update of one row, repeated", "past=2,3,2,5,4 update=2,3,2,2,4 update-strides=0,0,0,0,1"},
    {"section 7: H above M, circular", "mode=circular past=2,7,3,4 update=2,7,2,4 starts=2,1"},
};

static void test_accepted(void) {
    static const char *const ways[] = {"", " in-place", " open", " open in-place"};
    char name[128], settings[256];
    struct scene scene;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        for (int way = 0; way < 4; way++) {
            if (way > 0 && strstr(accepted[i].settings, "-strides") != NULL)
                continue;
            snprintf(settings, sizeof settings, "%s%s", accepted[i].settings, ways[way]);
            snprintf(name, sizeof name, "%s%s", accepted[i].name, ways[way]);
            open_scene(&scene, settings);
            runs(&scene, name);
        }
}

/* ---- Bits, and four of them ---- */

static void test_bits_survive(void) {
    static const uint32_t bits[] = {0x7fa00001, 0xffc12345, 0x80000000, 0x00000001,
                                    0x7f800000, 0x7fc00000, 0x807fffff, 0xffffffff};
    struct scene scene;
    uint32_t want[12];
    open_scene(&scene, "past=1,3,4 update=1,1,4 starts=1");
    memcpy(bytes_of(&scene, PAST), bits, 32);
    memcpy((char *)bytes_of(&scene, PAST) + 32, bits, 16);
    memcpy(bytes_of(&scene, UPDATE), bits + 4, 16);
    memcpy(want, bits, 32);
    memcpy(want + 8, bits, 16);
    gives(&scene, want, "section 1: NaN payloads, -0 and denormals survive");
}

/* The pad of the last byte is 0 in a fresh output, and survives in place. */
static void test_nibbles(int pad, bool in_place, const char *name) {
    const unsigned char past[] = {0x21, 0x43, 0x65, 0x87, (unsigned char)(pad << 4 | 9)};
    const unsigned char want[] = {0x21, 0xf3, 0xde, 0x87,
                                  (unsigned char)((in_place ? pad << 4 : 0) | 9)};
    struct scene scene;
    open_scene(&scene, "dtype=int4 past=1,3,3 update=1,1,3 starts=1");
    memcpy(bytes_of(&scene, PAST), past, sizeof past);
    memcpy(bytes_of(&scene, UPDATE), (const unsigned char[]){0xef, 0x0d}, 2);
    if (in_place)
        make_in_place(&scene);
    gives(&scene, want, name);
}

/* ---- Rows 25 to 28: whose memory it is ---- */

static void move_into(struct fenced_tensor *tensor, const struct fenced_tensor *host,
                      int64_t offset) {
    tensor->dl.data = host->fence.data + offset;
    tensor->dl.byte_offset = 0;
}

/* Planned as the scene is, run with another past_cache or present_cache, once. */
static bool runs_with(struct scene *scene, int tensor, const DLTensor *other) {
    struct fenced_tensor expected;
    kvmill_plan *plan = NULL;
    compute_expected(scene, &expected);
    bool good = plan_as_given(scene, &with_packs, &plan, NULL) == KVMILL_OK;
    scene->given[tensor] = other;
    good = good && run_way(0, plan, scene->given, NULL) == KVMILL_OK &&
           memcmp((char *)other->data + other->byte_offset, expected.fence.data,
                  expected.fence.size) == 0;
    kvmill_plan_destroy(plan);
    tensor_close(&expected);
    return good;
}

static void test_same_in_other_words(void) {
    struct scene scene;
    open_scene(&scene, USUAL "in-place");
    DLTensor same = scene.tensor[PAST].dl;
    same.data = (unsigned char *)same.data - 8;
    same.byte_offset += 8;
    same.strides = (int64_t[]){60, 20, 4, 1};
    ok(runs_with(&scene, PRESENT, &same), "row 25: in place, the same memory in other words");
    close_scene(&scene);
}

static void test_misalignment(void) {
    struct fenced_tensor pool;
    bool good = true;
    tensor_open(&pool, (DLDataType){kDLUInt, 8, 1}, 1, DIMS(1200), NULL, &dice);
    for (int64_t offset = 0; good && offset < 64; offset++) {
        struct scene scene;
        open_scene(&scene, USUAL);
        DLTensor present = scene.tensor[PRESENT].dl;
        present.data = pool.fence.data + offset;
        present.byte_offset = 0;
        good = runs_with(&scene, PRESENT, &present);
        close_scene(&scene);
    }
    ok(good, "row 28: present_cache at any address");
    tensor_close(&pool);
}

/* All four in one piece of memory, in this order and without a gap. */
static void test_neighbours(const int *order) {
    struct scene scene;
    struct fenced_tensor pool;
    int64_t at = 0;
    open_scene(&scene, USUAL);
    tensor_open(&pool, (DLDataType){kDLUInt, 8, 1}, 1, DIMS(480 + 480 + 192 + 16), NULL, &dice);
    for (int i = 0; i < TENSORS; i++) {
        const struct fence *own = &scene.tensor[order[i]].fence;
        memcpy(pool.fence.data + at, own->data, own->size);
        move_into(&scene.tensor[order[i]], &pool, at);
        at += (int64_t)own->size;
    }
    ok(runs_with(&scene, PRESENT, &scene.tensor[PRESENT].dl),
       "row 26: neighbours that touch do not overlap, order %d%d%d%d", order[0], order[1], order[2],
       order[3]);
    tensor_close(&pool);
    close_scene(&scene);
}

static void test_memory(void) {
    static const int orders[][TENSORS] = {{PAST, PRESENT, UPDATE, INDICES},
                                          {UPDATE, PRESENT, PAST, INDICES},
                                          {PAST, INDICES, PRESENT, UPDATE},
                                          {UPDATE, PAST, PRESENT, INDICES}};
    struct scene scene;
    for (int i = 0; i < 4; i++)
        test_neighbours(orders[i]);
    open_scene(&scene, "past=2,5,4 update=2,0,4 in-place");
    move_into(&scene.tensor[UPDATE], &scene.tensor[PAST], 16);
    runs(&scene, "rows 8 and 26: an update without elements overlaps nothing");
    open_scene(&scene, USUAL);
    move_into(&scene.tensor[UPDATE], &scene.tensor[PAST], 32);
    runs(&scene, "row 26: update may be a view of past_cache when not in place");
    test_same_in_other_words();
    test_misalignment();
}

/* ---- Packs ---- */

static void test_pack_refused(const kvmill_pack *const *list, size_t count, const char *word,
                              const char *name) {
    struct scene scene;
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = list, .pack_count = count};
    open_scene(&scene, USUAL);
    ok(plan_as_given(&scene, &options, &plan, &error) == KVMILL_E_PACK && plan == NULL &&
           strstr(error.message, word) != NULL,
       "%s", name);
    close_scene(&scene);
}

static void test_packs(void) {
    kvmill_pack strange = kvmill_pack_kvmill_test;
    const kvmill_pack *const list[] = {&kvmill_pack_kvmill_test, &strange};
    strange.abi = 999;
    test_pack_refused(list, 2, "999", "a pack of another ABI");
    test_pack_refused(list + 1, 1, "options.packs[0]", "a pack of another ABI alone");
    strange.abi = 3;
    strange.name = "old";
    test_pack_refused(
        list + 1, 1,
        "options.packs[0], old, has kernel ABI 3 of kvmill 0.1; libkvmill " KVMILL_VERSION
        " takes 4 to ",
        "a pack of version 0.1, by its name and both versions");
}

/* ---- Overflow ---- */

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
    ok(good && kvmill_begin(&call, plan, tensors, NULL, &error) == KVMILL_E_OVERFLOW &&
           strstr(error.message, "past_cache") != NULL,
       "overflow: strides that a plan could not judge");
    kvmill_plan_destroy(plan);
}

/* The most bytes there may be: still a valid plan, whatever its size in bits. */
static void test_largest(void) {
    int64_t dims[] = {1, 1, PTRDIFF_MAX / 16};
    DLTensor longest = {.ndim = 3, .dtype = {kDLComplex, 128, 1}, .shape = dims};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &longest, .update = &longest};
    kvmill_plan *plan;
    ok(kvmill_plan_tensor_scatter(&op, &with_packs, &plan, NULL) == KVMILL_OK,
       "overflow: not for the longest row there may be");
    kvmill_plan_destroy(plan);
}

/* ---- Plans that know less than runs ---- */

/* Strides a plan did not see: no matter to the portable kernels, too much for a pack's. */
static void test_unplanned_strides(void) {
    for (int use_packs = 0; use_packs < 2; use_packs++) {
        struct scene scene;
        struct fenced_tensor expected;
        kvmill_plan *plan = NULL;
        kvmill_error error = {""};
        open_scene(&scene, USUAL "open past-strides=60,20,1,5");
        compute_expected(&scene, &expected);
        bool good = plan_scene(&scene, use_packs ? &with_packs : NULL, &plan, &error) == KVMILL_OK;
        for (int way = 0; good && way < WAYS && use_packs; way++)
            good = run_way(way, plan, scene.given, &error) == KVMILL_E_STRIDE &&
                   strstr(error.message, "plan with these strides") != NULL;
        ok(good && (use_packs || run_ways(&scene, plan, &expected)),
           "rows in pieces, not planned, %s", use_packs ? "packs" : "portable");
        kvmill_plan_destroy(plan);
        tensor_close(&expected);
        close_scene(&scene);
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

/* ---- Section 7: the published tests, and the erratum ---- */

/* past counts from 0; rows of update are negative. */
static void number(struct scene *scene) {
    float *past = bytes_of(scene, PAST), *update = bytes_of(scene, UPDATE);
    for (size_t i = 0; i < scene->tensor[PAST].fence.size / sizeof *past; i++)
        memcpy(&past[i], &(float){(float)i}, sizeof *past);
    for (size_t i = 0; i < scene->tensor[UPDATE].fence.size / sizeof *update; i++)
        memcpy(&update[i], &(float){-1 - (float)i}, sizeof *update);
}

static void test_published(void) {
    static const float past[] = {1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0,
                                 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0};
    static const float update[] = {5, 5, 5, 5, 5, 1, 1, 1, 1, 1};
    static const float linear[] = {1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0,
                                   1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 1, 1, 1, 1, 1, 4, 3, 2, 1, 0};
    static const float of_3d[] = {0,   1,   2,   3,   4,   -1,  -2,  -3,  -4,  -5,  -6,  -7,
                                  -8,  -9,  -10, 15,  16,  17,  18,  19,  20,  21,  22,  23,
                                  24,  25,  26,  27,  28,  29,  -11, -12, -13, -14, -15, -16,
                                  -17, -18, -19, -20, -21, -22, -23, -24, -25, -26, -27, -28,
                                  -29, -30, 50,  51,  52,  53,  54,  55,  56,  57,  58,  59};
    static const float circular[] = {0,   1,  2,  3,  4,  -1, -2,  -3,  -4,  -5,  -6,  -7, -8, -9,
                                     -10, 15, 16, 17, 18, 19, -16, -17, -18, -19, -20, 25, 26, 27,
                                     28,  29, 30, 31, 32, 33, 34,  -11, -12, -13, -14, -15};
    struct scene scene;
    open_scene(&scene, "past=2,1,4,5 update=2,1,1,5 starts=1,2");
    memcpy(bytes_of(&scene, PAST), past, sizeof past);
    memcpy(bytes_of(&scene, UPDATE), update, sizeof update);
    gives(&scene, linear, "section 7: test_tensorscatter");
    open_scene(&scene, "past=3,4,5 update=3,2,5 starts=1,2,0");
    number(&scene);
    gives(&scene, of_3d, "section 7: test_tensorscatter_3d");
    open_scene(&scene, "mode=circular past=2,1,4,5 update=2,1,2,5 starts=1,3");
    number(&scene);
    gives(&scene, circular, "section 7: test_tensorscatter_circular");
}

/* Only the sequence coordinate wraps: batch entries and heads beyond the capacity are their own. */
static void test_erratum(void) {
    static const unsigned char want[] = {1,  12, 13, 14, 2,  22, 23, 24, 3,  32,
                                         33, 34, 4,  42, 43, 44, 5,  52, 53, 54};
    struct scene scene;
    open_scene(&scene, "mode=circular dtype=uint8 past=5,4,1 update=5,1,1 starts=0,0,0,0,0");
    for (int i = 0; i < 20; i++)
        ((unsigned char *)bytes_of(&scene, PAST))[i] = (unsigned char)(10 * (i / 4) + i % 4 + 11);
    for (int i = 0; i < 5; i++)
        ((unsigned char *)bytes_of(&scene, UPDATE))[i] = (unsigned char)(i + 1);
    gives(&scene, want, "section 1: the example of the erratum, B above M");
}

int main(void) {
    dice = dice_for(dice_seed(), "cases");
    test_accepted();
    test_bits_survive();
    test_nibbles(0, false, "section 3: the int4 example");
    test_nibbles(0, true, "section 3: the int4 example, in place");
    test_nibbles(5, false, "section 3: the pad of a fresh output is 0");
    test_nibbles(5, true, "section 3: the pad survives in place");
    test_memory();
    test_packs();
    test_open_huge_strides();
    test_largest();
    test_unplanned_strides();
    test_prepared();
    test_published();
    test_erratum();
    return done_testing();
}
