/* What benchmarks of gather and scatter have in common: dense tensors, and random starts of
   windows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_WINDOW_STARTS_H
#define KVMILL_BENCH_WINDOW_STARTS_H

#include "../ops/windows.h"

/* Of all elements, side by side. */
int64_t dense_bytes(const DLTensor *tensor);

/* How many starts each component of an index vector may have: all that keep the window inside and
   that the type can say. */
struct window_starts {
    int64_t count[KVMILL_MOST_RANK];
    int64_t components, step; /* elements from one component of a vector to the next */
};

void window_starts_set(struct window_starts *starts, const struct kvmill_windows *windows,
                       const DLTensor *indices);

/* Of the component that element i of the indices is. */
int64_t window_starts_at(const struct window_starts *starts, int64_t i);

#endif
