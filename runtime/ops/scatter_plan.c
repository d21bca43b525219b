/* Planning stablehlo.scatter.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../defs/op_tables.h"
#include "../../ops/extent.h"
#include "../../ops/fail.h"
#include "../core/calibration.h"
#include "../core/select.h"
#include "scatter_plan.h"

enum {
    COPY_PART_BYTES = 256 << 10,
    APPLY_PART_UPDATES = 16 << 10, /* with fewer, it does not pay to walk all indices again */
    MOST_APPLY_PARTS = 16,
    MANY_WINDOWS = 256,
    LEAST_PIECE_BYTES = 2048
};

static void destroy_scatter(kvmill_plan *plan) {
    free(plan);
}

static const struct plan_op scatter_op = {
    .begin = kvmill_scatter_begin,
    .parts = kvmill_scatter_parts,
    .part = kvmill_scatter_part,
    .all = kvmill_scatter_all,
    .next = kvmill_scatter_next,
    .destroy = destroy_scatter,
};

/* ---- Tensors ---- */

static struct tensor_rule *expect(struct scatter_plan *plan, int at, const DLTensor *tensor,
                                  DLDataType type) {
    for (int d = 0; d < tensor->ndim; d++)
        plan->dims[at][d] = tensor->shape[d];
    plan->rules[at] = (struct tensor_rule){
        .name = plan->names[at],
        .presence = REQUIRED,
        .type = type,
        .rank = tensor->ndim,
        .dims = plan->dims[at],
        .stablehlo = true,
    };
    return &plan->rules[at];
}

static void set_name(struct scatter_plan *plan, int at, const char *name, int number) {
    snprintf(plan->names[at], sizeof *plan->names, plan->count > 1 ? "%s[%d]" : "%s", name, number);
}

static DLDataType result_type(const struct scatter_plan *plan, int i) {
    return plan->program.type[plan->program.result[i]].dtype;
}

static void expect_input(struct scatter_plan *plan, const kvmill_scatter *op, int i) {
    int update = scatter_update_at(plan, i), at = scatter_result_at(plan, i);
    set_name(plan, i, "inputs", i);
    set_name(plan, update, "updates", i);
    set_name(plan, at, "results", i);
    expect(plan, i, op->inputs[i], op->inputs[i]->dtype);
    expect(plan, update, op->updates[i], op->updates[i]->dtype);
    struct tensor_rule *result = expect(plan, at, op->inputs[i], result_type(plan, i));
    result->output = true;
    result->in_place = !plan->converts;
    result->replaces = i;
}

static void expect_capture(struct scatter_plan *plan, int i) {
    int at = scatter_capture_at(plan, i);
    snprintf(plan->names[at], sizeof *plan->names, "captures[%d]", i);
    expect(plan, at, &(DLTensor){.ndim = 0}, kvmill_program_capture(&plan->program, i).dtype);
}

static void set_rules(struct scatter_plan *plan, const kvmill_scatter *op) {
    int indices = scatter_indices_at(plan);
    snprintf(plan->names[indices], sizeof *plan->names, "scatter_indices");
    expect(plan, indices, op->scatter_indices, op->scatter_indices->dtype);
    for (int i = 0; i < plan->count; i++)
        expect_input(plan, op, i);
    for (int i = 0; i < plan->captures; i++)
        expect_capture(plan, i);
}

static bool is_kept(const struct scatter_plan *plan, int slot) {
    return kvmill_element_equal(&plan->input[slot],
                                &plan->program.type[plan->program.result[slot]]);
}

static void set_types(struct scatter_plan *plan, const kvmill_scatter *op) {
    for (int i = 0; i < plan->count; i++) {
        plan->input[i] = kvmill_scatter_input_element(op, (size_t)i);
        plan->converts |= !is_kept(plan, i);
    }
    plan->replaces = !plan->converts && kvmill_program_replaces(&plan->program);
}

/* ---- Parts ---- */

/* The axes of updates up to the last one of the index space; their order is the order of updates.
 */
static void set_outer(struct scatter_plan *plan, const DLTensor *updates) {
    const struct kvmill_windows *windows = &plan->windows;
    plan->outer = kvmill_windows_outer(windows);
    plan->has_updates = true;
    for (int r = 0; r < updates->ndim; r++)
        plan->has_updates &= updates->shape[r] > 0;
}

