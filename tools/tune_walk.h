/* One sweep: requests candidates of a kernel, builds, checks and races them, and hands over their
   results.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_WALK_H
#define KVMILL_TOOLS_TUNE_WALK_H

#include <signal.h>

#include "../tune/machine.h"
#include "../tune/strategy.h"
#include "builds.h"
#include "tune_item.h"
#include "turns.h"

/* What all sweeps of a run have in common. */
struct tune_setting {
    const struct isa_list *isas;
    const kvmill_pack *pack; /* the presets */
    struct machine *machine; /* not changed */
    const char *environment;
    struct search_options search;
    int jobs, threads, patience;
    struct builds *builds;
    struct turns *turns; /* among processes of this machine; NULL: there are no others */
    const volatile sig_atomic_t *interrupted; /* not zero: stop, and keep what is done */
};

/* Where results go. */
struct tune_sink {
    void *context;
    bool (*keep)(void *context, const struct sweep_key *key, const struct sweep_result *result,
                 struct error *error);
};

/* For up to `seconds`; what `known` has is not measured again, *count is how much that was.
   Interrupted is no error. */
bool tune_walk(const struct tune_setting *setting, const struct tune_item *item,
               const struct sweeps *known, double seconds, const struct tune_sink *sink, int *count,
               struct error *error);

/* A result's speed over the preset's, 0 for a failure. */
bool tune_speed(const struct sweep_result *result, double *speed, struct error *error);

#endif
