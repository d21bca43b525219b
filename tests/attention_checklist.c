/* The parameters of the cache attention reference, item by item: each value in each op that has it.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "attention_scenes.h"
#include "settings.h"
#include "tap.h"

/* Settings with alternatives in braces, any of which goes with any of the others. */
static const struct {
    const char *name;
    unsigned ops;
    const char *settings;
} items[] = {
    {"1 num_heads", S | D | M, "is_alibi=1 num_kv_heads=0 num_heads={1|2|3|6|12|71}"},
    {"2 head_dim", S | D | K | M, "head_dim={1|3|32|64|80|96|128|160|192|256}"},
    {"2 head_dim, odd, quantised", S | D | K,
     I8 "{head_dim=1 quant_group=1|head_dim=3 quant_group=3|head_dim=33 quant_group=11}"},
    {"3 is_causal, from the start and behind others, one token and more", S | D | M,
     "is_causal={0|1} start={0|6} tokens={1|5}"},
    {"4 is_alibi, with is_causal and a mask", S | D | M,
     "is_alibi={0|1} is_causal={0|1} mask={0|2}"},
    {"5 num_kv_heads", S | D | M, "num_heads=12 num_kv_heads={0|1|3|4|12}"},
    {"6 num_layer", S | D | K, "layer_idx=0 num_layer={1|2 layer_idx=1|5 layer_idx=2}"},
    {"7 layer_idx", S | D | K, "num_layer=3 layer_idx={0|1|2}"},
    {"8 quant_bit", S | D | K, "{T2=float32|" I8 "|" I4 "}"},
    {"9 quant_group, int8", S | D | K, I8 "head_dim=128 quant_group={8|16|32|64|128|1|2|4}"},
    {"9 quant_group, int4", S | D | K, I4 "head_dim=128 quant_group={8|16|32|64|128|2|4}"},
    {"10 cache_layout, static", S | KS, I8 "cache_layout={0|1}"},
    {"11 cache_layout, dynamic", D | KD, I8 "cache_layout={0|1|2|3}"},
    {"11 cache_layout, pages", D | KD, "cache_mode=1 cache_layout=4 page_size={1|3|16}"},
    {"12 cache_mode", D | KD, "cache_mode={0|1}"},
    {"13 page_size", D | KD, "cache_mode=1 start=300,0,12 page_size={1|3|16|32|64|128|256}"},
    {"13 page_size, ignored in mode 0", D | KD, "page_size={0|-1}"},
    {"14 num_repeat", K, "num_repeat={1|2|3|7}"},
    {"15 T1", S | D | K | M, "T1={float32|float16|bfloat16}"},
    {"15 T1 int8: a raw copy", K, "T1=int8 T2=int8"},
    {"16 T2, from every T1", S | D | K,
     "T1={float32|float16|bfloat16} T2={float32|float16|bfloat16}"},
    {"17 T3, with every T1, int8", S | D | K,
     I8 "T1={float32|float16|bfloat16} T3={float32|float16|bfloat16}"},
    {"17 T3, with every T1, int4", S | D | K,
     I4 "T1={float32|float16|bfloat16} T3={float32|float16|bfloat16}"},
    {"18 start_pos, static, a number or one element", S | KS, "decoding_rank={0|1} start={0|1|20}"},
    {"19 start_pos, dynamic, of every sequence", D | KD,
     "tokens=2,3,1,4 start={0,0,0,1|1,0,2,1|9,0,18,1|30,0,60,1}"},
    {"20 seqstarts, kvstarts, sequences without tokens", D | KD | MD,
     "{tokens=0,0,0,0,0 start=0,0,0,0,0|tokens=0,4,0,0,2 start=3,0,8,0,0|"
     "tokens=1,2,3,4,20 start=9,9,9,9,9}"},
    {"21 cachestarts, in both modes, shared prefixes", D | KD,
     "tokens=1,2,3,0 start=9,8,0,4 cache_mode={0|1|1 share_prefix=1}"},
    {"22 decoding_batches", D | MD, "decoding={0|1|2|3}"},
    {"23 max_seqlen and max_kvlen, upper bounds", D | KD | MD,
     "max_slack={0|1|1000} decoding_rank={0|1}"},
    {"25 attn_mask, static", S | MS, "mask={2|3|4|4 mask_one_batch=1} mask_padding={0|5}"},
    {"26 attn_mask, dynamic", D | MD, "mask={2|3} mask_padding={0|5}"},
    {"27 batch, fewer than the cache has", S | KS,
     "batch={1|2|5|1 spare_batch=2|2 spare_batch=3} tokens=2 start=7"},
    {"28 new tokens: decode, prefill, chunks", S | D | M,
     "tokens={1 start=0|1 start=7|9 start=0|9 start=7|33 start=30}"},
    {"29 slots that are not written keep their bytes", S | D | K,
     "{T2=float32|" I8 "|" I4 "} spare_rows=2"},
    {"30 softmax_scale", S | D | M, "softmax_scale={0|0.125|1}"},
    {"32 no tokens, no sequences", S | KS, "batch=0 spare_batch={0|1}"},
    {"32 no tokens", S | D | K, "tokens=0 start={0|5}"},
    {"fewer keys than queries: aligned at the end", M, "start=-2 tokens={5|7}"},
    {"ours: lists of pages of each kv head", D,
     "cache_mode=1 lists_of_heads=1 start=70,0,31 page_size={1|4|16} cache_layout={0|1|2|3|4} {" I8
     "|T1=float16 sinks=1|T1=bfloat16 num_kv_heads=1|softcap=3 " I4 "}"},
    {"ours: such lists in pieces", D,
     "cache_mode=1 lists_of_heads=1 batch=1 start=9000 tokens=1 page_size=16 cache_layout=3 "
     "sinks=1 "
     "T1=float16 T2=float16"},
    {"ours: window", S | D | M, "start=20 tokens=5 left_window_size={0|1|4|18|24|999}"},
    {"ours: softcap", S | D | M, "softcap={1|20}"},
    {"ours: sinks", S | D | M, "sinks=1 T1=float16 sinks_are_activations={0|1}"},
    {"ours: rows that see nothing", S | MS, "query_size=1 mask=4 empty_is_nan={0|1}"},
    {"ours: rows that see nothing, dynamic", D | MD, "query_size=1 mask=3 empty_is_nan={0|1}"},
    {"ours: partial", S | D | M, "partial=1 T1={float32|float16|bfloat16}"},
    {"long caches in pieces", S | D | M,
     "batch=1 start=2600 {tokens=1 partial=0|tokens=3 " I8 "|tokens=1 sinks=1|"
     "tokens=3 sinks=1 " I8 "|tokens=1 partial=1|tokens=1 sinks=1 partial=1|"
     "tokens=1 left_window_size=1559|tokens=3 sinks=1 partial=1 left_window_size=1559 " I8
     "|tokens=1 mask=2|tokens=1 mask=2 sinks=1 partial=1}"},
    {"ours: V of another size and type", S | D | K,
     I8 "value_differs=1 value_quant_bit=4 value_T2=int4 value_T3=float16 "
        "value_head_dim={8 value_quant_group=4|16 value_quant_group=8|36 value_quant_group=18}"},
    {"ours: llama.cpp's blocks", S | D | K, "head_dim=64 T2=uint8 cache_format={q8_0|q4_0}"},
};

