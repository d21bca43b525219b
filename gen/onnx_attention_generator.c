/* What is generated for ONNX's Attention.

   SPDX-License-Identifier: Apache-2.0 */
#include "attend_family.h"
#include "generators.h"
#include "rows_family.h"
#include "spec_constants.h"

static bool store_kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                          struct error *error) {
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    for (int v = 0; v < 2; v++) {
        struct kvmill_row_geometry geometry;
        kvmill_error reason;
        kvmill_tensor_scatter scatter = kvmill_attention_scatter(&step, v);
        if (kvmill_tensor_scatter_check(&scatter, &geometry, &reason) != KVMILL_OK)
            return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
        struct kvmill_rows_shape shape = kvmill_rows_shape_of(&geometry, scatter.past_cache->dtype);
        const struct constants constants = rows_constants(spec, &geometry, &shape);
        if (!rows_kernels(&shape, &constants, isa, list, error))
            return false;
    }
    return true;
}

/* Whether TensorScatter's kernels store the rows.  None of them leaves padding out of rings. */
static bool stores(const kvmill_attention *op, const struct kvmill_attention_geometry *geometry) {
    return geometry->step && !(geometry->circular && op->nonpad_kv_seqlen != NULL);
}

static bool onnx_attention_spec_kernels(const struct spec *spec, const struct isa *isa,
                                        struct kernel_list *list, struct error *error) {
    struct kvmill_attention_geometry geometry;
    kvmill_attention op = onnx_attention_op_of(spec);
    if (!onnx_attention_is_complete(spec))
        return fail(error, EXIT_USER,
                    "%s: a shape is missing; accepted here: Q, K and V%s, with \"?\" for a dim "
                    "that only the run knows",
                    spec->where, is_onnx_attention_step(spec) ? ", past_key and past_value" : "");
    if (!onnx_attention_geometry(spec, &geometry, error) ||
        (stores(&op, &geometry) && !store_kernels(spec, isa, list, error)))
        return false;
    if (geometry.is_wide)
        return true;
    struct kvmill_cache_geometry scores = kvmill_attention_cache_geometry(&op, &geometry);
    struct kvmill_attend_shape shape = kvmill_attend_shape_of(&scores, op.attn_mask != NULL);
    const struct constants constants = onnx_constants(spec, &geometry, &shape);
    return attend_kernels(&shape, geometry.ratio, &constants, isa, list, error);
}

const struct generator onnx_attention_generator = {
    .kernels = onnx_attention_spec_kernels,
    .without_kernels = "float64, which a portable function computes",
};
