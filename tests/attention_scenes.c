/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"

#include <string.h>

#include "settings.h"
#include "tap.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default, &kvmill_pack_kvmill_test};
const kvmill_plan_options attention_options[2] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

/* ---- What is wanted, in words ---- */

static const struct wanted wanted[] = {WANTED(struct attention, spare_batch),
                                       WANTED(struct attention, spare_rows),
                                       WANTED(struct attention, rows),
                                       WANTED(struct attention, ring),
                                       WANTED(struct attention, decoding),
                                       WANTED(struct attention, decoding_rank),
                                       WANTED(struct attention, max_slack),
                                       WANTED(struct attention, mask_padding),
                                       WANTED(struct attention, mask_one_batch),
                                       WANTED(struct attention, sinks_are_activations),
                                       WANTED(struct attention, share_prefix),
                                       WANTED(struct attention, lists_of_heads),
                                       WANTED(struct attention, query_size),
                                       {"batch", offsetof(struct attention, sequences)},
                                       {"mask", offsetof(struct attention, mask_rank)},
                                       {"sinks", offsetof(struct attention, has_sinks)},
                                       {NULL, 0}};

/* A number for all sequences, or one for each. */
static void set_lengths(struct attention *a, int64_t *lengths, const char *value) {
    int count = setting_spread(value, lengths, a->sequences);
    a->sequences = count > 1 ? count : a->sequences;
}

void attention_say(struct attention *a, const char *settings) {
    const struct op_struct *part = kvmill_op_by_name("MultiHeadCacheAttention")->parts[0];
    for (struct setting setting; setting_next(&settings, &setting);)
        if (strcmp(setting.name, "start") == 0 || strcmp(setting.name, "tokens") == 0)
            set_lengths(a, setting.name[0] == 's' ? a->start : a->tokens, setting.value);
        else if (!setting_want(&setting, wanted, a) && !setting_apply(&setting, part, &a->op))
            bail_out("attention has no %s", setting.name);
}

/* ---- Scenes ---- */

struct attention attention_scene(unsigned op, const char *settings) {
    struct attention a = {.decoding_rank = 1, .query_size = 3};
    a.which = op & K ? KEY_VALUE_CACHE : op & M ? MULTI_HEAD_ATTENTION : MULTI_HEAD_CACHE_ATTENTION;
    kvmill_cache_attention_init(&a.op, sizeof a.op);
    a.op.dynamic_batching = (op & (D | KD | MD)) != 0;
    attention_say(&a, "T1=float32 T2=float32 T3=float32 batch=1 tokens=1");
    attention_say(&a, settings);
    return a;
}

bool attention_runs(struct attention *a, struct dice *dice) {
    bool good = true;
    attention_expect(a, dice);
    for (int i = 0; good && i < 4; i++) {
        kvmill_error error;
        kvmill_plan *plan;
        attention_restore(a);
        kvmill_status status = attention_plan(a, &attention_options[i / 2], &plan, &error);
        if (status == KVMILL_OK)
            status = attention_run_fenced(a, plan, i % 2 ? 3 : 0, dice, &error);
        if (status != KVMILL_OK)
            diag("%s: %s", kvmill_status_name(status), error.message);
        good = status == KVMILL_OK && *error.message == '\0' && attention_is_right(a);
        if (!good)
            diag("%s, %s", i / 2 ? "packs" : "no packs", a->words);
        kvmill_plan_destroy(plan);
    }
    return good;
}
