/* What is generated for CacheAttend.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "../ops/cache_attend.h"
#include "../ops/cache_attention.h"
#include "attend_family.h"
#include "generators.h"
#include "plan_header.h"
#include "spec_constants.h"

/* Adds kernels with and without a mask: ranges and positions of rows may need a mask. */
static bool cache_attend_spec_kernels(const struct spec *spec, const struct isa *isa,
                                      struct kernel_list *list, struct error *error) {
    struct kvmill_cache_geometry geometry;
    bool done = cache_attend_geometry(spec, &geometry, error);
    for (int masked = 0; done && masked < 2; masked++) {
        const struct kvmill_attend_shape shape =
            kvmill_cache_attend_shape(&spec->cache_attend, &geometry, masked);
        const struct constants constants = head_constants(spec, geometry.ratio);
        done = attend_kernels(&shape, geometry.ratio, &constants, isa, list, error);
    }
    return done;
}

/* ---- The function of a pack's header ---- */

static bool define_comment(const struct spec *spec, struct text *text) {
    const kvmill_cache_attend *op = &spec->cache_attend;
    int64_t kv_heads = op->num_kv_heads ? op->num_kv_heads : op->num_heads;
    return text_print(text, "Attention over any cache: ") &&
           attention_define_heads(op->num_heads, kv_heads, op->key_head_dim,
                                  kvmill_window_of(op->left_window_size), text) &&
           text_print(text, ", K %s and V %s", kvmill_dtype_name(op->key_T2),
                      kvmill_dtype_name(op->value_T2));
}

/* Adds km_plan_function(NAME, STRUCT, OP, COMMENT, 0, MEMBERS). */
static bool define_plan(const struct spec *spec, struct text *text) {
    return spec->name[0] == '\0' ||
           (text_print(text, "km_plan_function(«%s», «cache_attend», «cache_attend», «",
                       spec->name) &&
            define_comment(spec, text) && text_print(text, "», 0, «") &&
            spec_define_members(spec, text) && text_print(text, "»)m4_dnl\n"));
}

const struct generator cache_attend_generator = {
    .kernels = cache_attend_spec_kernels,
    .without_kernels = "no family of kernels takes its types",
    .define_plan = define_plan,
};
