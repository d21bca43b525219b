/* Runs a sweep: chooses candidates of a kernel, builds, checks and races them, and hands over their
   results.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_WALK_H
#define KVMILL_TOOLS_TUNE_WALK_H

#include <signal.h>

#include "../tune/machine.h"
#include "../tune/statistics.h"
#include "../tune/strategy.h"
#include "builds.h"
#include "tune_item.h"
#include "tune_tally.h"
#include "turns.h"

/* The settings that all sweeps of a run share. */
struct tune_setting {
    const struct isa_list *isas;
    const kvmill_pack *pack; /* kernels with presets */
    struct machine *machine; /* not modified */
    const char *environment;
    struct search_options search;
    int jobs, threads, patience;
    struct builds *builds;
    struct turns *turns; /* shared by the processes of this machine; NULL: only this process */
    const volatile sig_atomic_t *interrupted; /* not zero: stop, and keep the results */
};

/* Takes the results. */
struct tune_sink {
    void *context;
    bool (*keep)(void *context, const struct sweep_key *key, const struct sweep_result *result,
                 struct error *error);
};

/* Measures for up to `seconds`.  Results in `known` are not measured again.  An interrupt is not an
   error. */
bool tune_walk(const struct tune_setting *setting, const struct tune_item *item,
               const struct sweeps *known, double seconds, const struct tune_sink *sink,
               struct tune_tally *tally, struct error *error);

/* Summarises a result's speed relative to the preset, as one of `compared`; zeros for a failure. */
bool tune_gain(const struct sweep_result *result, int compared, struct summary *gain,
               struct error *error);

#endif
