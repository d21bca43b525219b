/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_windows.h"

#include <string.h>

#include "oracle_numbers.h"

enum { MOST_DIMS = 16 };

/* ---- Elements by their coordinates ---- */

static unsigned char *address_of_first(const DLTensor *tensor) {
    return (unsigned char *)tensor->data + tensor->byte_offset;
}

static int64_t element_number(const DLTensor *tensor, const int64_t *coordinate) {
    int64_t number = 0;
    for (int d = 0; d < tensor->ndim; d++)
        number = tensor->strides == NULL ? number * tensor->shape[d] + coordinate[d]
                                         : number + coordinate[d] * tensor->strides[d];
    return number;
}

/* Returns the stride of the last dim. */
static int64_t last_stride(const DLTensor *tensor) {
    return tensor->strides == NULL ? 1 : tensor->strides[tensor->ndim - 1];
}

/* Copies `count` elements along the last dim. */
static void copy_elements(const DLTensor *to, const int64_t *at, const DLTensor *from,
                          const int64_t *begin, int64_t count) {
    int bits = to->dtype.bits * to->dtype.lanes;
    int64_t target = element_number(to, at), source = element_number(from, begin);
    for (; count > 0; count--, target += last_stride(to), source += last_stride(from))
        if (bits == 4)
            oracle_put_nibble(address_of_first(to), target,
                              oracle_get_nibble(address_of_first(from), source));
        else
            memcpy(address_of_first(to) + target * (bits / 8),
                   address_of_first(from) + source * (bits / 8), (size_t)bits / 8);
}

/* ---- The definition ---- */

static int64_t start_of(const DLTensor *write_indices, int64_t batch) {
    int64_t start = 0;
    if (write_indices != NULL)
        memcpy(&start, address_of_first(write_indices) + element_number(write_indices, &batch) * 8,
               8);
    return start;
}

/* Returns the row of update for `slot`, or -1: the row's distance from the first is the slot's
   distance from the start. */
static int64_t row_for_slot(int64_t slot, int64_t start, int64_t rows, int64_t capacity,
                            bool circular) {
    int64_t distance = slot - (circular ? start % capacity : start);
    if (circular)
        distance = (distance + capacity) % capacity;
    return distance >= 0 && distance < rows ? distance : -1;
}

/* Moves to the next coordinate of the first `dims` dims, row-major; returns false after the
   last. */
static bool advance(const DLTensor *tensor, int dims, int64_t *coordinate) {
    for (int d = dims - 1; d >= 0; d--) {
        if (++coordinate[d] < tensor->shape[d])
            return true;
        coordinate[d] = 0;
    }
    return false;
}

static int64_t count_elements(const DLTensor *tensor) {
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return 0;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

void oracle_tensor_scatter(int axis, bool circular, const DLTensor *past, const DLTensor *update,
                           const DLTensor *write_indices, const DLTensor *present) {
    int64_t at[MOST_DIMS] = {0}, source[MOST_DIMS], count = count_elements(present);
    int dims = axis == present->ndim - 1 ? present->ndim : present->ndim - 1;
    if (count == 0)
        return;
    int64_t run = dims < present->ndim ? present->shape[dims] : 1; /* they have one slot */
    do {
        memcpy(source, at, sizeof source);
        source[axis] = row_for_slot(at[axis], start_of(write_indices, at[0]), update->shape[axis],
                                    past->shape[axis], circular);
        if (source[axis] >= 0)
            copy_elements(present, at, update, source, run);
        else
            copy_elements(present, at, past, at, run);
    } while (advance(present, dims, at));
    bool in_place = address_of_first(past) == address_of_first(present);
    if (present->dtype.bits == 4 && count % 2 == 1 && !in_place)
        oracle_put_nibble(address_of_first(present), count, 0);
}
