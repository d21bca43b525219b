/* SPDX-License-Identifier: Apache-2.0 */
#include "window_starts.h"

#include "../ops/element.h"

int64_t dense_bytes(const DLTensor *tensor) {
    int64_t bytes = kvmill_element_bytes(tensor->dtype);
    for (int d = 0; d < tensor->ndim; d++)
        bytes *= tensor->shape[d];
    return bytes;
}

static int64_t largest_of(DLDataType type) {
    int bits = type.code == kDLInt ? type.bits - 1 : type.bits;
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

static int64_t component_step(const struct kvmill_windows *windows, const DLTensor *indices) {
    int64_t step = 1;
    for (int d = windows->vector_axis + 1;
         windows->vector_axis != KVMILL_NOT_THERE && d < indices->ndim; d++)
        step *= indices->shape[d];
    return step;
}

void window_starts_set(struct window_starts *starts, const struct kvmill_windows *windows,
                       const DLTensor *indices) {
    int64_t most = largest_of(indices->dtype);
    *starts =
        (struct window_starts){.count = {1},
                               .components = windows->components > 0 ? windows->components : 1,
                               .step = component_step(windows, indices)};
    for (int d = 0; d < windows->rank; d++) {
        int64_t last = windows->dim[d] - windows->window[d];
        if (windows->component[d] != KVMILL_NOT_THERE)
            starts->count[windows->component[d]] = (last < most ? last : most) + 1;
    }
}

int64_t window_starts_at(const struct window_starts *starts, int64_t i) {
    return starts->count[i / starts->step % starts->components];
}
