/* What is generated for sparse flows.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/flow_atom.h"
#include "../spec/flow_spec.h"
#include "flow_program_family.h"
#include "generators.h"
#include "plan_header.h"
#include "score_family.h"
#include "select_family.h"

/* Adds the kernels that score and select. */
static bool index_kernels(const struct kvmill_flow_problem *problem, const struct isa *isa,
                          struct kernel_list *list, struct error *error) {
    struct kvmill_flow_atoms atoms;
    kvmill_flow_find_atoms(problem, &atoms);
    for (int i = 0; i < atoms.count; i++) {
        struct kvmill_score_shape shape = kvmill_flow_atom_shape(problem, &atoms.atom[i]);
        if (!score_kernels(&shape, isa, list, error))
            return false;
    }
    return problem->programs[KVMILL_INDEX_PROGRAM].step_count == 0 ||
           select_kernels(isa, list, error);
}

/* Adds all kernels: those that store and attend, those of the flow's programs, and
   index_kernels(). */
static bool flow_kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                         struct error *error) {
    const struct spec *attention = &spec->flow->attention;
    struct kvmill_flow_problem problem;
    kvmill_error reason;
    if (kvmill_flow_verify(&spec->flow->flow, &problem, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    return cache_attention_generator.kernels(attention, isa, list, error) &&
           flow_program_kernels(&problem, isa, list, error) &&
           index_kernels(&problem, isa, list, error);
}

const struct generator flow_generator = {
    .kernels = flow_kernels,
    .without_kernels = "no family of kernels takes its types",
    .define_plan = flow_define_plan,
    .words = flow_words,
};
