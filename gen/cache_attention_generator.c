/* What is generated for PMX's ops of cache attention.

   SPDX-License-Identifier: Apache-2.0 */
#include "attend_family.h"
#include "convert_family.h"
#include "generators.h"
#include "plan_header.h"
#include "spec_constants.h"

static bool has_scores(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_KEY_VALUE_CACHE;
}

static bool has_cache(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_MULTI_HEAD_ATTENTION;
}

/* ---- Kernels ---- */

static bool convert_kernels(const struct spec *spec, const struct kvmill_cache_geometry *geometry,
                            const struct isa *isa, struct kernel_list *list, struct error *error) {
    for (int value = 0; value < kvmill_stored_sides(geometry); value++) {
        const struct kvmill_convert_shape shape = kvmill_convert_shape_of(geometry, value);
        const struct constants written = convert_constants(spec, geometry, value, true);
        const struct constants read = convert_constants(spec, geometry, value, false);
        if (!write_rows_kernels(&shape, &written, isa, list, error) ||
            (geometry->which == KVMILL_KEY_VALUE_CACHE &&
             !read_rows_kernels(&shape, &read, isa, list, error)))
            return false;
    }
    return true;
}

/* With masks, adds kernels for calls without a mask, too: a bias costs time in every score. */
static bool score_kernels(const struct spec *spec, const struct kvmill_cache_geometry *geometry,
                          const struct isa *isa, struct kernel_list *list, struct error *error) {
    const struct kvmill_attend_shape plain = kvmill_attend_shape_of(geometry, false);
    const struct kvmill_attend_shape biased = kvmill_attend_shape_of(geometry, true);
    const struct constants constants = attend_constants(spec, geometry);
    return attend_kernels(&plain, geometry->ratio, &constants, isa, list, error) &&
           (!spec->attention.masked ||
            attend_kernels(&biased, geometry->ratio, &constants, isa, list, error));
}

static bool cache_attention_spec_kernels(const struct spec *spec, const struct isa *isa,
                                         struct kernel_list *list, struct error *error) {
    struct kvmill_cache_geometry geometry;
    if (!attention_spec_geometry(spec, &geometry, error) ||
        (has_cache(spec) && !convert_kernels(spec, &geometry, isa, list, error)))
        return false;
    return !has_scores(spec) || score_kernels(spec, &geometry, isa, list, error);
}

/* ---- The function of a pack's header ---- */

/* Adds km_plan_function(NAME, STRUCT, OP, COMMENT, WHETHER LAYERS ARE COUNTED, MEMBERS). */
static bool define_plan(const struct spec *spec, struct text *text) {
    static const char *const ops[] = {"key_value_cache", "multi_head_attention",
                                      "multi_head_cache_attention"};
    return spec->name[0] == '\0' ||
           (text_print(text, "km_plan_function(«%s», «cache_attention», «%s», «", spec->name,
                       ops[attention_op_of(spec)]) &&
            attention_define_comment(spec, text) && text_print(text, "», %d, «", has_cache(spec)) &&
            spec_define_members(spec, text) && text_print(text, "»)m4_dnl\n"));
}

const struct generator cache_attention_generator = {
    .kernels = cache_attention_spec_kernels,
    .without_kernels = "no family of kernels takes its types",
    .define_plan = define_plan,
};
