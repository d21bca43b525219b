/* Extents and strides.  A caller may pass any number, so products and sums are defined for all of
   them, and report overflow.  Also the smaller and the larger of two.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_EXTENT_H
#define KVMILL_OPS_EXTENT_H

#include <stdbool.h>

#include <kvmill.h>

static inline int64_t kvmill_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t kvmill_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Whether A and B are equal, or one is unknown. */
static inline bool kvmill_may_be_equal(int64_t a, int64_t b) {
    return a == b || a == KVMILL_DYNAMIC || b == KVMILL_DYNAMIC;
}

/* `overflow` is set if the result does not fit, and stays set. */
static inline int64_t kvmill_times(int64_t a, int64_t b, bool *overflow) {
    *overflow |= __builtin_mul_overflow(a, b, &a);
    return a;
}

static inline int64_t kvmill_plus(int64_t a, int64_t b, bool *overflow) {
    *overflow |= __builtin_add_overflow(a, b, &a);
    return a;
}

/* |a|; INT64_MIN has no magnitude that fits. */
static inline int64_t kvmill_magnitude(int64_t a, bool *overflow) {
    return a < 0 ? kvmill_times(a, -1, overflow) : a;
}

/* The product of extents that are added one by one; begins as {1}. */
struct kvmill_count {
    int64_t product; /* of the known ones */
    bool empty, dynamic, overflow;
};

static inline void kvmill_count_extent(struct kvmill_count *count, int64_t extent) {
    count->empty |= extent == 0;
    count->dynamic |= extent == KVMILL_DYNAMIC;
    if (extent != KVMILL_DYNAMIC)
        count->product = kvmill_times(count->product, extent, &count->overflow);
}

enum { KVMILL_TOO_MANY = -2 };

/* 0 if any extent is 0; KVMILL_TOO_MANY if int64 cannot hold the product; KVMILL_DYNAMIC if an
   extent is unknown. */
static inline int64_t kvmill_counted(const struct kvmill_count *count) {
    return count->empty      ? 0
           : count->overflow ? KVMILL_TOO_MANY
           : count->dynamic  ? KVMILL_DYNAMIC
                             : count->product;
}

static inline int64_t kvmill_count_of(const int64_t *extents, int rank) {
    struct kvmill_count count = {.product = 1};
    for (int d = 0; d < rank; d++)
        kvmill_count_extent(&count, extents[d]);
    return kvmill_counted(&count);
}

/* The elements of a tensor, in the same way. */
static inline int64_t kvmill_element_count(const DLTensor *tensor) {
    return kvmill_count_of(tensor->shape, tensor->ndim);
}

#endif
