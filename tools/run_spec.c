/* SPDX-License-Identifier: Apache-2.0 */
#include "run_spec.h"

#include <stdlib.h>
#include <string.h>

#include "../gen/generators.h"
#include "../ops/fail.h"
#include "best_isa.h"
#include "run_threads.h"

static int rank_of(const char *isa) {
    const char *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL; i++)
        if (strcmp(name, isa) == 0)
            return i;
    return -1;
}

static bool parse_isa(const char *wanted, struct isa_list *isas, struct error *error) {
    struct isa_words words;
    if (!isa_list_parse(wanted, best_isa(), isas, error))
        return false;
    return (strchr(wanted, ',') == NULL && isas->count == 1) ||
           fail(error, EXIT_USER, "--isa: \"%.40s\" is a list; accepted: one of %s", wanted,
                isa_join(", ", &words));
}

static bool check_isa(const struct isa *isa, struct error *error) {
    if (kvmill_isa_usable(isa->name) && rank_of(isa->name) <= rank_of(best_isa()))
        return true;
    return fail(
        error, EXIT_ENVIRONMENT,
        "--isa: this CPU does not support %s, or KVMILL_ISA excludes it; the best here is %s",
        isa->name, best_isa());
}

bool spec_runner_build(struct spec_runner *runner, const struct spec_list *specs,
                       struct error *error) {
    const char *wanted = option_value(runner->given, "isa");
    struct pack pack = {.name = "run", .specs = specs};
    struct isa_list isas;
    bool done = parse_isa(wanted ? wanted : best_isa(), &isas, error);
    if (!done || option_value(runner->given, "portable"))
        return done;
    done = check_isa(isas.items[0], error) && specs_kernels(specs, &isas, &pack.kernels, error) &&
           (pack.kernels.count == 0 || built_pack_make(&pack, &runner->built, error));
    kernel_list_free(&pack.kernels);
    return done;
}

/* Reports an error of the library.  If it is about an instruction set, KVMILL_ISA is the cause: the
   command passes none. */
static bool library_failed(kvmill_status status, const kvmill_error *reason, struct error *error) {
    return fail(error, kvmill_is_of_system(status) ? EXIT_ENVIRONMENT : EXIT_USER, "%s: %s",
                kvmill_status_name(status), reason->message);
}

static bool make_plan(const struct spec_runner *runner, const struct spec *spec,
                      const struct arrays *arrays, kvmill_plan **plan, struct error *error) {
    kvmill_error reason;
    kvmill_plan_options choice = {
        .struct_size = sizeof choice,
        .packs = &runner->built.pack,
        .pack_count = runner->built.pack != NULL,
        .portable = option_value(runner->given, "portable") != NULL,
        .threads = runner->threads,
    };
    kvmill_status status = run_op_of(spec)->plan(spec, arrays, &choice, plan, &reason);
    return status == KVMILL_OK || library_failed(status, &reason, error);
}

/* Allocates the workspace, 64-byte aligned; NULL if the plan needs none. */
static bool get_workspace(const kvmill_plan *plan, void **workspace, struct error *error) {
    size_t size = kvmill_plan_workspace_size(plan);
    *workspace = size ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    return size == 0 || *workspace != NULL ||
           fail(error, EXIT_ENVIRONMENT, "out of memory for a workspace of %zu bytes", size);
}

static bool run_plan(const kvmill_plan *plan, const struct arrays *arrays, int threads,
                     struct error *error) {
    const DLTensor *tensors[MOST_RUN_TENSORS];
    void *workspace;
    kvmill_error reason;
    for (int i = 0; i < MOST_RUN_TENSORS; i++)
        tensors[i] = is_given(&arrays->tensor[i]) ? &arrays->tensor[i].tensor : NULL;
    if (!get_workspace(plan, &workspace, error))
        return false;
    kvmill_status status = run_on_threads(plan, threads, tensors, workspace, &reason);
    free(workspace);
    return status == KVMILL_OK || library_failed(status, &reason, error);
}

bool spec_runner_run(const struct spec_runner *runner, const struct spec *spec,
                     const struct arrays *arrays, struct error *error) {
    kvmill_plan *plan = NULL;
    bool done = make_plan(runner, spec, arrays, &plan, error) &&
                run_plan(plan, arrays, runner->threads, error);
    kvmill_plan_destroy(plan);
    return done;
}

bool spec_runner_begin(struct spec_runner *runner, const struct options *given,
                       struct error *error) {
    long threads = 1;
    *runner = (struct spec_runner){.given = given};
    if (!option_integer(given, "threads", 1, 256, &threads, error))
        return false;
    runner->threads = (int)threads;
    return true;
}

void spec_runner_end(struct spec_runner *runner) {
    built_pack_free(&runner->built);
}
