/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"

#include "../defs/op_tables.h"
#include "settings.h"

/* ---- Settings ---- */

#define AS(name, member) SETTING_OF(struct attention, name, member)
#define OF(member)       AS(#member, member)
/* clang-format off */
static const struct wanted_setting wanted[] = {
    AS("batch", sequences), AS("mask", mask_rank), AS("sinks", has_sinks), OF(spare_batch),
    OF(spare_rows), OF(rows), OF(decoding), OF(decoding_rank), OF(max_slack), OF(mask_padding),
    OF(mask_one_batch), OF(sinks_are_activations), OF(share_prefix), OF(ring), OF(lists_of_heads),
    OF(query_size), OF(idle_scale), OF(idle_mask), {.name = NULL}
};
/* clang-format on */
#undef AS
#undef OF

/* Sets a number for all sequences, or one for each. */
static void set_lengths(struct attention *a, int64_t *lengths, const char *value) {
    int count = setting_spread(value, lengths, a->sequences);
    a->sequences = count > 1 ? count : a->sequences;
}

static bool say_one(void *to, const struct setting *setting) {
    struct attention *a = to;
    bool is_lengths = strcmp(setting->name, "start") == 0 || strcmp(setting->name, "tokens") == 0;
    if (is_lengths)
        set_lengths(a, setting->name[0] == 's' ? a->start : a->tokens, setting->value);
    return is_lengths || setting_want(setting, wanted, a) >= 0 ||
           setting_apply(setting, &kvmill_cache_attention_attributes, &a->op);
}

void attention_say(struct attention *a, const char *settings) {
    setting_say(settings, NULL, a, say_one);
}

void attention_choose(struct attention *a, const char *settings, struct dice *dice) {
    setting_say(settings, dice, a, say_one);
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
