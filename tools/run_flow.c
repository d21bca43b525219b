/* kvmill run for the steps of a sparse flow.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../ops/flow_tensors.h"
#include "../ops/tensor_scatter.h"
#include "../spec/flow_spec.h"
#include "run_fields.h"

/* ---- Steps ---- */

static bool choose(struct spec *spec, const char *word, struct error *error) {
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        if (strcmp(kvmill_flow_steps[i].name, word) == 0) {
            spec->flow->step = i;
            return true;
        }
    return fail(error, EXIT_USER,
                "--step: \"%.40s\"; accepted: append, index, attend, decode, "
                "summarise",
                word);
}

/* ---- Tensors ---- */

/* Returns the step's description, with the attributes of the flow's attention. */
static struct described described_step(const struct spec *spec) {
    const kvmill_cache_attention *op = &spec->flow->attention.attention.op;
    return (struct described){&kvmill_flow_steps[spec->flow->step], op, op};
}

static bool runs(const struct spec *spec, int step) {
    return spec->flow->step == step;
}

static bool scores(const struct spec *spec) {
    return runs(spec, OP_FLOW_DECODE) || runs(spec, OP_FLOW_INDEX);
}

/* Returns a tensor that the flow names, or NULL if it has fewer. */
static const struct kvmill_flow_tensor *own_of(const struct spec *spec, int tensor) {
    static struct kvmill_flow_tensor own[KVMILL_MOST_FLOW_OWN];
    int n = tensor - KVMILL_FLOW_FIELDS;
    bool has =
        n >= 0 && n < KVMILL_MOST_FLOW_OWN && kvmill_flow_tensor_at(flow_of_spec(spec), n, &own[n]);
    return has ? &own[n] : NULL;
}

/* Whether the step reads a tensor that the flow names. */
static bool takes(const struct spec *spec, const struct kvmill_flow_tensor *own) {
    return kvmill_flow_step_reads(spec->flow->step, own);
}

static bool gives(const struct spec *spec, const struct kvmill_flow_tensor *own) {
    return kvmill_flow_step_writes(flow_of_spec(spec), spec->flow->step, own);
}

static const char *input(const struct spec *spec, int tensor) {
    const struct kvmill_flow_tensor *own = own_of(spec, tensor);
    struct described described = described_step(spec);
    if (tensor < KVMILL_FLOW_FIELDS)
        return described_input(&described, tensor);
    return own != NULL && takes(spec, own) ? own->name : NULL;
}

static const char *output(const struct spec *spec, int tensor) {
    const struct kvmill_flow_tensor *own = own_of(spec, tensor);
    struct described described = described_step(spec);
    if (tensor < KVMILL_FLOW_FIELDS)
        return described_output(&described, tensor);
    return own != NULL && gives(spec, own) ? own->name : NULL;
}

/* ---- Inputs ---- */

static bool adopt_own(const struct spec *spec, int tensor, struct arrays *arrays,
                      struct error *error) {
    const struct kvmill_flow_tensor *own = own_of(spec, tensor);
    struct npy *npy = &arrays->tensor[tensor];
    return array_require(own->name, npy, error) &&
           (!gives(spec, own) || array_keep(own->name, npy, &arrays->file[tensor], error)) &&
           array_adopt(own->name, own->dtype, NULL, npy, error);
}

static bool adopt_all(const struct spec *spec, struct arrays *arrays, struct error *error) {
    struct described described = described_step(spec);
    if (!described_require(&described, arrays, error) ||
        !described_adopt(&described, arrays, error))
        return false;
    for (int i = KVMILL_FLOW_FIELDS; own_of(spec, i) != NULL; i++)
        if (takes(spec, own_of(spec, i)) && !adopt_own(spec, i, arrays, error))
            return false;
    return true;
}

static int64_t length_of(const struct npy *npy) {
    return npy->tensor.ndim == 1 ? npy->tensor.shape[0] : 0;
}

/* ---- Outputs ---- */

/* Makes the lists, with room for all blocks of all pages.  The index step always returns them, the
   decode step only if one of them is an output. */
