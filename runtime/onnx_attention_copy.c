/* present_key and present_value: the past, then the new rows; in a step: caches with new rows in
   them.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention.h"

/* Rows side by side are one piece of memory. */
static void copy_rows(unsigned char *to, int64_t to_step, const unsigned char *from,
                      int64_t from_step, int64_t count, int64_t bytes) {
    if (to == from || count == 0)
        return;
    if (to_step == bytes && from_step == bytes) {
        memcpy(to, from, (size_t)(count * bytes));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step, from + i * from_step, (size_t)bytes);
}

/* A kv head of K (v = 0) or V. */
static void copy_head(const struct cache_call *call, int64_t v, int64_t b, int64_t head) {
    const struct onnx_run *run = call->onnx;
    const struct present_view *present = &run->present[v];
    const struct token_rows *to = &present->rows, *fresh = &call->current[v];
    const struct cache_side *old = &call->side[v];
    int64_t past = run->geometry.past;
    unsigned char *at = to->data + b * to->batch + head * to->head;
    if (past > 0)
        copy_rows(at, to->token, old->rows.data + b * old->batch + head * old->rows.head_stride,
                  old->rows.row_stride, past, present->row_bytes);
    copy_rows(at + past * to->token, to->token, fresh->data + b * fresh->batch + head * fresh->head,
              fresh->token, run->geometry.keys, present->row_bytes);
}

static void present_part(const struct cache_call *call, int64_t part) {
    const struct onnx_run *run = call->onnx;
    int64_t heads = run->geometry.kv_heads, v = part % 2;
    if (run->present[v].rows.data != NULL)
        copy_head(call, v, part / 2 / heads, part / 2 % heads);
}

static int64_t present_parts(const struct cache_call *call) {
    const struct onnx_run *run = call->onnx;
    bool wanted = !run->geometry.step &&
                  (run->present[0].rows.data != NULL || run->present[1].rows.data != NULL);
    return wanted ? 2 * run->geometry.batch * run->geometry.kv_heads : 0;
}

/* ---- Steps ---- */

static int64_t scatter_parts(const struct cache_call *call) {
    const struct onnx_run *run = call->onnx;
    bool scatters = run->plan->scatter[0] != NULL;
    return scatters ? kvmill_parts(&run->scatter[0]) + kvmill_parts(&run->scatter[1]) : 0;
}

/* K's parts, then V's. */
static void scatter_part(const struct cache_call *call, int64_t part) {
    const struct onnx_run *run = call->onnx;
    int64_t of_keys = kvmill_parts(&run->scatter[0]);
    bool value = part >= of_keys;
    kvmill_part(&run->scatter[value], value ? part - of_keys : part);
}

static int64_t ring_parts(const struct cache_call *call) {
    const struct onnx_run *run = call->onnx;
    bool scatters = run->plan->scatter[0] != NULL || !run->geometry.step;
    return scatters ? 0 : 2 * run->geometry.batch * run->geometry.kv_heads;
}

/* A kv head of a circular cache, K's or V's: what was there, then new rows, but no padding. */
static void ring_part(const struct cache_call *call, int64_t part) {
    const struct onnx_run *run = call->onnx;
    int64_t heads = run->geometry.kv_heads, head = part / 2 % heads, capacity = run->geometry.past;
    int64_t b = part / 2 / heads, v = part % 2, joint = kvmill_onnx_joint(run, b);
    const struct present_view *present = &run->present[v];
    const struct token_rows *to = &present->rows, *fresh = &call->current[v];
    const struct cache_side *old = &call->side[v];
    unsigned char *at = to->data + b * to->batch + head * to->head;
    const unsigned char *from = fresh->data + b * fresh->batch + head * fresh->head;
    copy_rows(at, to->token, old->rows.data + b * old->batch + head * old->rows.head_stride,
              old->rows.row_stride, capacity, present->row_bytes);
    for (int64_t i = 0; i < kvmill_onnx_length(run, b) - joint; i++)
        memcpy(at + (joint + i) % capacity * to->token, from + i * fresh->token,
               (size_t)present->row_bytes);
}

const struct phase kvmill_scatter_phase = {scatter_parts, scatter_part};
const struct phase kvmill_ring_phase = {ring_parts, ring_part};
const struct phase kvmill_present_phase = {present_parts, present_part};
