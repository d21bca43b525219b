/* Every kernel of the linked packs that has numbers of its problem as constants, together with the
   general kernels.  A plan takes it for problems with these numbers and for no others, and results
   are the oracle's.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "packs.h"
#include "random_attention.h"
#include "scatter_scene.h"

/* ---- A pack in which one kernel counts its runs ---- */

enum { MOST_KERNELS = 8192 };

static const struct kvmill_kernel *watched;
static _Atomic int64_t runs; /* atomic: some ways to run use threads */

static void watch(const void *problem, int64_t first, int64_t last) {
    runs++;
    watched->run(problem, first, last);
}

/* The pack of a plan: this kernel, which is watched, and the general kernels of its family. */
static struct {
    const struct kvmill_kernel *list[MOST_KERNELS];
    struct kvmill_kernel special;
    kvmill_pack pack;
    const kvmill_pack *packs[1];
    kvmill_plan_options options;
} setting;

static void set_up(const kvmill_pack *pack, const struct kvmill_kernel *kernel) {
    uint32_t count = 0;
    watched = kernel;
    setting.special = *kernel;
    setting.special.run = watch;
    setting.list[count++] = &setting.special;
    for (uint32_t i = 0; i < pack->count && count < MOST_KERNELS; i++)
        if (pack->kernels[i]->constant_count == 0 && pack->kernels[i]->family == kernel->family)
            setting.list[count++] = pack->kernels[i];
    setting.pack = (kvmill_pack){
        .abi = KVMILL_KERNEL_ABI, .count = count, .name = "watched", .kernels = setting.list};
    setting.packs[0] = &setting.pack;
    setting.options = (kvmill_plan_options){.struct_size = sizeof setting.options,
                                            .packs = setting.packs,
                                            .pack_count = 1,
                                            .isa = kernel->isa};
}

/* ---- TensorScatter ---- */

/* Describes a scatter with three batch entries of the kernel's cache, with `more` slots. */
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

/* Whether a scatter is right, with the kernel's problem or with one more slot in the cache. */
static bool scatter_is_right(const struct kvmill_kernel *kernel, bool same, struct dice *dice) {
    OWN(scene_close) struct scene scene;
    OWN(tensor_close) struct fenced_tensor expected;
    OWN_PLAN kvmill_plan *plan;
    char words[256];
    say_scatter(kernel, !same, words);
    scene_open(&scene, words, dice);
    scene_expect(&scene, &expected);
    return scene_plan(&scene, &setting.options, &plan, NULL) == KVMILL_OK &&
           scene_run_ways(&scene, plan, &expected, 0, WAYS);
}

/* ---- Caches and attention ---- */

static bool is_attend(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_ATTEND;
}

/* Returns the kv heads in a row of K: they are adjacent in the layout of the tests' specs. */
static int64_t kv_heads_of(const struct kvmill_kernel *kernel) {
    const struct kvmill_attend_shape *attend = kernel->shape;
    const struct kvmill_convert_shape *convert = kernel->shape;
    const struct kvmill_format *format = is_attend(kernel) ? &attend->key : &convert->format;
    const char *stride = is_attend(kernel) ? "key_stride" : "cache.row_stride";
    return constant_of(kernel, stride, 0) / oracle_data_bytes(format);
}

static int64_t calls_rows(const struct attention *a) {
    return a->op.num_heads / a->op.num_kv_heads * a->tokens[0];
}

/* In a cache of one slot there is no stride from row to row, so no kernel has it as a constant. */
static bool has_layout(const struct attention *a) {
    return a->which != MULTI_HEAD_ATTENTION && !a->op.dynamic_batching && a->op.cache_layout == 0 &&
           a->spread == DENSE && a->ring == 0 && a->mask_rank == 0 &&
           a->start[0] + a->tokens[0] > 1;
}

/* Whether the problem has the kernel's numbers; if not `same`, one number differs. */
static bool is_wanted(const struct attention *a, const struct kvmill_kernel *kernel, bool same) {
    int64_t heads = kv_heads_of(kernel), rows = constant_of(kernel, "rows", 0);
    const struct kvmill_attend_shape *shape = kernel->shape;
    bool alike = a->op.num_kv_heads == heads;
    if (is_attend(kernel))
        alike = alike && (rows == 0 ? calls_rows(a) <= shape->rows : calls_rows(a) == rows);
    else
        alike = alike && a->op.num_repeat == constant_of(kernel, "repeat", a->op.num_repeat);
    return has_layout(a) && alike == same;
}

static bool attention_is_right_with(struct attention *a, struct dice *dice) {
    attention_open(a, dice);
    attention_expect(a, dice);
    bool right = attention_runs_right(a, &setting.options, 0, dice);
    attention_close(a);
    return right;
}

static bool rows_are_right(const struct kvmill_kernel *kernel, bool same, struct dice *dice) {
    for (int tries = 0; tries < 20000; tries++) {
        struct attention a = {0};
        random_fit(&a, kernel, dice);
        if (is_wanted(&a, kernel, same))
            return attention_is_right_with(&a, dice);
    }
    diag("%s: no problem for it", kernel->symbol);
    return false;
}

/* ---- Every kernel ---- */

static bool is_right(const struct kvmill_kernel *kernel, bool same, struct dice *dice) {
    runs = 0;
    bool right = kernel->family == KVMILL_STORE_ROWS ? scatter_is_right(kernel, same, dice)
                                                     : rows_are_right(kernel, same, dice);
    if (runs > 0)
        kernel_ran(kernel);
    if ((runs > 0) != same)
        diag("%s: %d runs for %s numbers", kernel->symbol, (int)runs, same ? "its" : "other");
    return right && (runs > 0) == same;
}

/* Whether random problems fit the kernel: a call may have any number of rows, so few have those of
   a large tile. */
static bool has_problems(const struct kvmill_kernel *kernel) {
    return !is_attend(kernel) || ((const struct kvmill_attend_shape *)kernel->shape)->rows <= 32;
}

static void test_kernel(const kvmill_pack *pack, const struct kvmill_kernel *kernel) {
    struct dice dice = dice_for_kernel(kernel);
    if (!isa_is_allowed(kernel->isa)) {
        skip_test("%s: this CPU or KVMILL_ISA rules out %s", kernel->symbol, kernel->isa);
        return;
    }
    set_up(pack, kernel);
    bool right = is_right(kernel, true, &dice);
    right = is_right(kernel, false, &dice) && right;
    ok(right, "%s is taken for its numbers alone, and right", kernel->symbol);
}

TEST(packs) {
    int count = 0;
    for (int p = 0; p < PACKS; p++)
        for (uint32_t i = 0; i < packs[p]->count; i++)
            if (packs[p]->kernels[i]->constant_count > 0 && has_problems(packs[p]->kernels[i])) {
                test_kernel(packs[p], packs[p]->kernels[i]);
                count++;
            }
    ok(count > 0, "%d kernels with constants", count);
}
