/* The case table of the TensorScatter reference, row by row, and its vectors: which calls are
   accepted, and the bytes of their results.  Most rows are in tests/tables/tensor_scatter.tsv and
   scatter_bytes.tsv, refusals in tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */

#include "common.h"
#include "packs.h"
#include "scatter_scene.h"

DICE("cases");
static kvmill_plan *plan;
static kvmill_error error;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- Rows of the table ---- */

#define USUAL "past=2,3,5,4 update=2,3,2,4 starts=1,3 "

/* Runs each row also in place, and with a plan for open dims unless it has strides. */
EACH_ROW(tensor_scatter, 2) {
    static const char *const ways[] = {"", " in-place", " open", " open in-place"};
    char name[128], settings[256];
    struct scene scene;
    for (int way = 0; way < (strstr(cells[1], "-strides") ? 1 : 4); way++) {
        snprintf(settings, sizeof settings, "%s%s", cells[1], ways[way]);
        snprintf(name, sizeof name, "%s%s", cells[0], ways[way]);
        scene_open(&scene, settings, &dice);
        scene_runs(&scene, name);
    }
}

/* ---- Known bytes ---- */

/* Writes numbers of a type, or bits in hexadecimal; nibbles are given by bytes. */
static void put_numbers(DLDataType type, unsigned char *at, size_t size, const char *cell) {
    double numbers[64];
    bool bits = strncmp(cell, "0x", 2) == 0;
    if (bits || type.bits < 8)
        type = (DLDataType){kDLUInt, (uint8_t)(type.bits < 8 ? 8 : type.bits), 1};
    int64_t count = numbers_in(cell, bits ? 16 : 10, numbers, COUNT(numbers));
    must((size_t)count * type.bits / 8 == size, cell);
    for (int64_t i = 0; i < count; i++)
        number_put(type, at + i * type.bits / 8, numbers[i]);
}

/* NAME SETTINGS PAST UPDATE PRESENT */
ROWS(gives, 5) {
    struct scene scene;
    unsigned char want[512];
    scene_open(&scene, cells[1], &dice);
    const struct fence *past = &scene.tensor[PAST].fence, *update = &scene.tensor[UPDATE].fence;
    DLDataType type = scene.tensor[PAST].dl.dtype;
    put_numbers(type, past->data, past->size, cells[2]);
    put_numbers(type, update->data, update->size, cells[3]);
    put_numbers(type, want, past->size, cells[4]);
    scene_gives(&scene, want, cells[0]);
}

TABLE(scatter_bytes);

/* ---- Rows 25 to 28: overlapping memory ---- */

static void move_into(struct fenced_tensor *tensor, const struct fenced_tensor *host,
                      int64_t offset) {
    tensor->dl.data = host->fence.data + offset;
    tensor->dl.byte_offset = 0;
}

/* Plans as the scene says, and runs once with another present_cache. */
static bool runs_with(struct scene *scene, const DLTensor *other) {
    OWN(tensor_close) struct fenced_tensor expected;
    scene_expect(scene, &expected);
    bool good = scene_plan_as_given(scene, &two_threads[1], &plan, NULL) == KVMILL_OK;
    scene->given[PRESENT] = other;
    good = good && scene_run_way(scene, 0, plan, NULL) == KVMILL_OK &&
           memcmp((char *)other->data + other->byte_offset, expected.fence.data,
                  expected.fence.size) == 0;
    kvmill_plan_destroy(plan);
    return good;
}

static void test_same_in_other_words(void) {
    OWN(scene_close) struct scene scene;
    scene_open(&scene, USUAL "in-place", &dice);
    DLTensor same = scene.tensor[PAST].dl;
    same.data = (unsigned char *)same.data - 8;
    same.byte_offset += 8;
    same.strides = (int64_t[]){60, 20, 4, 1};
    ok(runs_with(&scene, &same), "row 25: in place, the same memory in other words");
}

static void test_misalignment(void) {
    OWN(tensor_close) struct fenced_tensor pool;
    bool good = true;
    tensor_open(&pool, u8, 1, DIMS(1200), NULL, &dice);
    for (int64_t offset = 0; good && offset < 64; offset++) {
        OWN(scene_close) struct scene scene;
        scene_open(&scene, USUAL, &dice);
        DLTensor present = scene.tensor[PRESENT].dl;
        present.data = pool.fence.data + offset;
        present.byte_offset = 0;
        good = runs_with(&scene, &present);
    }
    ok(good, "row 28: present_cache at any address");
}

/* Puts all four tensors in one piece of memory, in this order and without gaps. */
static void test_neighbours(const int *order) {
    OWN(scene_close) struct scene scene;
    OWN(tensor_close) struct fenced_tensor pool;
    int64_t at = 0;
    scene_open(&scene, USUAL, &dice);
    tensor_open(&pool, u8, 1, DIMS(480 + 480 + 192 + 16), NULL, &dice);
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        const struct fence *own = &scene.tensor[order[i]].fence;
        memcpy(pool.fence.data + at, own->data, own->size);
        move_into(&scene.tensor[order[i]], &pool, at);
        at += (int64_t)own->size;
    }
    ok(runs_with(&scene, &scene.tensor[PRESENT].dl),
       "row 26: neighbours that touch do not overlap, order %d%d%d%d", order[0], order[1], order[2],
       order[3]);
}

