/* kvmill run for ops that their description defines completely.  Outputs get their dims from the
   words of their shapes; the inputs give the values of the words.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../ops/fail.h"
#include "run_op.h"

/* ---- Plans ---- */

typedef kvmill_status plan_function(const void *op, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error);

/* The plan functions, by the names of ops; the last has no name. */
static const struct {
    const char *op;
    plan_function *plan;
} plans[] = {
    {NULL, NULL},
};

/* Returns the op's plan function, or NULL. */
static plan_function *plan_of(const char *op) {
    int i = 0;
    while (plans[i].op != NULL && strcmp(plans[i].op, op) != 0)
        i++;
    return plans[i].plan;
}

/* Returns the spec's attributes, with pointers to the tensors. */
static void *op_of(struct spec *spec, const struct arrays *arrays) {
    const struct op_struct *part = spec->op->parts[0];
    void *base = spec->family->part(spec, 0);
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *tensor = &spec->op->tensors[i];
        const struct op_member *member = kvmill_op_member(part, tensor->name);
        const struct npy *npy = &arrays->tensor[tensor->index];
        if (member != NULL)
            *(const DLTensor **)kvmill_member_at(member, base) =
                is_given(npy) ? &npy->tensor : NULL;
    }
    return base;
}

static kvmill_status plan_plain(const struct spec *spec, const struct arrays *arrays,
                                const kvmill_plan_options *options, kvmill_plan **plan,
                                kvmill_error *reason) {
    plan_function *make = plan_of(spec->op->name);
    if (make == NULL)
        return kvmill_fail(reason, KVMILL_E_ATTRIBUTE,
                           "op is \"%s\"; accepted by run: ops with a plan", spec->op->name);
    return make(op_of((struct spec *)(uintptr_t)spec, arrays), options, plan, reason);
}

/* ---- Arrays ---- */

static bool learn_dims(const struct spec *spec, const struct arrays *arrays, struct op_dim *words,
                       struct error *error) {
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *tensor = &spec->op->tensors[i];
        const struct npy *npy = &arrays->tensor[tensor->index];
        if (is_given(npy) && tensor->shape != NULL &&
            !kvmill_op_learn(tensor->shape, &npy->tensor, words))
            return fail(error, EXIT_USER, "%s: dims do not fit the others'; accepted: %s",
                        tensor->name, tensor->shape);
    }
    return true;
}

static bool make_outputs(const struct spec *spec, const struct op_dim *words, struct arrays *arrays,
                         struct error *error) {
    const struct described described = described_by(spec);
    for (int i = 0; i < spec->op->tensor_count; i++) {
        const struct op_tensor *tensor = &spec->op->tensors[i];
        int64_t dims[OP_MOST_RANK];
        int rank = kvmill_op_shape(tensor->shape, 0, words, dims);
        if (described_output(&described, tensor->index) == NULL ||
            is_given(&arrays->tensor[tensor->index]))
            continue;
        if (rank < 0 || !described_make(&described, tensor->index, dims, rank, arrays, error))
            return rank >= 0 || fail(error, EXIT_BUG, "%s: no dims", tensor->name);
    }
    return true;
}

static bool prepare_plain(struct spec *spec, struct arrays *arrays, struct error *error) {
    struct op_dim words[OP_MOST_WORDS] = {{NULL, 0}};
    return run_reconcile(spec, arrays, error) && spec_check(spec, error) &&
           learn_dims(spec, arrays, words, error) && make_outputs(spec, words, arrays, error);
}

const struct run_op plain_run = {
    .tensors = MOST_RUN_TENSORS,
    .prepare = prepare_plain,
    .plan = plan_plain,
};
