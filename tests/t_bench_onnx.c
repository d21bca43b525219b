/* What `kvmill bench` and `kvmill tune` measure of ONNX Attention and of CacheAttend: which sizes a
   spec has, how much there is to do, runs on tensors of every form, and that kernels that are wrong
   are found.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../bench/bench.h"
#include "../bench/scene_onnx.h"
#include "bad_attend.h"
#include "tap.h"

static struct bench_results results;
static struct error error;

enum { SMALL_ROTATION = 1 << 20 };

#define HALVES "\"T1\": \"float16\", \"opset\": 25, "
#define SHAPES                                                                                     \
    "\"Q\": [\"?\", 4, \"?\", 32], \"K\": [\"?\", 2, \"?\", 32], \"V\": [\"?\", 2, \"?\", 16]"
#define PASTS  ", \"past_key\": [\"?\", 2, \"?\", 32], \"past_value\": [\"?\", 2, \"?\", 16]"
#define NONPAD ", \"nonpad_kv_seqlen\": [\"?\"]"
#define ANY                                                                                        \
    "{\"op\": \"CacheAttend\", \"T1\": \"float16\", \"num_heads\": 4, \"num_kv_heads\": 2, "       \
    "\"key_head_dim\": 32, "
#define SHORT_VALUES "\"value_head_dim\": 16, \"key_T2\": \"float16\""

/* ---- Specs ---- */

static void open_spec(const char *text, struct spec_list *list) {
    struct json_place place = {.file = "test", .value = json_loads(text, 0, NULL)};
    *list = (struct spec_list){0};
    if (place.value == NULL || !spec_read(&place, list, &error))
        bail_out("%s: %s", text, place.value ? error.text : "no JSON");
    json_decref(place.value);
}

/* A row of K and V is 2 heads of 48 halves: 192 bytes; a pair 2 * 4 * 48 operations. */
enum { ROW = 192, PAIR = 384 };

/* By one token on 4096, and by 512 on 512; 0: not there. */
struct work {
    const char *name, *text;
    double decode_bytes, decode_flops, prefill_bytes, prefill_flops;
};

static const struct work works[] = {
    {"all of K", "{\"op\": \"Attention\", " HALVES SHAPES "}", 4096.0 * ROW, 4096.0 * PAIR,
     512.0 * ROW, 512.0 * 512 * PAIR},
    {"causal from the top left", "{\"op\": \"Attention\", \"is_causal\": 1, " HALVES SHAPES "}", 0,
     0, 512.0 * ROW, 512.0 * 513 / 2 * PAIR},
    {"causal, valid keys", "{\"op\": \"Attention\", \"is_causal\": 1, " HALVES SHAPES NONPAD "}",
     4096.0 * ROW, 4096.0 * PAIR, 512.0 * ROW, 512.0 * 513 / 2 * PAIR},
    {"a past", "{\"op\": \"Attention\", \"is_causal\": 1, " HALVES SHAPES PASTS "}", 4096.0 * ROW,
     4096.0 * PAIR, 512.0 * ROW, 512.0 * 513 / 2 * PAIR},
    {"a window",
     "{\"op\": \"Attention\", \"is_causal\": 1, \"left_window_size\": 99, " HALVES SHAPES PASTS "}",
     100.0 * ROW, 100.0 * PAIR, 512.0 * ROW, (100 * 101 / 2 + 412 * 100.0) * PAIR},
    {"windows to both sides",
     "{\"op\": \"Attention\", \"left_window_size\": 9, \"right_window_size\": 5, " HALVES SHAPES
         NONPAD "}",
     10.0 * ROW, 10.0 * PAIR, 512.0 * ROW, (512 * 15 - 9 * 10 / 2.0 - 5 * 6 / 2.0) * PAIR},
    {"a step", "{\"op\": \"TensorScatterAttention\", \"is_causal\": 1, " HALVES SHAPES PASTS "}",
     4096.0 * ROW, 4096.0 * PAIR, 512.0 * ROW, 512.0 * 513 / 2 * PAIR},
    {"a ring",
     "{\"op\": \"TensorScatterAttention\", \"is_causal\": 1, \"mode\": \"circular\", " HALVES SHAPES
         PASTS NONPAD "}",
     4096.0 * ROW, 4096.0 * PAIR, 512.0 * ROW, 512.0 * 513 / 2 * PAIR},
    {"any cache", ANY SHORT_VALUES "}", 4096.0 * ROW, 4096.0 * PAIR, 512.0 * ROW,
     512.0 * 512 * PAIR},
    {"any cache, slopes, which hide nothing", ANY SHORT_VALUES ", \"is_alibi\": true}",
     4096.0 * ROW, 4096.0 * PAIR, 512.0 * ROW, 512.0 * 512 * PAIR},
    {"any cache, causal in a window", ANY SHORT_VALUES ", \"is_causal\": true, \"window\": 100}",
     100.0 * ROW, 100.0 * PAIR, 512.0 * ROW, (100 * 101 / 2 + 412 * 100.0) * PAIR},
    {"any cache, windows to both sides", ANY SHORT_VALUES ", \"window\": 10, \"right_window\": 5}",
     10.0 * ROW, 10.0 * PAIR, 512.0 * ROW, (512 * 15 - 9 * 10 / 2.0 - 5 * 6 / 2.0) * PAIR},
    {"any cache, codes with scales, and blocks",
     ANY "\"key_quant_bit\": 8, \"key_quant_group\": 8, \"key_T2\": \"int8\", "
         "\"key_T3\": \"float16\", \"value_T2\": \"uint8\", \"value_cache_format\": \"q5_1\"}",
     4096.0 * 2 * (32 + 8 + 24), 4096.0 * 512, 512.0 * 2 * (32 + 8 + 24), 512.0 * 512 * 512},
    {"double", "{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float64\", " SHAPES "}", 0, 0, 0,
     0},
    {"no shapes", "{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float16\"}", 0, 0, 0, 0},
};

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