TEST(memory) {
    static const int orders[][SCATTER_TENSORS] = {{PAST, PRESENT, UPDATE, INDICES},
                                                  {UPDATE, PRESENT, PAST, INDICES},
                                                  {PAST, INDICES, PRESENT, UPDATE},
                                                  {UPDATE, PAST, PRESENT, INDICES}};
    struct scene scene;
    for (int i = 0; i < 4; i++)
        test_neighbours(orders[i]);
    scene_open(&scene, "past=2,5,4 update=2,0,4 in-place", &dice);
    move_into(&scene.tensor[UPDATE], &scene.tensor[PAST], 16);
    scene_runs(&scene, "rows 8 and 26: an update without elements overlaps nothing");
    scene_open(&scene, USUAL, &dice);
    move_into(&scene.tensor[UPDATE], &scene.tensor[PAST], 32);
    scene_runs(&scene, "row 26: update may be a view of past_cache when not in place");
    test_same_in_other_words();
    test_misalignment();
}

/* ---- Packs ---- */

static void test_pack_refused(const kvmill_pack *const *list, size_t count, const char *word,
                              const char *name) {
    OWN(scene_close) struct scene scene;
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = list, .pack_count = count};
    scene_open(&scene, USUAL, &dice);
    ok(scene_plan_as_given(&scene, &options, &plan, &error) == KVMILL_E_PACK && plan == NULL &&
           strstr(error.message, word) != NULL,
       "%s", name);
}

TEST(packs) {
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
        " takes 6 to ",
        "a pack of version 0.1, by its name and both versions");
}

/* ---- Overflow ---- */

/* A run checks the strides of prototypes with an open dim; a plan only folds them. */
TEST(open_huge_strides) {
    int64_t open[] = {-1, 2, 3, 5, 4}, rows[] = {-1, 2, 3, 2, 4}, batch[] = {2, 2, 3, 5, 4};
    int64_t strides[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2, 4, 1};
    kvmill_call call;
    unsigned char byte = 0;
    DLTensor past = {&byte, {kDLCPU, 0}, 5, f32, open, strides, 0};
    DLTensor update = {&byte, {kDLCPU, 0}, 5, f32, rows, NULL, 0};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &past, .update = &update};
    const DLTensor *const tensors[] = {&past, &update, NULL, &past};
    bool good = kvmill_plan_tensor_scatter(&op, NULL, &plan, &error) == KVMILL_OK;
    past.shape = batch;
    ok(good &&
           kvmill_begin(&call, plan, tensors, KVMILL_TENSOR_SCATTER_TENSORS, NULL, &error) ==
               KVMILL_E_OVERFLOW &&
           strstr(error.message, "past_cache") != NULL,
       "overflow: strides that a plan could not judge");
    kvmill_plan_destroy(plan);
}

/* The largest possible number of bytes is a valid plan, although its size in bits overflows. */
TEST(largest) {
    int64_t dims[] = {1, 1, PTRDIFF_MAX / 16};
    DLTensor longest = {.ndim = 3, .dtype = {kDLComplex, 128, 1}, .shape = dims};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &longest, .update = &longest};
    ok(kvmill_plan_tensor_scatter(&op, &two_threads[1], &plan, NULL) == KVMILL_OK,
       "overflow: not for the longest row there may be");
    kvmill_plan_destroy(plan);
}

/* ---- Plans that know less than runs ---- */

/* Strides that a plan did not know are fine for portable kernels, and refused for a pack's. */
TEST(unplanned_strides) {
    for (int use_packs = 0; use_packs < 2; use_packs++) {
        OWN(scene_close) struct scene scene;
        OWN(tensor_close) struct fenced_tensor expected;
        scene_open(&scene, USUAL "open past-strides=60,20,1,5", &dice);
        scene_expect(&scene, &expected);
        bool good =
            scene_plan(&scene, use_packs ? &two_threads[1] : NULL, &plan, &error) == KVMILL_OK;
        for (int way = 0; good && way < WAYS && use_packs; way++)
            good = scene_run_way(&scene, way, plan, &error) == KVMILL_E_STRIDE &&
                   strstr(error.message, "plan with these strides") != NULL;
        ok(good && (use_packs || scene_run_ways(&scene, plan, &expected, 0, WAYS)),
           "rows in pieces, not planned, %s", use_packs ? "packs" : "portable");
        kvmill_plan_destroy(plan);
    }
}

/* Only write_indices had the batch; a run with another batch is refused. */
TEST(told_batch) {
    OWN(scene_close) struct scene scene, seven;
    scene_open(&scene, USUAL, &dice);
    scene_open(&seven, "past=7,3,5,4 update=7,3,2,4 starts=0,0,0,0,0,0,0 open=1 known-starts",
               &dice);
    ok_status(scene_plan(&seven, NULL, &plan, &error), KVMILL_OK, &error, "",
              "a batch that only write_indices told");
    ok_status(scene_run_way(&scene, 0, plan, &error), KVMILL_E_SHAPE, &error, "accepted: [7",
              "  and no other one");
    kvmill_plan_destroy(plan);
}
