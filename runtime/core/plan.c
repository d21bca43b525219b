/* What all plans have in common.

   SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/op_tables.h"
#include "../../ops/fail.h"
#include "pool.h"

const char *kvmill_version(void) {
    return KVMILL_VERSION;
}

void kvmill_plan_destroy(kvmill_plan *plan) {
    if (plan != NULL)
        plan->op->destroy(plan);
}

size_t kvmill_plan_describe(const kvmill_plan *plan, char *text, size_t size) {
    const char *words = plan != NULL ? plan->description : "";
    if (text != NULL && size > 0)
        snprintf(text, size, "%s", words);
    return strlen(words);
}

size_t kvmill_plan_workspace_size(const kvmill_plan *plan) {
    return plan != NULL ? plan->workspace_size : 0;
}

size_t kvmill_plan_tensor_count(const kvmill_plan *plan) {
    return plan != NULL ? plan->tensor_count : 0;
}

static kvmill_status take_options(const kvmill_plan_options *given, kvmill_plan_options *own,
                                  kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    if (given == NULL)
        kvmill_op_init(&kvmill_plan_options_struct, own);
    else
        status = kvmill_take_struct(&kvmill_plan_options_struct, "options", given, own, error);
    if (status != KVMILL_OK)
        return status;
    if (own->threads < 0 || own->threads > KVMILL_MOST_THREADS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "options.threads is %d; accepted: 0 to %d",
                           own->threads, (int)KVMILL_MOST_THREADS);
    if (own->threads == 0)
        own->threads = 1;
    return KVMILL_OK;
}

kvmill_status kvmill_plan_read_arguments(struct plan_call *call, const char *name,
                                         const kvmill_plan_options *options, kvmill_error *error) {
    if (call->plan == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "plan is NULL");
    *call->plan = NULL;
    kvmill_status status = kvmill_take_struct(call->part, name, call->given, call->op, error);
    return status == KVMILL_OK ? take_options(options, &call->options, error) : status;
}

static void announce(const kvmill_plan *plan) {
    const char *verbose = getenv("KVMILL_VERBOSE");
    if (verbose != NULL && *verbose != '\0' && strcmp(verbose, "0") != 0)
        fprintf(stderr, "kvmill: %s\n", plan->description);
}

kvmill_status kvmill_plan_finish(kvmill_plan *made, kvmill_plan **plan, kvmill_error *error) {
    kvmill_status status = kvmill_check_needs(&made->needs, EVERY_RUN, made->description, error);
    if (status != KVMILL_OK) {
        kvmill_plan_destroy(made);
        return status;
    }
    *plan = made;
    announce(made);
    return kvmill_succeed(error);
}

kvmill_status kvmill_check_some_runs(const kvmill_plan *plan, kvmill_error *error) {
    return kvmill_check_needs(&plan->needs, SOME_RUNS, plan->description, error);
}
