/* Runs of steps, and copies of the tensors before them.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow_step.h"

/* ---- Tensors of a run ---- */

static void give(struct flow_step *step, int which) {
    struct fenced_tensor *tensor = flow_step_tensor(step, which);
    if (tensor_is_open(tensor))
        step->given[which] = &tensor->dl;
}

/* Gives the step all its tensors, except the numbers of requests' tokens, which are all 1. */
void flow_step_give(struct flow_step *step, int kind, bool lists) {
    const struct op *op = &kvmill_flow_steps[kind];
    bool scores = kind == OP_FLOW_INDEX || kind == OP_FLOW_DECODE;
    memset(step->given, 0, sizeof step->given);
    for (int i = 0; i < op->tensor_count; i++) {
        const struct op_tensor *tensor = &op->tensors[i];
        bool is_list =
            tensor->index >= KVMILL_FLOW_SEL_INDPTR && tensor->index <= KVMILL_FLOW_SCORES;
        if ((tensor->in | tensor->out) & kvmill_op_bit(op) &&
            (!is_list || lists || kind == OP_FLOW_INDEX) &&
            tensor->index != KVMILL_CACHE_ATTENTION_SEQSTARTS)
            give(step, tensor->index);
    }
    for (int i = KVMILL_FLOW_FIELDS; i < FLOW_STEP_EXTRAS && kind != OP_FLOW_ATTEND; i++)
        give(step, i);
    for (int i = FLOW_STEP_EXTRAS; i < FLOW_STEP_MOST; i++)
        if (i < flow_step_first_input(step) ? kind == OP_FLOW_APPEND : scores)
            give(step, i);
}

/* Orders the tensors as the library does: new rows and inputs come directly after the existing
   fields. */
static void order_tensors(const struct flow_step *step, const DLTensor **list) {
    memcpy(list, step->given, sizeof step->given);
    for (int i = FLOW_STEP_EXTRAS; i < FLOW_STEP_MOST; i++)
        if (tensor_is_open(&step->tensor[i]))
            list[KVMILL_FLOW_FIELDS + (int)step->flow.field_count + i - FLOW_STEP_EXTRAS] =
                step->given[i];
}

bool flow_step_writes_rows(const struct flow_step *step) {
    const kvmill_flow *flow = &step->flow;
    for (size_t i = 0; i < flow->cache_count; i++)
        if (strcmp(flow->cache[i].output, "k") == 0 || strcmp(flow->cache[i].output, "v") == 0)
            return true;
    return false;
}

/* Returns the outputs of a step; a test's own flow may save in its fields. */
static uint64_t outputs_of(const struct flow_step *step, int kind) {
    const struct op *op = &kvmill_flow_steps[kind];
    bool keeps_rows = kind == OP_FLOW_SUMMARISE && !flow_step_writes_rows(step);
    bool fields = kind == OP_FLOW_APPEND || kind == OP_FLOW_SUMMARISE || step->own != NULL;
    uint64_t outputs = 0;
    for (int i = 0; i < op->tensor_count && !keeps_rows; i++)
        if (op->tensors[i].out & kvmill_op_bit(op))
            outputs |= UINT64_C(1) << op->tensors[i].index;
    for (int i = KVMILL_FLOW_FIELDS; i < FLOW_STEP_EXTRAS && fields; i++)
        outputs |= UINT64_C(1) << i;
    return outputs;
}

/* ---- Running ---- */

static void protect_inputs(struct flow_step *step, int kind, bool read_only) {
    const uint64_t outputs = outputs_of(step, kind);
    tensors_protect(step->attention.tensor, TENSORS, outputs, read_only);
    tensors_protect(step->tensor, FLOW_STEP_MOST, outputs, read_only);
}

static kvmill_status run_plan(struct flow_step *step, int kind, const kvmill_plan *plan,
                              int threads, struct dice *dice, kvmill_error *error) {
    const DLTensor *list[FLOW_STEP_MOST];
    struct flow_beside beside;
    fence_explain_traps(step->attention.words);
    order_tensors(step, list);
    flow_beside_open(&beside, step->flow.field_layout, list + KVMILL_FLOW_FIELDS,
                     (int)step->flow.field_count, dice);
    protect_inputs(step, kind, true);
    kvmill_status status = run_with_workspace(plan, list, threads, dice, error);
    protect_inputs(step, kind, false);
    if (!flow_beside_close(&beside))
        bail_out("the fields' memory was left: %s", step->attention.words);
    return status;
}

kvmill_status flow_step_run(struct flow_step *step, int kind, const kvmill_plan_options *options,
                            int threads, struct dice *dice, kvmill_error *error) {
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_status status = plan_flow_step(kind, &step->flow, &step->limits, options, &plan, error);
    if (status != KVMILL_OK)
        return status;
    status = run_plan(step, kind, plan, threads, dice, error);
    return status;
}

bool flow_step_runs(struct flow_step *step, int kind, const kvmill_plan_options *options,
                    int threads, struct dice *dice) {
    kvmill_error error;
    kvmill_status status = flow_step_run(step, kind, options, threads, dice, &error);
    if (status != KVMILL_OK)
        diag("%s: %s; %s", kvmill_status_name(status), error.message, step->attention.words);
    return status == KVMILL_OK &&
           tensors_are_intact(step->attention.tensor, TENSORS, step->attention.words) &&
           tensors_are_intact(step->tensor, FLOW_STEP_MOST, step->attention.words);
}

/* ---- Copies of tensors ---- */

void *flow_step_copy(struct flow_step *step, int which) {
    const struct fence *fence = &flow_step_tensor(step, which)->fence;
    if (fence->pages == NULL)
        return NULL;
    void *copy = take((int64_t)fence->size, 1);
    memcpy(copy, fence->data, fence->size);
    return copy;
}

bool flow_step_has_bytes(struct flow_step *step, int which, const void *bytes) {
    const struct fence *fence = &flow_step_tensor(step, which)->fence;
    return (bytes == NULL || memcmp(bytes, fence->data, fence->size) == 0) ||
           diag("tensor %d has other bits; %s", which, step->attention.words);
}

void flow_step_keep(struct flow_step *step, struct dice *dice) {
    tensors_keep(step->attention.before, step->attention.tensor, TENSORS, dice);
    tensors_keep(step->before, step->tensor, FLOW_STEP_MOST, dice);
}

bool flow_step_is_kept(struct flow_step *step) {
    const char *words = step->attention.words;
    return tensors_are_kept(step->attention.tensor, step->attention.before, TENSORS, 0, words) &&
           tensors_are_kept(step->tensor, step->before, FLOW_STEP_MOST, 0, words);
}

void flow_step_restore(struct flow_step *step) {
    tensors_restore(step->attention.tensor, step->attention.before, TENSORS);
    tensors_restore(step->tensor, step->before, FLOW_STEP_MOST);
}