static void test_work(void) {
    const struct run_size decode = {1, 1, 4096}, prefill = {1, 512, 512};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        const struct work *work = &works[i];
        struct spec_list list;
        open_spec(work->text, &list);
        ok(is_worth(list.items, &decode, work->decode_bytes, work->decode_flops),
           "%s: one token on 4096", work->name);
        ok(is_worth(list.items, &prefill, work->prefill_bytes, work->prefill_flops),
           "%s: 512 on 512", work->name);
        spec_list_free(&list);
    }
}

/* ---- Cases, by the portable functions ---- */

/* The number of results; -1 after a failure. */
static int bench(const char *text, int threads) {
    static const kvmill_pack none = {.abi = KVMILL_KERNEL_ABI, .name = "none"};
    const struct scene_setting setting = {&none, threads, false, SMALL_ROTATION};
    struct spec_list list;
    open_spec(text, &list);
    results.count = 0;
    bool done = bench_spec(list.items, &setting, &results, &error);
    spec_list_free(&list);
    if (!done)
        diag("%s", error.text);
    return done ? results.count : -1;
}

struct form {
    const char *name, *text;
    const char *words; /* of the first case */
};

static const struct form forms[] = {
    {"heads side by side, valid keys",
     "{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float32\", \"T2\": \"bfloat16\", "
     "\"q_num_heads\": 9, \"kv_num_heads\": 3, \"Q\": [2, 4, 72], \"K\": [2, 6, 24], "
     "\"V\": [2, 6, 30], \"nonpad_kv_seqlen\": [2]}",
     "Attention 9/3 x 8 float32, batch 2, 4 on 6"},
    {"a past, in front of a present",
     "{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float16\", \"U\": \"bool\", "
     "\"Q\": [2, 9, 4, 8], \"K\": [2, 3, 4, 8], \"V\": [2, 3, 4, 8], \"attn_mask\": [4, 14], "
     "\"past_key\": [2, 3, 12, 8], \"past_value\": [2, 3, 12, 8], "
     "\"present_key\": [2, 3, 16, 8], \"qk_matmul_output\": [2, 9, 4, 16]}",
     "Attention 9/3 x 8 float16, batch 2, 4 on 16"},
    {"presents of K and V alone",
     "{\"op\": \"Attention\", \"opset\": 23, \"T1\": \"bfloat16\", \"U\": \"float32\", "
     "\"Q\": [1, 2, 3, 8], \"K\": [1, 2, 70, 8], \"V\": [1, 2, 70, 8], \"attn_mask\": [1, 70], "
     "\"present_key\": [1, 2, 70, 8], \"present_value\": [1, 2, 70, 8]}",
     "Attention 2/2 x 8 bfloat16, batch 1, 3 on 70"},
    {"a step of three axes",
     "{\"op\": \"TensorScatterAttention\", \"opset\": 24, \"T1\": \"float32\", \"is_causal\": 1, "
     "\"q_num_heads\": 2, \"kv_num_heads\": 1, \"Q\": [3, 2, 16], \"K\": [3, 2, 8], "
     "\"V\": [3, 2, 8], \"past_key\": [3, 40, 8], \"past_value\": [3, 40, 8]}",
     "TensorScatterAttention 2/1 x 8 float32, batch 3, 2 on 40"},
    {"a ring, with padding",
     "{\"op\": \"TensorScatterAttention\", \"opset\": 24, \"T1\": \"float32\", \"is_causal\": 1, "
     "\"mode\": \"circular\", \"Q\": [\"?\", 2, 9, 8], \"K\": [\"?\", 1, 9, 8], "
     "\"V\": [\"?\", 1, 9, 8], \"past_key\": [\"?\", 1, \"?\", 8], "
     "\"past_value\": [\"?\", 1, \"?\", 8], \"nonpad_kv_seqlen\": [\"?\"]}",
     "TensorScatterAttention 2/1 x 8 float32, batch 1, 9 on 4096"},
};

