/* Scenes of cache attention from settings in words, run in all ways.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTENTION_SCENES_H
#define KVMILL_TESTS_ATTENTION_SCENES_H

#include "attention.h"

/* The six ops, and sets of them: MultiHeadCacheAttention, KeyValueCache and MultiHeadAttention,
   static and dynamic. */
enum { S = 1, D = 2, KS = 4, KD = 8, MS = 16, MD = 32, K = KS | KD, M = MS | MD, OPS = 6 };

#define F16 "T1=float16 T3=float16 "

/* Reads attributes and other settings: "num_heads=6 T1=float16 batch=2 start=7 tokens=3".  start
   and tokens apply to all sequences, or are lists with a number for each sequence.  mask is the
   mask's rank; sinks adds sinks; rows are the cache's rows.  attention_choose() picks one of
   several alternatives. */
void attention_say(struct attention *attention, const char *settings);
void attention_choose(struct attention *attention, const char *settings, struct dice *dice);

/* Returns a scene: one new token of one sequence in float32, unless the settings say more. */
struct attention attention_scene(unsigned op, const char *settings);

#endif
