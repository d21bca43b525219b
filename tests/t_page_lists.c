/* Attention with a list of pages for each kv head: a head's result is that of a sequence whose
   pages are its list, to the bit; with the pages of the sequence it is that without lists.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_scenes.h"
#include "tap.h"

static struct dice dice;

/* ---- Scenes ---- */

static const struct scene {
    const char *name;
    int64_t longest;
    const char *settings;
} scenes[] = {
    {"float32", 70,
     "num_heads=4 num_kv_heads=2 head_dim=16 page_size=4 cache_layout=3 T1=float32 T2=float32"},
    {"float16, tokens first", 300,
     "num_heads=6 num_kv_heads=2 head_dim=64 page_size=16 cache_layout=2 T1=float16 T2=float16 "
     "sinks=1"},
    {"bfloat16, a kv head", 90,
     "num_heads=3 num_kv_heads=1 head_dim=80 page_size=5 cache_layout=1 T1=bfloat16 T2=bfloat16"},
    {"int8", 260,
     "num_heads=8 num_kv_heads=4 head_dim=64 page_size=16 cache_layout=3 T1=float16 "
     "T3=float16 " I8},
    {"int4, a soft-cap", 80,
     "num_heads=6 num_kv_heads=2 head_dim=16 page_size=8 cache_layout=0 softcap=3 " I4},
    {"pages of a token", 60,
     "num_heads=6 num_kv_heads=2 head_dim=16 page_size=1 cache_layout=3 sinks=1"},
    {"pieces", 9000,
     "num_heads=6 num_kv_heads=2 head_dim=64 page_size=16 cache_layout=3 T1=float16 T2=float16 "
     "sinks=1"},
};
enum { SCENES = sizeof scenes / sizeof *scenes, REQUESTS = 3 };

/* Three requests with a new token each. */
static void open_scene(const struct scene *scene, struct attention *a) {
    *a = attention_scene(D, "batch=3 tokens=1 cache_mode=1");
    attention_say(a, scene->settings);
    for (int b = 0; b < REQUESTS; b++)
        a->start[b] = b == 0 ? scene->longest - 1 : dice_range(&dice, 0, scene->longest - 1);
    attention_open(a, &dice);
    attention_expect(a, &dice);
}

/* ---- Runs ---- */

static kvmill_status run(struct attention *a, const kvmill_plan_options *options, int threads,
                         kvmill_error *error) {
    kvmill_plan *plan;
    kvmill_status status = attention_plan(a, options, &plan, error);
    if (status == KVMILL_OK)
        status = attention_run_fenced(a, plan, threads, &dice, error);
    kvmill_plan_destroy(plan);
    return status;
}

static size_t output_size(const struct attention *a) {
    return a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT].fence.size;
}

/* A copy of the output of a run; NULL where it failed. */
static unsigned char *output_of(struct attention *a, const kvmill_plan_options *options,
                                int threads) {
    kvmill_error error;
    attention_restore(a);
    kvmill_status status = run(a, options, threads, &error);
    if (status != KVMILL_OK) {
        diag("%s: %s", kvmill_status_name(status), error.message);
        return NULL;
    }
    unsigned char *copy = malloc(output_size(a));
    if (copy == NULL)
        bail_out("out of memory");
    memcpy(copy, a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT].fence.data, output_size(a));
    return copy;
}

/* ---- Lists ---- */

/* Pages [REQUESTS, kv heads, most] and how long requests are along them. */
struct lists {
    int64_t most, kv_heads;
    int64_t *rows;
    int64_t start[REQUESTS], kvstarts[REQUESTS + 1], most_length;
    int64_t shape[3], strides[3];
    DLTensor table, start_tensor, kvstarts_tensor, most_tensor;
};

static const DLDataType i64 = {kDLInt, 64, 1};

static DLTensor vector(int64_t *numbers, int64_t *count) {
    return (DLTensor){
        .data = numbers, .device = {kDLCPU, 0}, .ndim = 1, .dtype = i64, .shape = count};
}

static const int64_t *table_of(const struct attention *a) {
    return (const int64_t *)(const void *)a->dense[KVMILL_CACHE_ATTENTION_CACHESTARTS];
}

static int64_t pages_of(const struct attention *a, int64_t b) {
    return a->start[b] / a->op.page_size + 1;
}

/* The list of a head: all pages, or some of them and the last; as many for every head. */
static void fill_list(const struct attention *a, int64_t b, int64_t count, int64_t *rows) {
    int64_t *order = calloc((size_t)pages_of(a, b) + 1, sizeof *order), last = pages_of(a, b) - 1;
    if (order == NULL)
        bail_out("out of memory");
    dice_order(&dice, order, last);
    for (int64_t i = 0; i < count - 1; i++)
        rows[i] = table_of(a)[b * a->pages + (count == last + 1 ? i : order[i])];
    rows[count - 1] = table_of(a)[b * a->pages + last];
    free(order);
}

static void lists_open(const struct attention *a, bool all, struct lists *lists) {
    int64_t size = a->op.page_size;
    *lists = (struct lists){.most = a->pages, .kv_heads = a->op.num_kv_heads};
    lists->rows = calloc((size_t)(REQUESTS * lists->kv_heads * lists->most), sizeof(int64_t));
    if (lists->rows == NULL)
        bail_out("out of memory");
    for (int64_t b = 0; b < REQUESTS; b++) {
        int64_t count = all ? pages_of(a, b) : dice_range(&dice, 1, pages_of(a, b));
        lists->start[b] = (count - 1) * size + a->start[b] % size;
        lists->kvstarts[b + 1] = lists->kvstarts[b] + lists->start[b] + 1;
        for (int64_t h = 0; h < lists->kv_heads; h++)
            fill_list(a, b, count, lists->rows + (b * lists->kv_heads + h) * lists->most);
    }
}

