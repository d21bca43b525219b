/* The nearest of several sizes, and the kernel that a call of cache attention takes if a pack has
   several for the same problem.  The kernels here record their calls.

   SPDX-License-Identifier: Apache-2.0 */
#include "../runtime/core/by_size.h"
#include "attention_scenes.h"
#include "program.h"

DICE("sizes");

/* ---- Kernels that record their calls ---- */

enum {
    SMALL,
    LARGE,
    LONG,
    CHUNK,
    WRITE_ONE,
    WRITE_MANY,
    STORE_ONE,
    STORE_MANY,
    KERNELS,
    DIM = 16,
    HUNGRY = 1 << 16
};

static bool called[KERNELS];

/* Uses all of the workspace, and sees no keys. */
static void attend(int number, const struct kvmill_attend *problem) {
    called[number] = true;
    memset(problem->workspace, 0, (size_t)problem->shape->workspace);
    for (int64_t i = 0; problem->end && i < problem->rows; i++)
        if (problem->partial == NULL)
            memset(problem->row[i].output, 0, DIM * sizeof(float));
        else
            memset(problem->partial + i * (2 + DIM), 0, (2 + DIM) * sizeof(float));
}

#define ATTEND(number)                                                                             \
    static void attend_##number(const void *problem, int64_t first, int64_t last) {                \
        (void)first, (void)last;                                                                   \
        attend(number, problem);                                                                   \
    }
ATTEND(SMALL)
ATTEND(LARGE)
ATTEND(LONG)
ATTEND(CHUNK)

#define MOVE(number)                                                                               \
    static void move_##number(const void *problem, int64_t first, int64_t last) {                  \
        (void)problem, (void)first, (void)last;                                                    \
        called[number] = true;                                                                     \
    }
MOVE(WRITE_ONE)
MOVE(WRITE_MANY)
MOVE(STORE_ONE)
MOVE(STORE_MANY)

#define SHAPE(bytes)                                                                               \
    {                                                                                              \
        .activation = KVMILL_F32, .key = {KVMILL_F32, DIM, 0, 0},                                  \
        .value = {KVMILL_F32, DIM, 0, 0}, .rows = 4, .workspace = bytes                            \
    }
static const struct kvmill_attend_shape shape = SHAPE(64), hungry = SHAPE(HUNGRY);

static const struct kvmill_convert_shape row_shape = {KVMILL_F32, {KVMILL_F32, DIM, 0, 0}};
static const struct kvmill_rows_shape store_shape = {8,          0,          KVMILL_ANY,
                                                     KVMILL_ANY, KVMILL_ANY, DIM * sizeof(float)};

