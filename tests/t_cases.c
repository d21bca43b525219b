/* The case table of the TensorScatter reference, row by row, and its vectors: what is accepted and
   gives which bytes; most of it in tests/tables/tensor_scatter.tsv.  What is refused is in
   tests/tables/refusals/.

   SPDX-License-Identifier: Apache-2.0 */
#include <kvmill_kernel.h>

#include "common.h"
#include "packs.h"
#include "scatter_scene.h"
#include "table.h"

DICE("cases");

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- Rows of the table ---- */

#define USUAL "past=2,3,5,4 update=2,3,2,4 starts=1,3 "

/* Each in place, too, and planned with open dims, unless there are strides. */
TEST(accepted) {
    static const char *const ways[] = {"", " in-place", " open", " open in-place"};
    struct table table = table_open("tensor_scatter");
    char name[128], settings[256];
    struct scene scene;
    for (char *row[2]; table_next(&table, row, 2);)
        for (int way = 0; way < (strstr(row[1], "-strides") ? 1 : 4); way++) {
            snprintf(settings, sizeof settings, "%s%s", row[1], ways[way]);
            snprintf(name, sizeof name, "%s%s", row[0], ways[way]);
            scene_open(&scene, settings, &dice);
            scene_runs(&scene, name);
        }
    table_close(&table);
}

/* ---- Bits, and four of them ---- */

TEST(bits_survive) {
    static const uint32_t bits[] = {0x7fa00001, 0xffc12345, 0x80000000, 0x00000001,
                                    0x7f800000, 0x7fc00000, 0x807fffff, 0xffffffff};
    struct scene scene;
    uint32_t want[12];
    scene_open(&scene, "past=1,3,4 update=1,1,4 starts=1", &dice);
    memcpy(scene_bytes(&scene, PAST), bits, 32);
    memcpy((char *)scene_bytes(&scene, PAST) + 32, bits, 16);
    memcpy(scene_bytes(&scene, UPDATE), bits + 4, 16);
    memcpy(want, bits, 32);
    memcpy(want + 8, bits, 16);
    scene_gives(&scene, want, "section 1: NaN payloads, -0 and denormals survive");
}

/* The pad of the last byte is 0 in a fresh output, and survives in place. */
static void test_nibbles(int pad, bool in_place, const char *name) {
    const unsigned char past[] = {0x21, 0x43, 0x65, 0x87, (unsigned char)(pad << 4 | 9)};
    const unsigned char want[] = {0x21, 0xf3, 0xde, 0x87,
                                  (unsigned char)((in_place ? pad << 4 : 0) | 9)};
    struct scene scene;
    scene_open(&scene, "dtype=int4 past=1,3,3 update=1,1,3 starts=1", &dice);
    memcpy(scene_bytes(&scene, PAST), past, sizeof past);
    memcpy(scene_bytes(&scene, UPDATE), (const unsigned char[]){0xef, 0x0d}, 2);
    if (in_place)
        scene_make_in_place(&scene);
    scene_gives(&scene, want, name);
}

TEST(int4) {
    test_nibbles(0, false, "section 3: the int4 example");
    test_nibbles(0, true, "section 3: the int4 example, in place");
    test_nibbles(5, false, "section 3: the pad of a fresh output is 0");
    test_nibbles(5, true, "section 3: the pad survives in place");
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
    scene_expect(scene, &expected);
    bool good = scene_plan_as_given(scene, &scatter_packs, &plan, NULL) == KVMILL_OK;
    scene->given[tensor] = other;
    good = good && scene_run_way(scene, 0, plan, NULL) == KVMILL_OK &&
           memcmp((char *)other->data + other->byte_offset, expected.fence.data,
                  expected.fence.size) == 0;
    kvmill_plan_destroy(plan);
    tensor_close(&expected);
    return good;
}

static void test_same_in_other_words(void) {
    struct scene scene;
    scene_open(&scene, USUAL "in-place", &dice);
    DLTensor same = scene.tensor[PAST].dl;
    same.data = (unsigned char *)same.data - 8;
    same.byte_offset += 8;
    same.strides = (int64_t[]){60, 20, 4, 1};
    ok(runs_with(&scene, PRESENT, &same), "row 25: in place, the same memory in other words");
    scene_close(&scene);
}

static void test_misalignment(void) {
    struct fenced_tensor pool;
    bool good = true;
    tensor_open(&pool, u8, 1, DIMS(1200), NULL, &dice);
    for (int64_t offset = 0; good && offset < 64; offset++) {
        struct scene scene;
        scene_open(&scene, USUAL, &dice);
        DLTensor present = scene.tensor[PRESENT].dl;
        present.data = pool.fence.data + offset;
        present.byte_offset = 0;
        good = runs_with(&scene, PRESENT, &present);
        scene_close(&scene);
    }
    ok(good, "row 28: present_cache at any address");
    tensor_close(&pool);
}

/* All four in one piece of memory, in this order and without a gap. */
static void test_neighbours(const int *order) {
    struct scene scene;
    struct fenced_tensor pool;
    int64_t at = 0;
    scene_open(&scene, USUAL, &dice);
    tensor_open(&pool, u8, 1, DIMS(480 + 480 + 192 + 16), NULL, &dice);
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
    scene_close(&scene);
}