static void test_forms(void) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        int count = bench(forms[i].text, 2);
        ok(count == 3 && strcmp(results.items[0].what, forms[i].words) == 0,
           "%s: by one thread, by two, and these compared", forms[i].name);
        if (count > 0)
            diag("%s", results.items[0].what);
    }
    ok(bench(works[6].text, 1) == 2, "one thread alone, two sizes");
    ok(results.items[0].bytes == works[6].decode_bytes && results.items[0].flops == 0,
       "  one token: bytes");
    ok(results.items[1].flops == works[6].prefill_flops && results.items[1].bytes == 0,
       "  a prompt: operations");
    ok(results.items[0].limit != NULL && results.items[0].bar == 0, "  a limit, and no bar");
}

static void test_any_cache(void) {
    ok(bench(ANY "\"key_quant_bit\": 4, \"key_quant_group\": 8, \"key_T2\": \"int4\", "
                 "\"key_T3\": \"float32\", \"mask_T1\": \"bfloat16\", \"output_T1\": "
                 "\"float32\"}",
             2) == 6,
       "CacheAttend: two sizes, by one thread, by two, and these compared: %s",
       results.count > 0 ? results.items[0].what : error.text);
    ok(strcmp(results.items[0].what, "CacheAttend 4/2 x 32 int4 g8, batch 1, 1 on 4096") == 0 &&
           results.items[0].limit != NULL && results.items[0].bytes > 0 &&
           results.items[3].flops > 0,
       "  against reading and multiply-adds");
}

/* A note on standard error says so. */
static void test_left_out(void) {
    const struct work *last = &works[sizeof works / sizeof *works - 1];
    ok(bench(last[-1].text, 1) == 0, "double: nothing is timed");
    ok(bench("{\"op\": \"Attention\", \"opset\": 24, \"T1\": \"float32\", \"Q\": [2, 3, 4, 8], "
             "\"K\": [2, 3, 6, 8], \"V\": [2, 3, 6, 8], \"past_key\": [2, 3, 2, 8], "
             "\"past_value\": [2, 3, 2, 8]}",
             1) == 0,
       "behind a past more keys than queries: nothing");
}

/* ---- Kernels that are wrong ---- */

static bool check(const char *text, const kvmill_pack *pack) {
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = &pack, .pack_count = 1, .threads = 2};
    struct spec_list list;
    static struct scene scene;
    struct scene_call call;
    struct owned_plan plan = {0};
    struct pool *pool = pool_open(2);
    const struct run_size size = {2, 3, 70};
    open_spec(text, &list);
    bool right = scene_open(&scene, list.items, &size, SMALL_ROTATION, false, &error) &&
                 scene_plan(&scene, STEP_RUN, &options, &plan, &error);
    scene_call_open(&call, &scene, STEP_RUN, &size, &plan, pool);
    right = right && scene_check(&call, &error);
    owned_plan_close(&plan);
    scene_close(&scene);
    spec_list_free(&list);
    pool_close(pool);
    return right;
}

static void test_checks(void) {
    static const struct kvmill_kernel *const kernels[] = {&bad_attend};
    static const kvmill_pack none = {.abi = KVMILL_KERNEL_ABI, .name = "none"};
    static const kvmill_pack bad = {
        .abi = KVMILL_KERNEL_ABI, .count = 1, .name = "bad", .kernels = kernels, .manifest = ""};
    static const char *const texts[] = {
        "{\"op\": \"Attention\", " HALVES "\"Q\": [\"?\", 4, \"?\", 32], "
        "\"K\": [\"?\", 2, \"?\", 32], \"V\": [\"?\", 2, \"?\", 32]" NONPAD "}",
        ANY "\"key_T2\": \"float16\"}"};
    for (int i = 0; i < 2; i++) {
        ok(check(texts[i], &none), "attention that is right");
        ok(!check(texts[i], &bad) && strstr(error.text, "an output is ") != NULL,
           "attention that is wrong is found: %s", error.text);
    }
}

int main(void) {
    test_work();
    test_left_out();
    test_checks();
    if (getenv("KVMILL_TEST_SLOW") != NULL)
        skip_test("cases: too slow here");
    else {
        test_forms();
        test_any_cache();
    }
    return done_testing();
}
