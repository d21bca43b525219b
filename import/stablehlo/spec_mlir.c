/* The gathers and scatters of StableHLO text, as specs.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../../base/text.h"
#include "../../ops/scalar.h"
#include "../spec_file.h"
#include "open_extents.h"
#include "stablehlo_import.h"

/* Names of ops that are left alone, in the order of the text. */
struct tally {
    struct {
        const char *name;
        int64_t count;
    } items[200];
    size_t count;
    int64_t others; /* for which there was no room */
};

struct survey {
    const struct mlir_file *file;
    const struct mlir_function *function;
    struct spec_list *list;
    struct tally tally;
    struct error first; /* why an op of kvmill was left alone */
    struct error *error;
};

/* ---- Ops that are left alone ---- */

static void count_op(struct tally *tally, const char *name) {
    size_t i = 0;
    while (i < tally->count && strcmp(tally->items[i].name, name) != 0)
        i++;
    if (i == sizeof tally->items / sizeof *tally->items) {
        tally->others++;
        return;
    }
    tally->items[i].name = name;
    tally->items[i].count++;
    tally->count += i == tally->count;
}

static bool write_tally(const struct survey *survey) {
    const struct tally *tally = &survey->tally;
    struct text *text = &survey->list->left_alone;
    bool done = true;
    for (size_t i = 0; done && i < tally->count; i++)
        done = text_print(text, "%s: left alone: %lld %s\n", survey->file->name,
                          (long long)tally->items[i].count, tally->items[i].name);
    if (done && tally->others > 0)
        done = text_print(text, "%s: left alone: %lld ops of other names\n", survey->file->name,
                          (long long)tally->others);
    return done || out_of_memory(survey->error);
}

/* Takes the spec back that was added last, and notes why. */
static bool leave_alone(struct survey *survey, const struct mlir_op *op,
                        const struct error *reason) {
    if (survey->first.text[0] == '\0')
        survey->first = *reason;
    spec_list_drop(survey->list);
    count_op(&survey->tally, op->name);
    return text_print(&survey->list->notes, "%s; left alone\n", reason->text) ||
           out_of_memory(survey->error);
}

/* ---- Ops that become specs ---- */

static bool is_gather(const struct mlir_op *op) {
    return is_mlir_gather(op) || is_mlir_slice(op);
}

static bool is_scatter(const struct mlir_op *op) {
    return is_mlir_scatter(op) || is_mlir_update(op);
}

/* Refuses ops that violate a constraint. */
static bool verify(struct survey *survey, const struct mlir_op *op, struct spec *spec) {
    return is_scatter(op) ? scatter_verify_mlir(survey->file, survey->function, op,
                                                spec->window_scatter, survey->error)
                          : gather_verify_mlir(survey->file, survey->function, op, spec->gather,
                                               survey->error);
}

static bool is_plain(const struct mlir_type *type) {
    return type->is_tensor && !type->is_unranked && !type->is_unknown && !type->has_encoding;
}

/* Whether kvmill has all ops of a scatter's region. */
static bool has_known_region(const struct mlir_op *op) {
    const struct mlir_op *inner = op->region_count > 0 ? op->regions[0].first : NULL;
    for (; inner != NULL; inner = inner->next) {
        const char *name = mlir_short_name(inner);
        bool known = strcmp(name, "constant") == 0 || strcmp(name, "return") == 0 ||
                     kvmill_scalar_op_by_name(name) != NULL;
        if (!known || inner->is_unknown)
            return false;
    }
    return true;
}

/* Whether an op is beyond kvmill, which is no fault of the program. */
static bool is_beyond(const struct survey *survey, const struct mlir_op *op) {
    const struct mlir_value *values = survey->function->values;
    for (int i = 0; i < op->operand_count; i++)
        if (!is_plain(values[op->operands[i]].type))
            return true;
    for (int i = 0; i < op->result_count; i++)
        if (!is_plain(values[op->first_result + i].type))
            return true;
    return is_mlir_scatter(op) && !has_known_region(op);
}