TEST(memory) {
    static const int orders[][TENSORS] = {{PAST, PRESENT, UPDATE, INDICES},
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
    struct scene scene;
    kvmill_plan *plan;
    kvmill_error error;
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = list, .pack_count = count};
    scene_open(&scene, USUAL, &dice);
    ok(scene_plan_as_given(&scene, &options, &plan, &error) == KVMILL_E_PACK && plan == NULL &&
           strstr(error.message, word) != NULL,
       "%s", name);
    scene_close(&scene);
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

/* Strides of prototypes that leave a dim open are looked at by a run; a plan only folds them. */
TEST(open_huge_strides) {
    int64_t open[] = {-1, 2, 3, 5, 4}, rows[] = {-1, 2, 3, 2, 4}, batch[] = {2, 2, 3, 5, 4};
    int64_t strides[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2, 4, 1};
    kvmill_plan *plan = NULL;
    kvmill_error error;
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

/* The most bytes there may be: still a valid plan, whatever its size in bits. */
TEST(largest) {
    int64_t dims[] = {1, 1, PTRDIFF_MAX / 16};
    DLTensor longest = {.ndim = 3, .dtype = {kDLComplex, 128, 1}, .shape = dims};
    kvmill_tensor_scatter op = {
        .struct_size = sizeof op, .axis = -2, .past_cache = &longest, .update = &longest};
    kvmill_plan *plan;
    ok(kvmill_plan_tensor_scatter(&op, &scatter_packs, &plan, NULL) == KVMILL_OK,
       "overflow: not for the longest row there may be");
    kvmill_plan_destroy(plan);
}

/* ---- Plans that know less than runs ---- */

/* Strides a plan did not see: no matter to the portable kernels, too much for a pack's. */
TEST(unplanned_strides) {
    for (int use_packs = 0; use_packs < 2; use_packs++) {
        struct scene scene;
        struct fenced_tensor expected;
        kvmill_plan *plan = NULL;
        kvmill_error error = {""};
        scene_open(&scene, USUAL "open past-strides=60,20,1,5", &dice);
        scene_expect(&scene, &expected);
        bool good =
            scene_plan(&scene, use_packs ? &scatter_packs : NULL, &plan, &error) == KVMILL_OK;
        for (int way = 0; good && way < WAYS && use_packs; way++)
            good = scene_run_way(&scene, way, plan, &error) == KVMILL_E_STRIDE &&
                   strstr(error.message, "plan with these strides") != NULL;
        ok(good && (use_packs || scene_run_ways(&scene, plan, &expected, 0, WAYS)),
           "rows in pieces, not planned, %s", use_packs ? "packs" : "portable");
        kvmill_plan_destroy(plan);
        tensor_close(&expected);
        scene_close(&scene);
    }
}

/* write_indices alone told the batch: another one is refused. */
TEST(told_batch) {
    struct scene scene, seven;
    kvmill_plan *plan = NULL;
    kvmill_error error;
    scene_open(&scene, USUAL, &dice);
    scene_open(&seven, "past=7,3,5,4 update=7,3,2,4 starts=0,0,0,0,0,0,0 open=1 known-starts",
               &dice);
    ok_status(scene_plan(&seven, NULL, &plan, &error), KVMILL_OK, &error, "",
              "a batch that only write_indices told");
    ok_status(scene_run_way(&scene, 0, plan, &error), KVMILL_E_SHAPE, &error, "accepted: [7",
              "  and no other one");
    kvmill_plan_destroy(plan);
    scene_close(&seven);
    scene_close(&scene);
}

/* ---- Section 7: the published tests, and the erratum ---- */

/* past counts from 0; rows of update are negative. */
static void number(struct scene *scene) {
    float *past = scene_bytes(scene, PAST), *update = scene_bytes(scene, UPDATE);
    for (size_t i = 0; i < scene->tensor[PAST].fence.size / sizeof *past; i++)
        memcpy(&past[i], &(float){(float)i}, sizeof *past);
    for (size_t i = 0; i < scene->tensor[UPDATE].fence.size / sizeof *update; i++)
        memcpy(&update[i], &(float){-1 - (float)i}, sizeof *update);
}

TEST(published) {
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
    scene_open(&scene, "past=2,1,4,5 update=2,1,1,5 starts=1,2", &dice);
    memcpy(scene_bytes(&scene, PAST), past, sizeof past);
    memcpy(scene_bytes(&scene, UPDATE), update, sizeof update);
    scene_gives(&scene, linear, "section 7: test_tensorscatter");
    scene_open(&scene, "past=3,4,5 update=3,2,5 starts=1,2,0", &dice);
    number(&scene);
    scene_gives(&scene, of_3d, "section 7: test_tensorscatter_3d");
    scene_open(&scene, "mode=circular past=2,1,4,5 update=2,1,2,5 starts=1,3", &dice);
    number(&scene);
    scene_gives(&scene, circular, "section 7: test_tensorscatter_circular");
}

/* Only the sequence coordinate wraps: batch entries and heads beyond the capacity are their own. */
TEST(erratum) {
    static const unsigned char want[] = {1,  12, 13, 14, 2,  22, 23, 24, 3,  32,
                                         33, 34, 4,  42, 43, 44, 5,  52, 53, 54};
    struct scene scene;
    scene_open(&scene, "mode=circular dtype=uint8 past=5,4,1 update=5,1,1 starts=0,0,0,0,0", &dice);
    for (int i = 0; i < 20; i++)
        ((unsigned char *)scene_bytes(&scene, PAST))[i] =
            (unsigned char)(10 * (i / 4) + i % 4 + 11);
    for (int i = 0; i < 5; i++)
        ((unsigned char *)scene_bytes(&scene, UPDATE))[i] = (unsigned char)(i + 1);
    scene_gives(&scene, want, "section 1: the example of the erratum, B above M");
}