static bool is_inner(const struct scatter_plan *plan, int d) {
    return plan->windows.axis[d] >= plan->outer;
}

/* Elements of a row that are worth a part. */
static int64_t least_piece(const struct scatter_plan *plan) {
    return LEAST_PIECE_BYTES / kvmill_element_bytes(plan->input[0].dtype);
}

/* Updates of a window: the more there are, the less it costs that every part examines all indices.
 */
static int64_t window_elements(const struct kvmill_windows *windows) {
    return kvmill_count_of(windows->window, windows->rank);
}

/* Whether there are many windows, each of which costs much more than examining its index. */
static bool are_many_and_long(const struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    return kvmill_count_of(windows->space, windows->space_rank) >= MANY_WINDOWS &&
           window_elements(windows) >= 8 * MOST_APPLY_PARTS;
}

/* Best are axes where a part finds its updates without examining indices; then axes along which
   each window belongs to one part as a whole; then axes that cut long rows of windows; last, axes
   where parts would cost more than they gain. */
static int split_rank(const struct scatter_plan *plan, int d) {
    const struct kvmill_windows *windows = &plan->windows;
    if (windows->batch[d] != KVMILL_NOT_THERE)
        return 4;
    if (windows->component[d] != KVMILL_NOT_THERE)
        return are_many_and_long(plan) ? 2 : 0;
    if (!is_inner(plan, d))
        return 3;
    return windows->window[d] >= 2 * least_piece(plan);
}

static bool splits_better(const struct scatter_plan *plan, int d, int best) {
    int a = split_rank(plan, d), b = split_rank(plan, best);
    return a > b || (a == b && plan->windows.dim[d] > plan->windows.dim[best]);
}

/* The axis of updates along which a part's own targets are, if it is one of the outer axes. */
static int own_axis(const struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    int d = plan->split, axis = KVMILL_NOT_THERE;
    if (d == KVMILL_NOT_THERE)
        return axis;
    if (windows->batch[d] != KVMILL_NOT_THERE)
        axis = windows->space_axis[windows->batch[d]];
    else if (windows->component[d] == KVMILL_NOT_THERE)
        axis = windows->axis[d];
    return axis < plan->outer ? axis : KVMILL_NOT_THERE;
}

static void choose_split(struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    plan->split = KVMILL_NOT_THERE;
    for (int d = 0; d < windows->rank; d++)
        if (windows->dim[d] > 1 &&
            (plan->split == KVMILL_NOT_THERE || splits_better(plan, d, plan->split)))
            plan->split = d;
    plan->own_axis = own_axis(plan);
}

static int64_t most_parts(const struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    int d = plan->split;
    int64_t most = kvmill_min(windows->dim[d], MOST_APPLY_PARTS);
    if (plan->own_axis == KVMILL_NOT_THERE)
        most = kvmill_min(most, window_elements(windows) / 8);
    if (windows->component[d] == KVMILL_NOT_THERE && is_inner(plan, d))
        most = kvmill_min(most, windows->window[d] / least_piece(plan));
    return most > 1 ? most : 1;
}

/* The longest axis of the index space; the other axes are walked within parts. */
static int longest_points(const struct scatter_plan *plan) {
    const struct kvmill_windows *windows = &plan->windows;
    int longest = 0;
    for (int j = 1; j < windows->space_rank; j++)
        if (windows->space[j] > windows->space[longest])
            longest = j;
    return longest;
}

/* If no two updates have the same target, any part may apply any update.  This makes more parts if
   each part would otherwise have to examine all indices. */
static void split_updates(struct scatter_plan *plan, int64_t worth) {
    const struct kvmill_windows *windows = &plan->windows;
    if (windows->space_rank == 0 || plan->own_axis != KVMILL_NOT_THERE)
        return;
    int longest = longest_points(plan);
    int64_t parts = kvmill_min(kvmill_min(worth, windows->space[longest]), MOST_APPLY_PARTS);
    if (parts <= plan->apply_parts)
        return;
    plan->split = KVMILL_NOT_THERE;
    plan->own_axis = windows->space_axis[longest];
    plan->extent = windows->space[longest];
    plan->apply_parts = parts;
}