/* Which combination is wanted, and how many there are so far. */
struct combination {
    int64_t number, count;
};

static int64_t pick(void *context, int64_t alternatives) {
    struct combination *combination = context;
    int64_t picked = combination->number / combination->count % alternatives;
    combination->count *= alternatives;
    return picked;
}

/* One of the combinations; how many there are. */
static int64_t choose(const char *settings, int64_t number, char chosen[256]) {
    struct combination combination = {number, 1};
    setting_choose(settings, pick, &combination, chosen, 256);
    return combination.count;
}

static bool agrees(unsigned op, const char *settings, struct dice *dice) {
    static const char usual[] = "num_heads=6 num_kv_heads=2 head_dim=16 num_layer=2 layer_idx=1 "
                                "page_size=4";
    struct attention a = attention_scene(op, usual);
    attention_say(&a,
                  op & (D | KD | MD) ? "start=7,0,12 tokens=3,5,1" : "batch=2 start=7 tokens=3");
    attention_say(&a, settings);
    attention_open(&a, dice);
    bool good = attention_runs(&a, dice);
    attention_close(&a);
    return good;
}

/* Slow runs take one combination in each op, another in the next one. */
static void test_item(size_t item, struct dice *dice) {
    char chosen[256];
    bool good = true;
    int64_t count = choose(items[item].settings, 0, chosen);
    for (int op = 0; op < OPS; op++)
        for (int64_t n = 0; n < count && good && items[item].ops >> op & 1; n++) {
            if (is_slow_run() && n != op % count)
                continue;
            choose(items[item].settings, n, chosen);
            good = agrees(1u << op, chosen, dice);
            if (!good)
                diag("%s", chosen);
        }
    ok(good, "checklist %s", items[item].name);
}

/* ---- Scale and mask, absent and empty ---- */

static bool runs_with(unsigned ops, int tensor, const DLTensor *given, struct dice *dice) {
    bool good = true;
    for (int op = 0; op < OPS; op++)
        if (ops >> op & 1) {
            struct attention a =
                attention_scene(1u << op, "num_heads=6 num_kv_heads=2 head_dim=16 start=7");
            attention_open(&a, dice);
            a.given[tensor] = given;
            good = good && attention_runs(&a, dice);
            attention_close(&a);
        }
    return good;
}

static void test_absence(struct dice *dice) {
    int64_t none = 0;
    const DLTensor empty = {
        .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = &none};
    const int scale = KVMILL_CACHE_ATTENTION_SCALE, mask = KVMILL_CACHE_ATTENTION_ATTN_MASK;
    struct fenced_tensor ignored;
    int64_t where;
    ok(runs_with(S | D | K, scale, NULL, dice), "checklist 24 no scale with quant_bit 0");
    ok(runs_with(S | D | K, scale, &empty, dice), "checklist 24 an empty scale with quant_bit 0");
    tensor_open(&ignored, (DLDataType){kDLFloat, 16, 1}, 1, (const int64_t[]){3}, NULL, dice);
    fence_protect(&ignored.fence, true);
    ok(runs_with(S | D | K, scale, &ignored.dl, dice) && fence_is_intact(&ignored.fence, &where),
       "checklist 24 a scale with quant_bit 0 is ignored");
    tensor_close(&ignored);
    ok(runs_with(S | D | M, mask, &empty, dice), "checklist 25, 26 an empty attn_mask is none");
}

void test_checklist(struct dice *dice) {
    for (size_t item = 0; item < sizeof items / sizeof *items; item++)
        test_item(item, dice);
    test_absence(dice);
}
