/* SPDX-License-Identifier: Apache-2.0 */
#include "needs.h"

#include <stdio.h>
#include <string.h>

#include "../../ops/fail.h"
#include "cpu.h"

/* Portable kernels have no named instruction set. */
static bool will_do(const struct kernel_search *search, const struct kvmill_kernel *kernel) {
    return kernel != NULL && kvmill_isa_rank(kernel->isa) >= 0 &&
           kvmill_isa_level(kernel->isa) >= kvmill_isa_level(search->least_isa);
}

void kvmill_need(struct needs *needs, const struct kernel_search *search, enum which_runs runs,
                 const char *what, const struct kvmill_kernel *kernel) {
    struct lack *lack = &needs->lack[runs];
    if (search->least_isa == NULL || lack->what != NULL || will_do(search, kernel))
        return;
    needs->least_isa = search->least_isa;
    bool portable = kernel == NULL || kvmill_isa_rank(kernel->isa) < 0;
    lack->what = what;
    lack->makes = search->portable_reason ? "" : "; `kvmill generate` makes one";
    snprintf(lack->why, sizeof lack->why, "%s%s", portable ? "" : "there is only ",
             portable ? kvmill_why_portable(search) : kernel->symbol);
}

/* Runs that use no kernel. */
static int problem_length(const char *description) {
    const char *kernels = strstr(description, " with kvmill_");
    size_t length = kernels != NULL ? (size_t)(kernels - description) : strlen(description);
    for (size_t i = 0; i < length; i++)
        if (description[i] == ';' || strncmp(description + i, ": ", 2) == 0)
            return (int)i;
    return (int)length;
}

kvmill_status kvmill_check_needs(const struct needs *needs, enum which_runs runs,
                                 const char *description, kvmill_error *error) {
    const struct lack *lack = &needs->lack[runs];
    if (lack->what == NULL)
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_KERNEL, "no kernel to %s; options.least_isa is %s%s; %s; %.*s", lack->what,
        needs->least_isa, lack->makes, lack->why, problem_length(description), description);
}
