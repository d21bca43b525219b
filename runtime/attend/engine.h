/* Attention over a view, in two phases: units, or pieces of them, attend; then the pieces of each
   unit are merged.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_ENGINE_H
#define KVMILL_RUNTIME_ATTEND_ENGINE_H

#include "../core/phase.h"
#include "attend_plan.h"
#include "view.h"

/* The last check of a run: it is refused if it has masks, no pack has kernels for them, and the
   plan's options demand some. */
kvmill_status kvmill_attend_check_masks(const kvmill_plan *plan, const struct attend_view *view,
                                        kvmill_error *error);

/* Prepare a call, before its first phase. */
void kvmill_attend_prepare(struct attend_view *view);

/* The calls of ops that attend begin with this. */
struct attend_call {
    struct phased_call base;
    struct attend_view view;
};

extern const struct phase kvmill_attend_phase, kvmill_merge_phase;

/* The same for a view that is part of another kind of call. */
int64_t kvmill_attend_parts(const struct attend_view *view);
void kvmill_attend_part(const struct attend_view *view, int64_t part);
double kvmill_attend_work(const struct attend_view *view);
int64_t kvmill_merge_parts(const struct attend_view *view);
void kvmill_merge_part(const struct attend_view *view, int64_t part);
double kvmill_merge_work(const struct attend_view *view);

#endif
