/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"

#include "settings.h"

/* ---- What is wanted, in words ---- */

static const struct wanted_setting wanted[] = {WANTED(struct attention, spare_batch),
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
