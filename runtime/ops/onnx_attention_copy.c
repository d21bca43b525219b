/* present_key and present_value: the past followed by the new rows; in a step, the caches with the
   new rows in them.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention_plan.h"

/* Adjacent rows are copied together. */
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

static const struct onnx_run *run_of(const struct call *call) {
    return onnx_call_of(call)->run;
}

/* A kv head of K or V: old rows, new rows, and where both go. */
struct head_rows {
    unsigned char *to;
    const unsigned char *old, *fresh;
    int64_t to_step, old_step, fresh_step;
    int64_t bytes; /* of a row */
    int64_t b;
};

/* K and V take turns. */
static struct head_rows head_of_part(const struct call *call, int64_t part) {
    const struct onnx_run *run = run_of(call);
    int64_t v = part % 2, head = part / 2 % run->geometry.kv_heads;
    int64_t b = part / 2 / run->geometry.kv_heads;
    const struct token_rows *to = &run->present[v].rows, *fresh = &run->fresh[v];
    const struct cache_side *old = &onnx_call_of(call)->base.view.side[0][v];
    return (struct head_rows){
        .to = to->data + b * to->batch + head * to->head,
        .old = old->rows.data + b * old->batch + head * old->rows.head_stride,
        .fresh = fresh->data + b * fresh->batch + head * fresh->head,
        .to_step = to->token,
        .old_step = old->rows.row_stride,
        .fresh_step = fresh->token,
        .bytes = run->present[v].row_bytes,
        .b = b,
    };
}

static void copy_old(const struct head_rows *rows, int64_t count) {
    copy_rows(rows->to, rows->to_step, rows->old, rows->old_step, count, rows->bytes);
}

static void present_part(const struct call *call, int64_t part) {
    const struct kvmill_attention_geometry *geometry = &run_of(call)->geometry;
    if (run_of(call)->present[part % 2].rows.data == NULL)
        return;
    const struct head_rows rows = head_of_part(call, part);
    copy_old(&rows, geometry->past);
    copy_rows(rows.to + geometry->past * rows.to_step, rows.to_step, rows.fresh, rows.fresh_step,
              geometry->keys, rows.bytes);
}

static int64_t present_parts(const struct call *call) {
    const struct onnx_run *run = run_of(call);
    bool wanted = !run->geometry.step &&
                  (run->present[0].rows.data != NULL || run->present[1].rows.data != NULL);
    return wanted ? 2 * run->geometry.batch * run->geometry.kv_heads : 0;
}

/* The rows of both caches, past and new. */
static double present_work(const struct call *call) {
    const struct onnx_run *run = run_of(call);
    const struct kvmill_attention_geometry *geometry = &run->geometry;
    double rows =
        (double)(geometry->batch * geometry->kv_heads) * (double)(geometry->past + geometry->keys);
    return rows * (double)(run->present[0].row_bytes + run->present[1].row_bytes);
}

/* ---- Steps ---- */

static int64_t scatter_parts(const struct call *call) {
    const struct onnx_run *run = run_of(call);
    bool scatters = run->plan->scatter[0] != NULL;
    return scatters ? kvmill_parts(&run->scatter[0]) + kvmill_parts(&run->scatter[1]) : 0;
}

static double scatter_work(const struct call *call) {
    const struct onnx_run *run = run_of(call);
    return kvmill_work(&run->scatter[0]) + kvmill_work(&run->scatter[1]);
}

/* First K's parts, then V's. */
static void scatter_part(const struct call *call, int64_t part) {
    const struct onnx_run *run = run_of(call);
    int64_t of_keys = kvmill_parts(&run->scatter[0]);
    bool value = part >= of_keys;
    kvmill_part(&run->scatter[value], value ? part - of_keys : part);
}

static int64_t ring_parts(const struct call *call) {
    const struct onnx_run *run = run_of(call);
    bool scatters = run->plan->scatter[0] != NULL || !run->geometry.step;
    return scatters ? 0 : 2 * run->geometry.batch * run->geometry.kv_heads;
}

/* Old rows, then new rows without padding. */
static void ring_part(const struct call *call, int64_t part) {
    const struct onnx_run *run = run_of(call);
    const struct head_rows rows = head_of_part(call, part);
    int64_t capacity = run->geometry.past, joint = kvmill_onnx_joint(run, rows.b);
    copy_old(&rows, capacity);
    for (int64_t i = 0; i < kvmill_onnx_length(run, rows.b) - joint; i++)
        memcpy(rows.to + (joint + i) % capacity * rows.to_step, rows.fresh + i * rows.fresh_step,
               (size_t)rows.bytes);
}

const struct phase kvmill_scatter_phase = {scatter_parts, scatter_part, scatter_work};
const struct phase kvmill_ring_phase = {ring_parts, ring_part, present_work};
const struct phase kvmill_present_phase = {present_parts, present_part, present_work};
