/* The functions of a pack's header that plan its specs, as calls for templates/pack/plan.h.m4.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PLAN_HEADER_H
#define KVMILL_GEN_PLAN_HEADER_H

#include "../spec/spec.h"

/* The members that differ from what the library's init function sets, as calls of km_set. */
bool spec_define_members(const struct spec *spec, struct text *text);

/* Heads and window as text, with a spec's layers; heads 0: it has no queries. */
bool attention_define_heads(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t window,
                            struct text *text);
bool attention_define_comment(const struct spec *spec, struct text *text);

/* The functions that plan the steps of a flow (flow_header.c). */
bool flow_define_plan(const struct spec *spec, struct text *text);

#endif
