/* What is generated for TensorScatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "generators.h"
#include "rows_family.h"
#include "spec_constants.h"

static bool tensor_scatter_spec_kernels(const struct spec *spec, const struct isa *isa,
                                        struct kernel_list *list, struct error *error) {
    struct kvmill_row_geometry geometry;
    kvmill_error reason;
    kvmill_tensor_scatter op = scatter_op_of(spec);
    if (op.past_cache->shape == NULL || op.update->shape == NULL)
        return fail(error, EXIT_USER,
                    "%s: no %s; accepted here: both past_cache and update, with \"?\" for a dim "
                    "that only the run knows",
                    spec->where, spec->scatter.past_cache.shape ? "update" : "past_cache");
    if (kvmill_tensor_scatter_check(&op, &geometry, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    struct kvmill_rows_shape shape = kvmill_rows_shape_of(&geometry, spec->scatter.dtype);
    const struct constants constants = rows_constants(spec, &geometry, &shape);
    return rows_kernels(&shape, &constants, isa, list, error);
}

const struct generator tensor_scatter_generator = {
    .kernels = tensor_scatter_spec_kernels,
    .without_kernels = "no data, or rows of 4-bit elements whose number only the run knows",
};