#define KERNEL(number, its_family, words, its_shape, its_run)                                      \
    [number] = {.abi = KVMILL_KERNEL_ABI,                                                          \
                .family = its_family,                                                              \
                .symbol = words,                                                                   \
                .isa = "scalar",                                                                   \
                .shape = &its_shape,                                                               \
                .run = its_run##number}
static const struct kvmill_kernel kernels[KERNELS] = {
    KERNEL(SMALL, KVMILL_ATTEND, "a__scalar_small", shape, attend_),
    KERNEL(LARGE, KVMILL_ATTEND, "a__scalar_large", shape, attend_),
    KERNEL(LONG, KVMILL_ATTEND, "a__scalar_long", hungry, attend_),
    KERNEL(CHUNK, KVMILL_ATTEND, "a__scalar_chunk", shape, attend_),
    KERNEL(WRITE_ONE, KVMILL_WRITE_ROWS, "w__scalar_one", row_shape, move_),
    KERNEL(WRITE_MANY, KVMILL_WRITE_ROWS, "w__scalar_many", row_shape, move_),
    KERNEL(STORE_ONE, KVMILL_STORE_ROWS, "s__scalar_one", store_shape, move_),
    KERNEL(STORE_MANY, KVMILL_STORE_ROWS, "s__scalar_many", store_shape, move_)};
static const struct kvmill_kernel *const list[KERNELS] = {&kernels[0], &kernels[1], &kernels[2],
                                                          &kernels[3], &kernels[4], &kernels[5],
                                                          &kernels[6], &kernels[7]};

static const struct kvmill_kernel stranger = {.abi = KVMILL_KERNEL_ABI, .isa = "strange"};

/* Two of these records belong to a kernel of another pack. */
static const struct kvmill_measured measured[] = {
    {&stranger, "decode 1 on 64", 0, {1, 1, 64}},
    {&kernels[SMALL], "decode 1 on 64", 1, {1, 1, 64}},
    {&kernels[LARGE], "decode 16 on 64", 1, {16, 1, 64}},
    {&kernels[LONG], "decode 1 on 1024", 1, {1, 1, 1024}},
    {&kernels[CHUNK], "prefill 32 on 32", 1, {1, 32, 32}},
    {&stranger, "decode 1 on 64", 2, {1, 1, 64}},
    {&kernels[WRITE_ONE], "store 1 rows", 3, {1, 1, 0}},
    {&kernels[WRITE_MANY], "store 64", 3, {1, 64, 0}},
    {&kernels[STORE_ONE], "update 1 in place", 4, {1, 1, 0}},
    {&kernels[STORE_MANY], "update 64 in place", 4, {64, 1, 0}},
};
enum { RECORDS = sizeof measured / sizeof *measured };

static const kvmill_pack pack = {.abi = KVMILL_KERNEL_ABI,
                                 .count = KERNELS,
                                 .name = "made",
                                 .kernels = list,
                                 .measured_count = RECORDS,
                                 .measured = measured};

/* ---- The nearest ---- */

static bool is_nearest(int64_t batch, int64_t tokens, int64_t positions, int number) {
    struct by_size by_size = kvmill_by_size_of(&pack, &kernels[LONG]);
    const struct kvmill_call_size size = {batch, tokens, positions};
    return kvmill_nearest_kernel(&by_size, &size) == &kernels[number];
}

/* A problem without positions is judged by the rest of its size. */
TEST(unsaid) {
    const struct kvmill_measured two[] = {{&kernels[WRITE_ONE], "store 1 rows", 0, {1, 1, 0}},
                                          {&kernels[WRITE_MANY], "read 8 on 64", 0, {1, 8, 64}}};
    const struct by_size by_size = {.kernel = &kernels[WRITE_ONE], .measured = two, .count = 2};
    const struct kvmill_call_size few = {1, 2, 64}, many = {1, 8, 64};
    ok(kvmill_nearest_kernel(&by_size, &few) == &kernels[WRITE_ONE] &&
           kvmill_nearest_kernel(&by_size, &many) == &kernels[WRITE_MANY],
       "a size of any positions");
}

/* The kernels of older packs end before that member. */
TEST(constants) {
    struct kvmill_kernel kernel = {.abi = 6, .constant_count = 1};
    bool older = kvmill_has_constants(&kernel);
    kernel.abi = 7;
    ok(!older && kvmill_has_constants(&kernel), "kernels have constants from ABI 7 on");
}

TEST(nearest) {
    struct by_size all = kvmill_by_size_of(&pack, &kernels[LARGE]);
    ok(all.measured == measured + 1 && all.count == 4, "the records of a choice");
    ok(kvmill_by_size_of(&pack, &(struct kvmill_kernel){.abi = 3}).count == 0,
       "none of a kernel that was not measured");
    ok(is_nearest(1, 1, 64, SMALL) && is_nearest(16, 1, 64, LARGE) && is_nearest(1, 1, 1024, LONG),
       "sizes that were measured");
    ok(is_nearest(4, 1, 64, SMALL), "of two that are equally near the first");
    ok(is_nearest(5, 1, 64, LARGE) && is_nearest(3, 1, 64, SMALL), "what is nearer by ratio");
    ok(is_nearest(1, 1, 256, SMALL) && is_nearest(1, 1, 258, LONG), "to a hundredth");
    ok(is_nearest(1, 16, 64, CHUNK) && is_nearest(1, 4, 64, SMALL), "by new tokens, too");
    ok(is_nearest(INT64_MAX, 1, 1, LARGE) && is_nearest(0, 0, 0, SMALL) &&
           is_nearest(1, 1, INT64_MAX, LONG),
       "at both ends");
}

/* ---- Calls ---- */

static struct attention scene(int64_t sequences, int64_t tokens, int64_t positions) {
    char settings[96];
    snprintf(settings, sizeof settings,
             "num_heads=1 num_kv_heads=1 head_dim=%d query_size=1 batch=%d tokens=%d start=%d", DIM,
             (int)sequences, (int)tokens, (int)(positions - tokens));
    return attention_scene(S, settings);
}

static void run(struct attention a, const kvmill_pack *with, int threads) {
    kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &with, .pack_count = 1, .threads = 3};
    memset(called, 0, sizeof called);
    attention_open(&a, &dice);
    OWN_PLAN kvmill_plan *plan = attention_plan_and_run(&a, &options, threads, &dice);
    must(plan != NULL, "no run");
    attention_close(&a);
}

/* Whether only this kernel of its family was called. */
static bool calls_only(int number) {
    bool good = true;
    for (int i = 0; i < KERNELS; i++)
        if (kernels[i].family == kernels[number].family)
            good = good && called[i] == (i == number);
    return good;
}

