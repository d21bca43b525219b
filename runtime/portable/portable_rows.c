/* STORE_ROWS and KEEP_ROWS for every type, rank and stride.  They run if no pack has a kernel that
   fits.

   SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "../../defs/dtype.h"
#include "../../ops/extent.h"
#include "../core/tensor.h"

static int64_t row_offset(const DLTensor *tensor, int axis, int64_t slab, int64_t slot) {
    bool overflow = false; /* never set: the tensor is reachable */
    return kvmill_plus(kvmill_tensor_offset(tensor, 0, axis, slab),
                       kvmill_times(slot, kvmill_tensor_stride(tensor, axis), &overflow),
                       &overflow);
}

static unsigned nibble_at(const unsigned char *data, int64_t element) {
    return data[element / 2] >> (element % 2 * 4) & 0xf;
}

static void set_nibble(unsigned char *data, int64_t element, unsigned value) {
    int shift = (int)(element % 2 * 4);
    unsigned other = data[element / 2] & (0xf0u >> shift);
    data[element / 2] = (unsigned char)(other | value << shift);
}

static void copy_element(const DLTensor *to, int64_t at, const DLTensor *from, int64_t source) {
    int bits = kvmill_dtype_bits(to->dtype);
    int64_t bytes = bits / 8;
    if (bits == 4)
        set_nibble(tensor_data(to), at, nibble_at(tensor_data(from), source));
    else
        memcpy(tensor_data(to) + at * bytes, tensor_data(from) + source * bytes, (size_t)bytes);
}

static bool is_byte_run(const DLTensor *tensor, int axis, int64_t row) {
    return kvmill_tensor_is_dense_from(tensor, axis + 1) &&
           (kvmill_dtype_bits(tensor->dtype) != 4 || row % 2 == 0);
}

/* The elements of a row along its last dim; a row without dims has one element. */
static int64_t last_dim(const DLTensor *tensor, int axis) {
    return axis == tensor->ndim - 1 ? 1 : tensor->shape[tensor->ndim - 1];
}

static void copy_line(const DLTensor *to, int64_t at, const DLTensor *from, int64_t begin,
                      int axis) {
    int64_t step = kvmill_tensor_stride(to, to->ndim - 1);
    int64_t source_step = kvmill_tensor_stride(from, to->ndim - 1);
    for (int64_t i = 0; i < last_dim(to, axis); i++)
        copy_element(to, at + i * step, from, begin + i * source_step);
}

/* Copy row `source` of `from` to row `slot` of `to`, both of slab number `slab`. */
static void copy_row(const struct rows_problem *problem, int64_t slab, int64_t slot,
                     const DLTensor *from, int64_t source) {
    const DLTensor *to = problem->present;
    int axis = problem->axis;
    int64_t row = kvmill_count_of(to->shape + axis + 1, to->ndim - axis - 1);
    int64_t at = row_offset(to, axis, slab, slot), begin = row_offset(from, axis, slab, source);
    if (is_byte_run(to, axis, row) && is_byte_run(from, axis, row)) {
        memcpy(tensor_data(to) + kvmill_dtype_bytes(to->dtype, at),
               tensor_data(from) + kvmill_dtype_bytes(to->dtype, begin),
               (size_t)kvmill_dtype_bytes(to->dtype, row));
        return;
    }
    for (int64_t e = 0; e < row; e += last_dim(to, axis))
        copy_line(to, at + kvmill_tensor_offset(to, axis + 1, to->ndim, e), from,
                  begin + kvmill_tensor_offset(from, axis + 1, to->ndim, e), axis);
}

/* The slot of the first new row of a slab. */
static int64_t first_slot(const struct kvmill_rows *rows, int64_t slab) {
    int64_t batch = slab / rows->heads;
    if (rows->starts == NULL)
        return 0;
    int64_t slot = rows->starts[batch * rows->starts_stride] % rows->capacity;
    return slot < 0 ? slot + rows->capacity : slot;
}

static void store_rows(const void *argument, int64_t first, int64_t last) {
    const struct rows_problem *problem = argument;
    const struct kvmill_rows *rows = &problem->rows;
    for (int64_t unit = first; unit < last; unit++) {
        int64_t slab = unit / rows->chunks, chunk = unit % rows->chunks;
        int64_t end = rows->rows * (chunk + 1) / rows->chunks;
        for (int64_t s = rows->rows * chunk / rows->chunks; s < end; s++)
            copy_row(problem, slab, (first_slot(rows, slab) + s) % rows->capacity, problem->update,
                     s);
    }
}

static void keep_rows(const void *argument, int64_t first, int64_t last) {
    const struct rows_problem *problem = argument;
    const struct kvmill_rows *rows = &problem->rows;
    for (int64_t unit = first; unit < last; unit++) {
        int64_t slab = unit / rows->chunks, chunk = unit % rows->chunks;
        int64_t end = rows->capacity * (chunk + 1) / rows->chunks;
        for (int64_t slot = rows->capacity * chunk / rows->chunks; slot < end; slot++) {
            int64_t age = slot - first_slot(rows, slab);
            if ((age < 0 ? age + rows->capacity : age) >= rows->rows)
                copy_row(problem, slab, slot, problem->past, slot);
        }
    }
}

const struct kvmill_kernel kvmill_portable_store_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_STORE_ROWS,
    .symbol = "kvmill_store_rows__portable",
    .isa = "portable",
    .run = store_rows,
};

const struct kvmill_kernel kvmill_portable_keep_rows = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_KEEP_ROWS,
    .symbol = "kvmill_keep_rows__portable",
    .isa = "portable",
    .run = keep_rows,
};
