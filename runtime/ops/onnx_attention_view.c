/* The view of a run of ONNX Attention for attention.

   SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "../core/numbers.h"
#include "onnx_attention_plan.h"

/* ---- Steps ---- */

/* Position of a step's query 0. */
static int64_t start_of(const struct onnx_run *run, int64_t b) {
    int64_t start = run->starts.data != NULL ? index_at(run->starts, b) : 0;
    int64_t capacity = run->geometry.past;
    bool wraps = run->geometry.circular && capacity > 0 && start >= capacity;
    return wraps ? capacity + start % capacity : start;
}

/* New rows of a step that are not padding. */
static int64_t rows_of(const struct onnx_run *run, int64_t b) {
    int64_t start = run->starts.data != NULL ? index_at(run->starts, b) : 0;
    return run->lengths.data != NULL ? index_at(run->lengths, b) - start : run->geometry.queries;
}

/* ---- What a query sees ---- */

int64_t kvmill_onnx_length(const struct onnx_run *run, int64_t b) {
    if (run->geometry.step)
        return start_of(run, b) + rows_of(run, b);
    if (run->lengths.data != NULL)
        return index_at(run->lengths, b);
    return run->geometry.past + run->geometry.keys;
}

/* Position of query 0. */
static int64_t offset_of(const struct onnx_run *run, int64_t b) {
    if (run->geometry.step)
        return start_of(run, b);
    if (run->lengths.data != NULL)
        return index_at(run->lengths, b) - run->geometry.queries;
    return run->geometry.past;
}

/* ---- Where keys are ---- */

int64_t kvmill_onnx_joint(const struct onnx_run *run, int64_t b) {
    if (run->geometry.step)
        return start_of(run, b);
    return run->geometry.past > 0 ? run->geometry.past : INT64_MAX;
}

/* A query sees at most as many keys of a ring as it has rows. */
static struct attend_pages pages_of(const struct onnx_run *run) {
    return run->geometry.circular ? (struct attend_pages){.size = run->geometry.past} : one_page(0);
}

/* ---- The view ---- */

static const struct onnx_run *run_of_view(const struct attend_view *view) {
    const unsigned char *call = (const unsigned char *)view - offsetof(struct onnx_call, base.view);
    return ((const struct onnx_call *)(const void *)call)->run;
}

static void look(const struct attend_view *view, int64_t b, int64_t head,
                 struct attend_sequence *sequence) {
    const struct onnx_run *run = run_of_view(view);
    (void)head;
    *sequence = whole_sequence(kvmill_onnx_length(run, b));
    if (run->plan->has[KVMILL_ATTENTION_ATTN_MASK])
        sequence->length = kvmill_min(sequence->length, view->mask.columns);
    sequence->origin = offset_of(run, b);
    sequence->left = run->geometry.left;
    sequence->right = run->geometry.right;
    sequence->joint = kvmill_onnx_joint(run, b);
    sequence->pages[0] = pages_of(run);
    if (run->geometry.circular)
        sequence->most = run->geometry.past;
    if (run->geometry.step)
        sequence->tokens = rows_of(run, b);
}

/* The most keys that a batch entry sees. */
static int64_t longest(const struct onnx_run *run) {
    const struct kvmill_attention_geometry *geometry = &run->geometry;
    int64_t length = 0;
    for (int64_t b = 0; b < geometry->batch; b++)
        length = kvmill_max(length, kvmill_onnx_length(run, b));
    return kvmill_min(length, geometry->past + geometry->keys);
}

void kvmill_onnx_set_view(struct onnx_call *call) {
    const struct kvmill_attention_geometry *geometry = &call->run->geometry;
    struct attend_view *view = &call->base.view;
    view->plan = &onnx_plan_of(call)->attend;
    view->workspace = call->base.base.base.workspace;
    view->batch = geometry->batch;
    view->tokens.each = geometry->queries;
    view->look = look;
    view->heads_alike = true;
    view->converts = call->run->plan->has[KVMILL_ATTENTION_ATTN_MASK];
    view->longest = longest(call->run);
    view->size = geometry->batch > 0
                     ? (struct kvmill_call_size){geometry->batch, geometry->queries, view->longest}
                     : (struct kvmill_call_size){1, 0, 0};
}