static void set_split(struct scatter_plan *plan, int64_t updates, bool unique) {
    int64_t worth = updates / APPLY_PART_UPDATES;
    choose_split(plan);
    plan->extent = plan->split == KVMILL_NOT_THERE ? 1 : plan->windows.dim[plan->split];
    plan->apply_parts = plan->has_updates;
    if (worth < 2 || !plan->has_updates)
        return;
    if (plan->split != KVMILL_NOT_THERE)
        plan->apply_parts = kvmill_min(worth, most_parts(plan));
    if (unique)
        split_updates(plan, worth);
}

static int64_t elements_of(const struct scatter_plan *plan, int which) {
    return kvmill_count_of(plan->rules[which].dims, plan->rules[which].rank);
}

static void set_parts(struct scatter_plan *plan, bool unique) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->count; i++)
        bytes += kvmill_element_bytes(plan->input[i].dtype);
    plan->elements = elements_of(plan, 0);
    int64_t worth = plan->elements / (COPY_PART_BYTES / bytes) + 1;
    plan->copy_streams = kvmill_calibration()->copy_streams;
    plan->around = kvmill_calibration()->around;
    plan->copy_parts = worth < plan->elements ? worth : plan->elements;
    set_split(plan, elements_of(plan, scatter_update_at(plan, 0)), unique);
    if (plan->elements == 0)
        plan->apply_parts = 0;
}

/* ---- Kernels ---- */

/* The kernel of every run for an input; reason: why it is the portable one, or NULL. */
static struct selection select_kernel(struct scatter_plan *plan, const struct kernel_search *search,
                                      const char *reason, const struct wanted *wanted) {
    struct kernel_search own = *search;
    if (own.portable_reason == NULL)
        own.portable_reason = reason;
    struct selection selection = kvmill_select_kernel(&own, wanted);
    kvmill_need(&plan->base.needs, &own, EVERY_RUN, "apply updates", selection.by_size.kernel);
    return selection;
}

/* Select a kernel for every input, or the portable one for all.  false if a region is more than one
   combiner per input. */
static bool select_combiners(struct scatter_plan *plan, const kvmill_scatter *op,
                             const struct kernel_search *search, struct selection *selection) {
    struct kvmill_scatter_shape shape;
    const struct wanted wanted = {KVMILL_SCATTER, &shape, &kvmill_portable_scatter};
    for (int i = 0; i < plan->count; i++)
        if (kvmill_scatter_shape_of(op, &plan->windows, &plan->program, i, &shape) != NULL)
            return false;
    for (int i = 0; i < plan->count; i++) {
        kvmill_scatter_shape_of(op, &plan->windows, &plan->program, i, &shape);
        *selection = select_kernel(plan, search, NULL, &wanted);
        plan->kernel[i] = selection->by_size.kernel;
        if (plan->kernel[i] == &kvmill_portable_scatter) {
            plan->kernel[0] = plan->kernel[i];
            break;
        }
    }
    return true;
}

/* A kernel for all inputs. */
static void select_region(struct scatter_plan *plan, const kvmill_scatter *op,
                          const struct kernel_search *search, struct selection *selection,
                          struct kvmill_region_text *text) {
    struct kvmill_scatter_region_shape shape;
    const char *reason = kvmill_scatter_region_of(op, &plan->windows, &plan->program, text, &shape);
    *selection = select_kernel(
        plan, search, reason,
        &(struct wanted){KVMILL_SCATTER_REGION, &shape, &kvmill_portable_scatter_region});
    plan->kernel[0] = selection->by_size.kernel == &kvmill_portable_scatter_region
                          ? &kvmill_portable_scatter
                          : selection->by_size.kernel;
}

static const struct kvmill_kernel *select_keep(const struct kernel_search *search) {
    static const struct kvmill_rows_shape bytes = {.unit_bits = 8};
    const struct wanted wanted = {KVMILL_KEEP_ROWS, &bytes, NULL};
    return kvmill_select_kernel(search, &wanted).by_size.kernel;
}