static bool takes(struct attention a, const kvmill_pack *with, int number) {
    bool good = true;
    for (int threads = 0; good && threads <= 3; threads += 3) {
        run(a, with, threads);
        good = calls_only(number);
    }
    return good;
}

TEST(calls) {
    ok(takes(scene(1, 1, 60), &pack, SMALL), "a call takes the kernel of the nearest size");
    ok(takes(scene(8, 1, 64), &pack, LARGE), "of a larger batch");
    ok(takes(scene(2, 1, 1000), &pack, LONG), "of a longer cache, with its workspace");
    ok(takes(scene(1, 16, 40), &pack, CHUNK), "of more tokens");
    ok(takes(scene(1, 1, 4100), &pack, LONG), "also where positions are split");
    struct attention a = scene(1, 1, 1000);
    a.op.left_window_size = 63;
    ok(takes(a, &pack, SMALL), "a window lets see less of a cache");
    a = scene(2, 1, 20);
    a.op.dynamic_batching = 1;
    ok(takes(a, &pack, SMALL), "sequences of a dynamic batch");
    a.start[1] = 1500;
    ok(takes(a, &pack, LONG), "  count by their mean");
}

/* Updates one row of each of `batch` sequences. */
static bool updates_with(int64_t batch, bool is_prepared, int number) {
    static float cache[64 * 4 * DIM], rows[64 * DIM];
    int64_t dims[] = {batch, 1, 4, DIM}, row_dims[] = {batch, 1, 1, DIM};
    int64_t open[] = {KVMILL_DYNAMIC, 1, 4, DIM}, open_rows[] = {KVMILL_DYNAMIC, 1, 1, DIM};
    const DLDataType f32 = {kDLFloat, 32, 1};
    const DLTensor past = dense_tensor(f32, 4, dims, cache);
    const DLTensor update = dense_tensor(f32, 4, row_dims, rows);
    const DLTensor past_plan = dense_tensor(f32, 4, is_prepared ? dims : open, NULL);
    const DLTensor update_plan = dense_tensor(f32, 4, is_prepared ? row_dims : open_rows, NULL);
    const kvmill_pack *packs[] = {&pack};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 1};
    const kvmill_tensor_scatter op = {.struct_size = sizeof op,
                                      .axis = -2,
                                      .mode = "linear",
                                      .past_cache = &past_plan,
                                      .update = &update_plan};
    const DLTensor *tensors[] = {&past, &update, NULL, &past};
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    memset(called, 0, sizeof called);
    must(kvmill_plan_tensor_scatter(&op, &options, &plan, &error) == KVMILL_OK &&
             kvmill_run(plan, tensors, KVMILL_TENSOR_SCATTER_TENSORS, NULL, &error) == KVMILL_OK,
         error.message);
    return calls_only(number);
}

TEST(rows) {
    ok(takes(scene(1, 2, 40), &pack, WRITE_ONE) && takes(scene(1, 40, 40), &pack, WRITE_MANY),
       "kernels that store rows for attention, by tokens");
    for (int prepared = 0; prepared < 2; prepared++)
        ok(updates_with(2, prepared, STORE_ONE) && updates_with(60, prepared, STORE_MANY),
           "those of TensorScatter, by batch, %s", prepared ? "known to the plan" : "not known");
}

TEST(packs) {
    kvmill_pack other = pack;
    other.measured_count = 0;
    ok(takes(scene(16, 1, 64), &other, SMALL), "without records: the first kernel");
    struct kvmill_measured unusable[RECORDS];
    memcpy(unusable, measured, sizeof unusable);
    unusable[2].kernel = &stranger;
    other = pack;
    other.measured = unusable;
    ok(takes(scene(16, 1, 64), &other, SMALL), "a choice with a kernel this CPU lacks is none");
    unusable[2].kernel = &kernels[WRITE_ONE];
    ok(takes(scene(16, 1, 64), &other, SMALL), "nor is one with a kernel that does something else");
}

TEST(description) {
    const kvmill_pack *packs[] = {&pack};
    kvmill_plan_options options = {.struct_size = sizeof options, .packs = packs, .pack_count = 1};
    const struct attention a = scene(1, 1, 1);
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    must(attention_plan(&a, &options, &plan, &error) == KVMILL_OK, error.message);
    ok(plan_says(plan, "; attend with a__scalar_small (pack made); by the nearest size: "
                       "decode 1 on 64 with a__scalar_small, decode 16 on 64 with a__scalar_large, "
                       "decode 1 on 1024 with a__scalar_long, "
                       "prefill 32 on 32 with a__scalar_chunk"),
       "a plan says which kernel is for which size");
}
