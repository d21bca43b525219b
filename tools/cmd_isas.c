/* kvmill isas: lists the instruction sets.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <kvmill.h>

#include "../base/text.h"
#include "../defs/isa.h"
#include "commands.h"

static void print_isa(const struct isa *isa) {
    const char *features = isa->features[0] ? isa->features : "-";
    print_shown(stdout, "%-12s %-8s %-12s %-4s %s\n", isa->name, kvmill_cpus[isa->cpu],
                isa->extends ? isa->extends : "-", kvmill_isa_usable(isa->name) ? "yes" : "no",
                features);
}

static bool list_isas(const struct options *given, struct error *error) {
    if (given->rest_count != 0)
        return fail(error, EXIT_USER, "kvmill isas: \"%.200s\"; accepted: no arguments",
                    given->rest[0]);
    print_shown(stdout, "%-12s %-8s %-12s %-4s %s\n", "ISA", "CPU", "EXTENDS", "HERE", "FEATURES");
    for (const struct isa *isa = kvmill_isas; isa->name != NULL; isa++)
        print_isa(isa);
    return true;
}

const struct command isas_command = {
    .name = "isas",
    .synopsis = "",
    .summary = "List the instruction sets that kernels can be made for, worst first.",
    .run = list_isas,
};