static const struct kvmill_kernel *select_conversion(const struct scatter_plan *plan,
                                                     const kvmill_scatter *op,
                                                     const struct kernel_search *search, int slot) {
    struct kvmill_region_text text;
    struct kvmill_scatter_region_shape shape;
    const struct wanted wanted = {KVMILL_SCATTER_REGION, &shape, NULL};
    return kvmill_scatter_conversion_of(op, &plan->program, slot, &text, &shape)
               ? kvmill_select_kernel(search, &wanted).by_size.kernel
               : NULL;
}

static void select_copies(struct scatter_plan *plan, const kvmill_scatter *op,
                          const struct kernel_search *search) {
    for (int i = 0; i < plan->count; i++) {
        plan->copy[i] =
            is_kept(plan, i) ? select_keep(search) : select_conversion(plan, op, search, i);
        kvmill_need(&plan->base.needs, search, plan->converts ? EVERY_RUN : SOME_RUNS,
                    "copy inputs", plan->copy[i]);
    }
}

static void describe(struct scatter_plan *plan, const kvmill_scatter *op, const char *origin) {
    struct kvmill_shape_text inputs, indices, updates;
    struct kvmill_element_text type;
    bool portable = plan->kernel[0] == &kvmill_portable_scatter;
    snprintf(
        plan->base.description, sizeof plan->base.description,
        "stablehlo.scatter, %s, %zu inputs %s of %s, scatter_indices %s of %s, updates %s, %s: "
        "apply with %s (%s%s), copy with %s, up to %" PRId64 " parts",
        plan->replaces           ? "replace"
        : op->update_computation ? op->update_computation
                                 : "a region",
        op->count, kvmill_shape_words(op->inputs[0], &inputs),
        kvmill_element_words(&plan->input[0], &type),
        kvmill_shape_words(op->scatter_indices, &indices),
        kvmill_element_word(op->scatter_indices->dtype),
        kvmill_shape_words(op->updates[0], &updates),
        plan->skip_window ? "skip_window" : "skip_element",
        portable ? "the portable kernel" : plan->kernel[0]->symbol, portable ? "" : "pack ", origin,
        plan->copy[0] ? plan->copy[0]->symbol : "portable loops", plan->apply_parts);
}

/* ---- The plan ---- */

static kvmill_status fill(struct scatter_plan *plan, const kvmill_scatter *op,
                          const kvmill_plan_options *options, kvmill_error *error) {
    struct kernel_search search;
    struct selection selection = {.origin = NULL};
    struct kvmill_region_text text; /* the selection may refer to it */
    kvmill_status status = kvmill_scatter_check(op, &plan->windows, &plan->program, error);
    if (status == KVMILL_OK)
        status = kvmill_open_search(options, &search, error);
    if (status != KVMILL_OK)
        return status;
    plan->base.op = &scatter_op;
    plan->count = (int)op->count;
    plan->captures = plan->program.captures;
    plan->base.tensor_count = (size_t)(3 * plan->count + 1 + plan->captures);
    plan->skip_window =
        op->window_out_of_bounds != NULL && strcmp(op->window_out_of_bounds, "skip_window") == 0;
    set_types(plan, op);
    set_rules(plan, op);
    set_outer(plan, op->updates[0]);
    set_parts(plan, op->unique_indices != 0);
    select_copies(plan, op, &search);
    if (!select_combiners(plan, op, &search, &selection))
        select_region(plan, op, &search, &selection, &text);
    describe(plan, op, selection.origin);
    return KVMILL_OK;
}

kvmill_status kvmill_plan_scatter(const kvmill_scatter *given, const kvmill_plan_options *options,
                                  kvmill_plan **plan, kvmill_error *error) {
    kvmill_scatter op;
    struct plan_call call = {
        .part = kvmill_scatter_op.parts[0], .given = given, .op = &op, .plan = plan};
    kvmill_status status = kvmill_plan_read_arguments(&call, "op", options, error);
    if (status != KVMILL_OK)
        return status;
    struct scatter_plan *made = calloc(1, sizeof *made);
    if (made == NULL)
        return kvmill_fail(error, KVMILL_E_MEMORY, "out of memory for a plan");
    status = fill(made, &op, &call.options, error);
    if (status != KVMILL_OK) {
        free(made);
        return status;
    }
    return kvmill_plan_finish(&made->base, plan, error);
}
