/* The gathers and scatters of StableHLO text, as specs.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../../base/text.h"
#include "../../gen/spec.h"
#include "../../gen/stablehlo.h"

/* Refuses ops with names like gather or scatter that kvmill does not support. */
static bool check_scope(const struct mlir_file *file, const struct mlir_op *op,
                        struct error *error) {
    static const char *const others[] = {"stablehlo.select_and_scatter", "stablehlo.reduce_scatter",
                                         "stablehlo.all_gather"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], op->name) == 0)
            return mlir_fail(error, file, op->at,
                             "%s: not an op that kvmill has; accepted: stablehlo.gather, "
                             "stablehlo.dynamic_gather, stablehlo.scatter",
                             op->name);
    return true;
}

static bool add_spec(const struct mlir_file *file, const struct mlir_function *function,
                     const struct mlir_op *op, struct spec_list *list, struct error *error) {
    struct spec *spec = spec_list_append(list, error);
    if (spec == NULL)
        return false;
    snprintf(spec->where, sizeof spec->where, "%.200s: @%.*s: %s", file->name,
             (int)(function->name.length < 40 ? function->name.length : 40), function->name.text,
             op->name);
    enum op_family family = is_mlir_gather(op) ? OP_GATHER : OP_SCATTER;
    if (!spec_begin(spec, kvmill_op_of(family, 0), error))
        return false;
    if (family == OP_SCATTER)
        return scatter_of_mlir(file, function, op, spec->window_scatter, error);
    return gather_of_mlir(file, function, op, spec->gather, error) &&
           gather_require_slices(file, op, spec->gather, error);
}

static bool add_specs(const struct mlir_file *file, const struct mlir_function *function,
                      const struct mlir_block *block, struct spec_list *list, struct error *error) {
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next) {
        bool ours = is_mlir_gather(op) || is_mlir_scatter(op);
        if (!check_scope(file, op, error) || (ours && !add_spec(file, function, op, list, error)))
            return false;
        for (int i = 0; !ours && i < op->region_count; i++)
            if (!add_specs(file, function, &op->regions[i], list, error))
                return false;
    }
    return true;
}

bool is_mlir_name(const char *name) {
    return name_has_ending(name, ".mlir") || name_has_ending(name, ".mlirbc");
}

bool specs_of_mlir(const char *name, struct spec_list *list, struct error *error) {
    struct mlir_file file;
    bool done = mlir_read(name, &file, error);
    for (const struct mlir_chunk *c = file.chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next)
            done = add_specs(&file, f, &f->body, list, error);
    mlir_free(&file);
    return done &&
           (list->count > 0 || fail(error, EXIT_USER,
                                    "%s: no op of kvmill in it; accepted: stablehlo.gather, "
                                    "stablehlo.dynamic_gather, stablehlo.scatter",
                                    name));
}
