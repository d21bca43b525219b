/* What the queries of ONNX Attention see, and where it lies.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* a + b, of numbers that are not negative. */
static int64_t sum_at_most(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* ---- Steps ---- */

/* Position of a step's query 0. */
static int64_t start_of(const struct onnx_run *run, int64_t b) {
    int64_t start = run->starts.data != NULL ? index_at(run->starts, b) : 0;
    int64_t capacity = run->geometry.past;
    bool wraps = run->geometry.circular && capacity > 0 && start >= capacity;
    return wraps ? capacity + start % capacity : start;
}

/* New rows of a step that are no padding. */
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

/* Behind the last key that position p sees. */
static int64_t last_seen(const struct onnx_run *run, int64_t b, int64_t p) {
    int64_t right = run->geometry.right, length = kvmill_onnx_length(run, b);
    if (run->mask.data != NULL)
        length = least(length, run->mask.columns);
    if (right < 0)
        return length;
    return most(0, least(length, p < 0 ? p + 1 + right : sum_at_most(p + 1, right)));
}

void kvmill_onnx_see(const struct onnx_run *run, int64_t b, int64_t query, int64_t *first,
                     int64_t *last) {
    int64_t p = offset_of(run, b) + query, left = run->geometry.left;
    *last = last_seen(run, b, p);
    *first = left < 0 || left >= p ? 0 : least(p - left, *last);
    if (run->geometry.circular)
        *first = most(*first, *last - run->geometry.past);
    if (run->geometry.step && query >= rows_of(run, b))
        *first = *last;
}

/* ---- Where keys lie ---- */

int64_t kvmill_onnx_joint(const struct onnx_run *run, int64_t b) {
    if (run->geometry.step)
        return start_of(run, b);
    return run->geometry.past > 0 ? run->geometry.past : INT64_MAX;
}

int64_t kvmill_onnx_slot(const struct onnx_run *run, int64_t b, int64_t key) {
    int64_t joint = kvmill_onnx_joint(run, b);
    if (key >= joint)
        return key - joint;
    return run->geometry.circular ? key % run->geometry.past : key;
}

/* No query sees more keys of a ring than it has rows: it ends once at most. */
void kvmill_onnx_fill_slots(const struct onnx_run *run, int64_t b, int64_t first, int64_t count,
                            int64_t *slots) {
    int64_t slot = kvmill_onnx_slot(run, b, first);
    bool ring = run->geometry.circular && first < kvmill_onnx_joint(run, b);
    for (int64_t i = 0; i < count; i++, slot++) {
        if (ring && slot == run->geometry.past)
            slot = 0;
        slots[i] = slot;
    }
}
