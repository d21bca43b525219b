/* TensorScatter in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "../ops/tensor_scatter.h"
#include "spec_keys.h"

static void set_types(struct scatter_spec *scatter) {
    scatter->past_cache.dtype = scatter->update.dtype = scatter->dtype;
    scatter->write_indices.dtype = kvmill_int64;
}

void scatter_spec_begin(struct spec *spec, const char *mode, DLDataType dtype) {
    struct error never;
    spec_begin_with(spec, &tensor_scatter_specs, kvmill_op_of(OP_TENSOR_SCATTER, 0), &never);
    spec->scatter.op.mode = mode;
    spec->scatter.dtype = dtype;
    set_types(&spec->scatter);
}

kvmill_tensor_scatter scatter_op_of(const struct spec *spec) {
    const struct scatter_spec *scatter = &spec->scatter;
    kvmill_tensor_scatter op = scatter->op;
    op.past_cache = &scatter->past_cache;
    op.update = &scatter->update;
    op.write_indices = scatter->write_indices.shape ? &scatter->write_indices : NULL;
    return op;
}

static bool is_complete(const struct spec *spec) {
    return spec->scatter.past_cache.shape != NULL && spec->scatter.update.shape != NULL;
}

static bool check_tensor_scatter(const struct spec *spec, struct error *error) {
    struct kvmill_row_geometry geometry;
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    if (!is_complete(spec))
        return true;
    if (kvmill_tensor_scatter_check(&op, &geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    return true;
}

/* ---- Contents of the spec ---- */

static void *tensor_scatter_part(struct spec *spec, int number) {
    return number == 0 ? (void *)&spec->scatter.op : &spec->scatter.dtype;
}

static DLTensor *tensor(struct spec *spec, int index) {
    DLTensor *const tensors[KVMILL_TENSOR_SCATTER_TENSORS] = {
        [KVMILL_TENSOR_SCATTER_PAST_CACHE] = &spec->scatter.past_cache,
        [KVMILL_TENSOR_SCATTER_UPDATE] = &spec->scatter.update,
        [KVMILL_TENSOR_SCATTER_WRITE_INDICES] = &spec->scatter.write_indices,
    };
    return tensors[index];
}

static bool complete_tensor_scatter(const struct json_place *place, struct spec *spec,
                                    struct error *error) {
    (void)place;
    set_types(&spec->scatter);
    return check_tensor_scatter(spec, error);
}

static void free_shapes(struct spec *spec) {
    free(spec->scatter.past_cache.shape);
    free(spec->scatter.update.shape);
    free(spec->scatter.write_indices.shape);
}

const struct spec_family tensor_scatter_specs = {
    .part = tensor_scatter_part,
    .tensor = tensor,
    .complete = complete_tensor_scatter,
    .free = free_shapes,
    .check = check_tensor_scatter,
    .specialises = true,
};