static const int64_t requests = REQUESTS, one_more = REQUESTS + 1;

/* As the tensors of a run: all lists, or those of one head alone. */
static void lists_give(struct lists *lists, struct attention *a, int64_t head) {
    bool all = head < 0;
    int64_t kv_heads = lists->kv_heads, most = lists->most;
    lists->start_tensor = vector(lists->start, (int64_t *)&requests);
    lists->kvstarts_tensor = vector(lists->kvstarts, (int64_t *)&one_more);
    memcpy(lists->shape,
           all ? (int64_t[]){REQUESTS, kv_heads, most} : (int64_t[]){REQUESTS, most, 0},
           sizeof lists->shape);
    memcpy(lists->strides,
           all ? (int64_t[]){kv_heads * most, most, 1} : (int64_t[]){kv_heads * most, 1, 0},
           sizeof lists->strides);
    lists->table = (DLTensor){.data = lists->rows + (all ? 0 : head * most),
                              .device = {kDLCPU, 0},
                              .ndim = all ? 3 : 2,
                              .dtype = i64,
                              .shape = lists->shape,
                              .strides = lists->strides};
    a->given[KVMILL_CACHE_ATTENTION_CACHESTARTS] = &lists->table;
    a->given[KVMILL_CACHE_ATTENTION_START_POS] = &lists->start_tensor;
    a->given[KVMILL_CACHE_ATTENTION_KVSTARTS] = &lists->kvstarts_tensor;
}

static void lists_close(struct lists *lists, struct attention *a) {
    free(lists->rows);
    a->given[KVMILL_CACHE_ATTENTION_CACHESTARTS] =
        &a->tensor[KVMILL_CACHE_ATTENTION_CACHESTARTS].dl;
    a->given[KVMILL_CACHE_ATTENTION_START_POS] = &a->tensor[KVMILL_CACHE_ATTENTION_START_POS].dl;
    a->given[KVMILL_CACHE_ATTENTION_KVSTARTS] = &a->tensor[KVMILL_CACHE_ATTENTION_KVSTARTS].dl;
}

/* ---- With all pages ---- */

static void test_all_pages(const struct scene *scene) {
    for (int i = 0; i < 4; i++) {
        struct attention a;
        struct lists lists;
        open_scene(scene, &a);
        unsigned char *dense = output_of(&a, &attention_options[i / 2], 0);
        bool right = dense != NULL && attention_is_right(&a);
        lists_open(&a, true, &lists);
        lists_give(&lists, &a, -1);
        unsigned char *listed = output_of(&a, &attention_options[i / 2], i % 2 ? 3 : 0);
        lists_close(&lists, &a);
        right = right && listed != NULL && memcmp(dense, listed, output_size(&a)) == 0 &&
                attention_is_right(&a);
        ok(right, "%s, %s: lists of all pages are as none", scene->name,
           i / 2 ? "packs" : "no packs");
        free(dense);
        free(listed);
        attention_close(&a);
    }
}

/* ---- With some ---- */

/* The query heads of a kv head, of all requests. */
static bool heads_equal(const struct attention *a, int64_t head, const unsigned char *x,
                        const unsigned char *y) {
    int64_t ratio = a->op.num_heads / a->op.num_kv_heads;
    size_t row = (size_t)a->op.head_dim * (a->op.T1.bits / 8), group = (size_t)ratio * row;
    const struct fenced_tensor *output = &a->tensor[KVMILL_CACHE_ATTENTION_ATTN_OUTPUT];
    const unsigned char *first = (const unsigned char *)output->dl.data + output->dl.byte_offset;
    size_t before = (size_t)(first - output->fence.data);
    for (int64_t b = 0; b < REQUESTS; b++) {
        size_t at = before + (size_t)(b * a->op.num_heads + head * ratio) * row;
        if (memcmp(x + at, y + at, group) != 0)
            return false;
    }
    return true;
}

static void test_some_pages(const struct scene *scene) {
    for (int i = 0; i < 4; i++) {
        struct attention a;
        struct lists lists;
        open_scene(scene, &a);
        lists_open(&a, false, &lists);
        lists_give(&lists, &a, -1);
        unsigned char *listed = output_of(&a, &attention_options[i / 2], i % 2 ? 3 : 0);
        bool right = listed != NULL;
        for (int64_t h = 0; right && h < a.op.num_kv_heads; h++) {
            lists_give(&lists, &a, h);
            unsigned char *alone = output_of(&a, &attention_options[i / 2], 0);
            right = alone != NULL && heads_equal(&a, h, listed, alone);
            free(alone);
        }
        lists_close(&lists, &a);
        ok(right, "%s, %s: each head is as with its list alone", scene->name,
           i / 2 ? "packs" : "no packs");
        free(listed);
        attention_close(&a);
    }
}

int main(void) {
    uint64_t seed = dice_seed();
    for (int i = 0; i < SCENES; i++) {
        dice = dice_for(seed, scenes[i].name);
        if (is_slow_run() && scenes[i].longest > 1000)
            continue;
        test_all_pages(&scenes[i]);
        test_some_pages(&scenes[i]);
    }
    return done_testing();
}
