/* Runs specs for kvmill run: makes kernels for all, then runs them one after another.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_SPEC_H
#define KVMILL_TOOLS_RUN_SPEC_H

#include "built_pack.h"
#include "options.h"
#include "run_op.h"

struct spec_runner {
    const struct options *given; /* uses isa, portable and threads */
    int threads;
    struct built_pack built;
};

/* Release with spec_runner_end, also after a failure. */
bool spec_runner_begin(struct spec_runner *runner, const struct options *given,
                       struct error *error);
void spec_runner_end(struct spec_runner *runner);

/* Generates, builds and loads the kernels of all specs, unless --portable is given. */
bool spec_runner_build(struct spec_runner *runner, const struct spec_list *specs,
                       struct error *error);

/* Runs one of the specs on arrays that its op has prepared. */
bool spec_runner_run(const struct spec_runner *runner, const struct spec *spec,
                     const struct arrays *arrays, struct error *error);

#endif