static bool make_lists(const struct spec *spec, struct arrays *arrays, struct error *error) {
    struct kvmill_flow_problem problem;
    bool valid = kvmill_flow_verify(flow_of_spec(spec), &problem, NULL) == KVMILL_OK;
    int64_t rows = valid ? kvmill_flow_rows_of_request(&problem) : 0;
    int64_t requests = length_of(&arrays->tensor[KVMILL_FLOW_SEQ_LEN]);
    int64_t pages = length_of(&arrays->tensor[KVMILL_FLOW_PAGE_IDS]);
    struct described described = described_step(spec);
    int64_t starts = requests * rows + 1;
    int64_t numbers = valid ? pages * problem.page_blocks * rows : 0;
    bool wanted = runs(spec, OP_FLOW_INDEX) || arrays->output[KVMILL_FLOW_SEL_INDPTR] != NULL ||
                  arrays->output[KVMILL_FLOW_SEL] != NULL ||
                  arrays->output[KVMILL_FLOW_BLOCK_IDS] != NULL;
    if (arrays->output[KVMILL_FLOW_SCORES] != NULL &&
        !described_make(&described, KVMILL_FLOW_SCORES, &numbers, 1, arrays, error))
        return false;
    return !wanted ||
           (described_make(&described, KVMILL_FLOW_SEL_INDPTR, &starts, 1, arrays, error) &&
            described_make(&described, KVMILL_FLOW_SEL, &numbers, 1, arrays, error) &&
            described_make(&described, KVMILL_FLOW_BLOCK_IDS, &numbers, 1, arrays, error));
}

/* Shortens the lists to the part that is used. */
static void cut_lists(const struct spec *spec, struct arrays *arrays) {
    const struct npy *starts = &arrays->tensor[KVMILL_FLOW_SEL_INDPTR];
    if (!scores(spec) || !is_given(starts))
        return;
    int64_t used = ((const int64_t *)starts->tensor.data)[length_of(starts) - 1];
    arrays->tensor[KVMILL_FLOW_SEL].tensor.shape[0] = used;
    arrays->tensor[KVMILL_FLOW_BLOCK_IDS].tensor.shape[0] = used;
}

/* ---- Fields ---- */

static bool lay_fields(const struct spec *spec, struct arrays *arrays, struct error *error) {
    struct kvmill_flow_problem problem;
    bool valid = kvmill_flow_verify(flow_of_spec(spec), &problem, NULL) == KVMILL_OK;
    return !valid || runs(spec, OP_FLOW_ATTEND) || fields_lay(&problem, arrays, error);
}

/* ---- Preparing and planning ---- */

static bool prepare_flow(struct spec *spec, struct arrays *arrays, struct error *error) {
    bool attends = runs(spec, OP_FLOW_DECODE) || runs(spec, OP_FLOW_ATTEND);
    attention_learn_layers(&spec->flow->attention,
                           &arrays->tensor[KVMILL_CACHE_ATTENTION_CACHE].tensor);
    return adopt_all(spec, arrays, error) && spec_check(spec, error) &&
           (!attends || attention_make_scores(&spec->flow->attention, arrays, error)) &&
           (!scores(spec) || make_lists(spec, arrays, error)) && lay_fields(spec, arrays, error);
}

/* Returns the limits.  The number of pages is an upper bound: an element of a row has at least one
   byte. */
static kvmill_flow_limits limits_of(const struct spec *spec, const struct arrays *arrays) {
    int64_t slots = (int64_t)npy_bytes(&arrays->tensor[KVMILL_CACHE_ATTENTION_CACHE]);
    int64_t pages = slots / flow_of_spec(spec)->attention->page_size;
    return (kvmill_flow_limits){
        .struct_size = sizeof(kvmill_flow_limits),
        .batch = length_of(&arrays->tensor[KVMILL_FLOW_SEQ_LEN]),
        .pages = length_of(&arrays->tensor[KVMILL_FLOW_PAGE_IDS]),
        .cache_pages = pages < INT32_MAX ? pages : INT32_MAX,
    };
}

static kvmill_status plan_flow(const struct spec *spec, const struct arrays *arrays,
                               const kvmill_plan_options *options, kvmill_plan **plan,
                               kvmill_error *reason) {
    static kvmill_status (*const plans[OP_FLOW_STEPS])(
        const kvmill_flow *, const kvmill_flow_limits *, const kvmill_plan_options *,
        kvmill_plan **, kvmill_error *) = {
        [OP_FLOW_DECODE] = kvmill_plan_flow_decode,
        [OP_FLOW_APPEND] = kvmill_plan_flow_append,
        [OP_FLOW_INDEX] = kvmill_plan_flow_index,
        [OP_FLOW_ATTEND] = kvmill_plan_flow_attend,
        [OP_FLOW_SUMMARISE] = kvmill_plan_flow_summarise,
    };
    kvmill_flow_limits limits = limits_of(spec, arrays);
    return plans[spec->flow->step](flow_of_spec(spec), &limits, options, plan, reason);
}

const struct run_op flow_run = {
    .tensors = KVMILL_MOST_FLOW_TENSORS,
    .input = input,
    .output = output,
    .prepare = prepare_flow,
    .plan = plan_flow,
    .choose = choose,
    .finish = cut_lists,
};