/* Reads an op whose extents are known. */
static bool read_op(const struct survey *survey, const struct mlir_op *op, struct spec *spec,
                    struct error *error) {
    if (is_scatter(op))
        return scatter_of_mlir(survey->file, survey->function, op, spec->window_scatter, error);
    return gather_of_mlir(survey->file, survey->function, op, spec->gather, error) &&
           gather_require_slices(survey->file, op, spec->gather, error);
}

static bool note_extent(const struct survey *survey, const struct mlir_op *op) {
    struct error words = {0};
    mlir_fail(&words, survey->file, op->at,
              "%s: note: extents that are not known are taken as %d; the kernels serve any",
              op->name, (int)OPEN_EXTENT);
    return text_print(&survey->list->notes, "%s\n", words.text) || out_of_memory(survey->error);
}

/* Reads an op, or leaves it alone.  If some of its extents are not known, it becomes a spec if its
   kernels do not depend on them. */
static bool complete(struct survey *survey, const struct mlir_op *op, struct spec *spec) {
    struct error reason = {0};
    bool closed;
    if (read_op(survey, op, spec, &reason))
        return true;
    if (reason.exit_code == EXIT_USER && is_beyond(survey, op))
        return leave_alone(survey, op, &reason);
    if (reason.exit_code != EXIT_USER) {
        *survey->error = reason;
        return false;
    }
    if (!verify(survey, op, spec) || !spec_close_extents(spec, &closed, survey->error))
        return false;
    return closed ? note_extent(survey, op) : leave_alone(survey, op, &reason);
}

static bool add_spec(struct survey *survey, const struct mlir_op *op) {
    const struct mlir_word *name = &survey->function->name;
    struct spec *spec = spec_list_append(survey->list, survey->error);
    if (spec == NULL)
        return false;
    snprintf(spec->where, sizeof spec->where, "%.200s: @%.*s: %s", survey->file->name,
             (int)(name->length < 40 ? name->length : 40), name->text, op->name);
    if (is_mlir_update(op))
        strcpy(spec->purpose, "dynamic_update_slice with clamped starts");
    return spec_begin(spec, kvmill_op_of(is_gather(op) ? OP_GATHER : OP_SCATTER, 0),
                      survey->error) &&
           complete(survey, op, spec);
}

static bool add_specs(struct survey *survey, const struct mlir_block *block) {
    for (const struct mlir_op *op = block->first; op != NULL; op = op->next) {
        bool ours = is_gather(op) || is_scatter(op);
        if (ours && !add_spec(survey, op))
            return false;
        if (!ours)
            count_op(&survey->tally, op->name);
        for (int i = 0; !ours && i < op->region_count; i++)
            if (!add_specs(survey, &op->regions[i]))
                return false;
    }
    return true;
}

/* ---- Files ---- */

bool is_mlir_name(const char *name) {
    return name_has_ending(name, ".mlir") || name_has_ending(name, ".mlirbc");
}

static bool check_any(struct survey *survey) {
    if (survey->list->count == 0 && survey->first.text[0] != '\0') {
        *survey->error = survey->first;
        return false;
    }
    return survey->list->count > 0 ||
           fail(survey->error, EXIT_USER,
                "%s: no op of kvmill in it; accepted: stablehlo.gather, stablehlo.dynamic_gather, "
                "stablehlo.scatter, stablehlo.dynamic_slice, stablehlo.dynamic_update_slice",
                survey->file->name);
}

static bool survey_file(struct survey *survey) {
    bool done = true;
    for (const struct mlir_chunk *c = survey->file->chunks; done && c != NULL; c = c->next)
        for (const struct mlir_function *f = c->functions; done && f != NULL; f = f->next) {
            survey->function = f;
            done = add_specs(survey, &f->body);
        }
    return done && check_any(survey) && write_tally(survey);
}

bool specs_of_mlir(const char *name, struct spec_list *list, struct error *error) {
    struct mlir_file file;
    struct survey survey = {.file = &file, .list = list, .error = error};
    bool done = mlir_read(name, &file, error) && survey_file(&survey);
    mlir_free(&file);
    return done;
}
