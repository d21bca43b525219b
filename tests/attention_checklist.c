/* The parameters of the cache attention reference, item by item, in
   tests/tables/cache_attention.tsv: each value in each op that has it.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"
#include "case_table.h"
#include "packs.h"
#include "settings.h"

bool attention_runs(struct attention *a, struct dice *dice) {
    bool good = true;
    attention_expect(a, dice);
    for (int i = 0; good && i < 4; i++) {
        tensors_restore(a->tensor, a->before, TENSORS);
        kvmill_plan *plan = attention_plan_and_run(a, &two_threads[i / 2], i % 2 ? 3 : 0, dice);
        good = plan != NULL && attention_is_right(a);
        if (!good)
            diag("%s, %s", i / 2 ? "packs" : "no packs", a->words);
        kvmill_plan_destroy(plan);
    }
    return good;
}

DICE("checklist");

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

static bool agrees(unsigned op, const char *settings) {
    static const char usual[] = "num_heads=6 num_kv_heads=2 head_dim=16 num_layer=2 layer_idx=1 "
                                "page_size=4";
    struct attention a = attention_scene(op, usual);
    attention_say(&a,
                  op & (D | KD | MD) ? "start=7,0,12 tokens=3,5,1" : "batch=2 start=7 tokens=3");
    attention_say(&a, settings);
    attention_open(&a, &dice);
    bool good = attention_runs(&a, &dice);
    attention_close(&a);
    return good;
}

/* ROW: name, ops, settings.  Slow runs take one combination in each op, another in the next one. */
EACH_ROW(cache_attention, 3) {
    static const char letters[] = "SsKkMm"; /* in the order of their bits */
    char chosen[256];
    bool good = true;
    int64_t count = choose(cells[2], 0, chosen);
    for (int op = 0; op < OPS; op++)
        for (int64_t n = 0; n < count && good && strchr(cells[1], letters[op]) != NULL; n++) {
            if (is_slow_run() && n != op % count)
                continue;
            choose(cells[2], n, chosen);
            good = agrees(1u << op, chosen);
            if (!good)
                diag("%s", chosen);
        }
    ok(good, "checklist %s", cells[0]);
}

/* ---- Scale and mask, absent and empty ---- */

static bool runs_with(unsigned ops, int tensor, const DLTensor *given) {
    bool good = true;
    for (int op = 0; op < OPS; op++)
        if (ops >> op & 1) {
            struct attention a =
                attention_scene(1u << op, "num_heads=6 num_kv_heads=2 head_dim=16 start=7");
            attention_open(&a, &dice);
            a.given[tensor] = given;
            good = good && attention_runs(&a, &dice);
            attention_close(&a);
        }
    return good;
}

TEST(absence) {
    int64_t none = 0;
    const DLTensor empty = dense_tensor((DLDataType){kDLFloat, 32, 1}, 1, &none, NULL);
    const int scale = KVMILL_CACHE_ATTENTION_SCALE, mask = KVMILL_CACHE_ATTENTION_ATTN_MASK;
    struct fenced_tensor ignored;
    ok(runs_with(S | D | K, scale, NULL), "checklist 24 no scale with quant_bit 0");
    ok(runs_with(S | D | K, scale, &empty), "checklist 24 an empty scale with quant_bit 0");
    tensor_open(&ignored, (DLDataType){kDLFloat, 16, 1}, 1, (const int64_t[]){3}, NULL, &dice);
    fence_protect(&ignored.fence, true);
    ok(runs_with(S | D | K, scale, &ignored.dl) && fence_is_intact(&ignored.fence, NULL),
       "checklist 24 a scale with quant_bit 0 is ignored");
    tensor_close(&ignored);
    ok(runs_with(S | D | M, mask, &empty), "checklist 25, 26 an empty attn_mask is none");
}
