/* What is generated for StableHLO's gather and scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/gather.h"
#include "../ops/gather_fold.h"
#include "../ops/scatter_shape.h"
#include "../spec/stablehlo.h"
#include "ffi.h"
#include "gather_family.h"
#include "generators.h"
#include "rows_family.h"
#include "scatter_family.h"
#include "scatter_region_family.h"

/* Kernels for row-major tensors. */
static bool gather_spec_kernels(const struct spec *spec, const struct isa *isa,
                                struct kernel_list *list, struct error *error) {
    struct gather_view view;
    struct kvmill_windows windows;
    struct kvmill_gather_facts facts;
    struct kvmill_gather_steps steps;
    struct kvmill_gather_geometry geometry;
    kvmill_error reason;
    gather_view_make(spec->gather, &view);
    if (kvmill_gather_check(&view.op, &windows, &reason) != KVMILL_OK)
        return fail(error, EXIT_BUG, "%s: %s", spec->where, reason.message);
    kvmill_gather_facts_set(&view.op, &windows, &facts);
    kvmill_gather_dense_steps(&facts, &steps);
    kvmill_gather_fold(&facts, &steps, &geometry);
    return kvmill_gather_units(&geometry) == 0 || gather_kernels(&geometry.shape, isa, list, error);
}

/* The results of checking a scatter's spec. */
struct checked_scatter {
    struct scatter_view view;
    struct kvmill_windows windows;
    struct kvmill_program program;
};

static kvmill_status check_again(const struct spec *spec, struct checked_scatter *checked,
                                 kvmill_error *reason) {
    scatter_view_make(spec->window_scatter, &checked->view);
    return kvmill_scatter_check(&checked->view.op, &checked->windows, &checked->program, reason);
}

/* Whether each input's region is just a combiner. */
static bool have_combiners(const struct checked_scatter *checked) {
    struct kvmill_scatter_shape shape;
    for (int i = 0; i < (int)checked->view.op.count; i++)
        if (kvmill_scatter_shape_of(&checked->view.op, &checked->windows, &checked->program, i,
                                    &shape) != NULL)
            return false;
    return true;
}

static bool add_combiners(const struct checked_scatter *checked, const struct isa *isa,
                          struct kernel_list *list, struct error *error) {
    struct kvmill_scatter_shape shape;
    for (int i = 0; i < (int)checked->view.op.count; i++) {
        kvmill_scatter_shape_of(&checked->view.op, &checked->windows, &checked->program, i, &shape);
        if (!scatter_kernels(&shape, isa, list, error))
            return false;
    }
    return true;
}

/* Adds a kernel that combines, and a kernel that first converts each promoted input. */
static bool add_region(const struct checked_scatter *checked, const struct isa *isa,
                       struct kernel_list *list, struct error *error) {
    struct kvmill_region_text text;
    struct kvmill_scatter_region_shape shape;
    if (kvmill_scatter_region_of(&checked->view.op, &checked->windows, &checked->program, &text,
                                 &shape) != NULL)
        return true;
    bool done = scatter_region_kernels(&shape, isa, list, error);
    for (int i = 0; done && i < (int)checked->view.op.count; i++)
        done =
            !kvmill_scatter_conversion_of(&checked->view.op, &checked->program, i, &text, &shape) ||
            scatter_region_kernels(&shape, isa, list, error);
    return done;
}

static void why_no_scatter_kernels(const struct spec *spec, char *words, size_t size) {
    struct checked_scatter checked;
    struct kvmill_region_text text;
    struct kvmill_scatter_region_shape shape;
    check_again(spec, &checked, NULL);
    const char *why = kvmill_scatter_region_of(&checked.view.op, &checked.windows, &checked.program,
                                               &text, &shape);
    if (why != NULL)
        snprintf(words, size, "%s", why);
}

static bool scatter_spec_kernels(const struct spec *spec, const struct isa *isa,
                                 struct kernel_list *list, struct error *error) {
    static const struct kvmill_rows_shape bytes = {
        .unit_bits = 8, .heads = KVMILL_ANY, .capacity = KVMILL_ANY, .row = 1};
    static const struct constants none = {.count = 0};
    struct checked_scatter checked;
    kvmill_error reason;
    if (check_again(spec, &checked, &reason) != KVMILL_OK)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
    size_t before = list->count;
    bool done = have_combiners(&checked) ? add_combiners(&checked, isa, list, error)
                                         : add_region(&checked, isa, list, error);
    return done && (list->count == before || rows_kernels(&bytes, &none, isa, list, error));
}

const struct generator gather_generator = {
    .kernels = gather_spec_kernels,
    .handler = &gather_handler,
    .without_kernels = "its result is empty",
};

const struct generator window_scatter_generator = {
    .kernels = scatter_spec_kernels,
    .handler = &scatter_handler,
    .without_kernels = "no kernel computes with its types, or has as many index components",
    .why_none = why_no_scatter_kernels,
};
