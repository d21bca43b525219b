/* Attention over a view, in two phases: pieces of units attend, and then the pieces of a unit are
   merged.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_ENGINE_H
#define KVMILL_RUNTIME_ATTEND_ENGINE_H

#include "../core/phase.h"
#include "attend_plan.h"
#include "view.h"

/* The last that is refused: masks without kernels for them, where the plan's options want such. */
kvmill_status kvmill_attend_check_masks(const kvmill_plan *plan, const struct attend_view *view,
                                        kvmill_error *error);

/* Before the first phase. */
void kvmill_attend_prepare(struct attend_view *view);

/* Calls of ops that are attention begin with this. */
struct attend_call {
    struct phased_call base;
    struct attend_view view;
};

extern const struct phase kvmill_attend_phase, kvmill_merge_phase;

/* The same of a view in a call of another kind. */
int64_t kvmill_attend_parts(const struct attend_view *view);
void kvmill_attend_part(const struct attend_view *view, int64_t part);
double kvmill_attend_work(const struct attend_view *view);
int64_t kvmill_merge_parts(const struct attend_view *view);
void kvmill_merge_part(const struct attend_view *view, int64_t part);
double kvmill_merge_work(const struct attend_view *view);

#endif
