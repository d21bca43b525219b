/* SPDX-License-Identifier: Apache-2.0 */
#include "select.h"

#include "../../defs/format.h"
#include "../../ops/fail.h"
#include "../portable/portable.h"
#include "cpu.h"

/* ---- How well a kernel's shape fits that of a problem; negative: not at all ---- */

enum { MOST_FIT = 16 };

/* The number of fields that the kernel's shape fixes. */
static int fit_store(const void *kernel_shape, const void *wanted) {
    const struct kvmill_rows_shape *kernel = kernel_shape, *problem = wanted;
    const int64_t has[] = {kernel->heads, kernel->capacity, kernel->rows, kernel->row};
    const int64_t want[] = {problem->heads, problem->capacity, problem->rows, problem->row};
    int fixed = 0;
    if (kernel->unit_bits != problem->unit_bits || kernel->circular != problem->circular)
        return -1;
    for (size_t i = 0; i < sizeof has / sizeof *has; i++) {
        if (has[i] == KVMILL_ANY)
            continue;
        if (has[i] != want[i])
            return -1;
        fixed++;
    }
    return fixed;
}

/* What is kept depends neither on the mode nor on the shape of the update. */
static int fit_keep(const void *kernel_shape, const void *wanted) {
    const struct kvmill_rows_shape *kernel = kernel_shape, *problem = wanted;
    return kernel->unit_bits == problem->unit_bits ? 0 : -1;
}

static bool same_format(const struct kvmill_format *a, const struct kvmill_format *b) {
    return a->element == b->element && a->dim == b->dim && a->scale == b->scale &&
           a->quant_group == b->quant_group;
}

static int fit_convert(const void *kernel_shape, const void *wanted) {
    const struct kvmill_convert_shape *kernel = kernel_shape, *problem = wanted;
    return kernel->activation == problem->activation &&
                   same_format(&kernel->format, &problem->format)
               ? 0
               : -1;
}

static int count_terms(int terms) {
    return (terms & KVMILL_TERM_SOFTCAP ? 1 : 0) + (terms & KVMILL_TERM_BIAS ? 1 : 0);
}

/* Prefer kernels with few terms that the problem lacks. */
static int fit_attend(const void *kernel_shape, const void *wanted) {
    const struct kvmill_attend_shape *kernel = kernel_shape, *problem = wanted;
    if (kernel->activation != problem->activation || kernel->math > problem->math ||
        (problem->terms & ~kernel->terms) != 0 || !same_format(&kernel->key, &problem->key) ||
        !same_format(&kernel->value, &problem->value))
        return -1;
    return MOST_FIT - 1 - count_terms(kernel->terms & ~problem->terms);
}

bool kvmill_gather_shapes_equal(const struct kvmill_gather_shape *a,
                                const struct kvmill_gather_shape *b) {
    bool equal = a->index_bits == b->index_bits && a->index_signed == b->index_signed &&
                 a->fill == b->fill && a->components == b->components && a->bytes == b->bytes;
    for (int i = 0; equal && i < KVMILL_MOST_WINDOW_LOOPS; i++)
        equal = a->loop[i].extent == b->loop[i].extent && a->loop[i].from == b->loop[i].from &&
                a->loop[i].to == b->loop[i].to;
    return equal;
}

static int fit_gather(const void *kernel_shape, const void *wanted) {
    return kvmill_gather_shapes_equal(kernel_shape, wanted) ? 0 : -1;
}

/* A kernel with a fixed row length is better than one for any length. */
static int fit_scatter(const void *kernel_shape, const void *wanted) {
    const struct kvmill_scatter_shape *kernel = kernel_shape, *problem = wanted;
    if (kernel->combiner != problem->combiner || kernel->element_code != problem->element_code ||
        kernel->element_bits != problem->element_bits ||
        kernel->index_code != problem->index_code || kernel->index_bits != problem->index_bits ||
        kernel->components != problem->components)
        return -1;
    if (kernel->row == problem->row)
        return 1;
    return kernel->row == KVMILL_ANY && problem->row != 1 ? 0 : -1;
}

/* The whole program must be equal. */
static int fit_scatter_region(const void *kernel_shape, const void *wanted) {
    const struct kvmill_scatter_region_shape *kernel = kernel_shape, *problem = wanted;
    return kernel->row == problem->row && kernel->components == problem->components &&
                   kernel->index_code == problem->index_code &&
                   kernel->index_bits == problem->index_bits &&
                   strcmp(kernel->program, problem->program) == 0
               ? 0
               : -1;
}

static int fit_score(const void *kernel_shape, const void *wanted) {
    const struct kvmill_score_shape *kernel = kernel_shape, *problem = wanted;
    bool equal = kernel->kind == problem->kind && kernel->element == problem->element &&
                 kernel->dim == problem->dim && kernel->heads == problem->heads &&
                 kernel->blocks == problem->blocks && kernel->folds == problem->folds;
    for (int i = 0; equal && i < kernel->folds; i++)
        equal = kernel->fold[i].over == problem->fold[i].over &&
                kernel->fold[i].by == problem->fold[i].by;
    return equal ? 0 : -1;
}

static int fit_select(const void *kernel_shape, const void *wanted) {
    const struct kvmill_select_shape *kernel = kernel_shape, *problem = wanted;
    return kernel->score == problem->score ? 0 : -1;
}

/* The whole program must be equal. */
static int fit_flow_program(const void *kernel_shape, const void *wanted) {
    const struct kvmill_flow_program_shape *kernel = kernel_shape, *problem = wanted;
    return strcmp(kernel->program, problem->program) == 0 ? 0 : -1;
}

static int (*const fits[])(const void *kernel_shape, const void *wanted) = {
    [KVMILL_STORE_ROWS] = fit_store,
    [KVMILL_KEEP_ROWS] = fit_keep,
    [KVMILL_WRITE_ROWS] = fit_convert,
    [KVMILL_READ_ROWS] = fit_convert,
    [KVMILL_ATTEND] = fit_attend,
    [KVMILL_GATHER] = fit_gather,
    [KVMILL_SCATTER] = fit_scatter,
    [KVMILL_SCATTER_REGION] = fit_scatter_region,
    [KVMILL_SCORE_PAGES] = fit_score,
    [KVMILL_SELECT_PAGES] = fit_select,
    [KVMILL_FLOW_PROGRAM] = fit_flow_program,
};

/* Negative: the kernel cannot be used; otherwise higher is better.  The CPU is asked last, because
   virtual machines trap CPUID. */
static int fitness(const struct kernel_search *search, const struct kvmill_kernel *kernel,
                   const struct wanted *wanted) {
    int rank = kvmill_isa_rank(kernel->isa);
    if (kernel->family != wanted->family || rank < 0 || rank > search->isa_cap ||
        kernel->abi < search->abi)
        return -1;
    int fit = fits[wanted->family](kernel->shape, wanted->shape);
    return fit < 0 || !kvmill_isa_usable(kernel->isa) ? -1 : rank * MOST_FIT + fit;
}

/* The same for a kernel without constants, which serves every problem of its shape. */
static int general_fitness(const struct kernel_search *search, const struct kvmill_kernel *kernel,
                           const struct wanted *wanted) {
    return kvmill_has_constants(kernel) ? -1 : fitness(search, kernel, wanted);
}

/* ---- Several kernels that compute the same ---- */

static bool serve(const struct kernel_search *search, const struct wanted *wanted,
                  const struct by_size *by_size) {
    for (uint32_t i = 0; i < by_size->count; i++) {
        const struct kvmill_kernel *kernel = by_size->measured[i].kernel;
        if (fitness(search, kernel, wanted) < 0 ||
            kvmill_isa_level(kernel->isa) != kvmill_isa_level(by_size->kernel->isa))
            return false;
    }
    return true;
}

/* ---- Kernels with constants ---- */

/* Attend kernels differ in members that are part of the shape in other families. */
static bool are_alike(const struct kvmill_kernel *a, const struct kvmill_kernel *b) {
    const struct kvmill_attend_shape *x = a->shape, *y = b->shape;
    return strcmp(a->isa, b->isa) == 0 &&
           (a->family != KVMILL_ATTEND ||
            (x->rows == y->rows && x->math == y->math && x->terms == y->terms));
}

/* The kernels with constants that compute the same as `kernel` for certain problems. */
static void add_special(const struct kernel_search *search, const struct wanted *wanted,
                        struct by_size *by_size) {
    for (size_t p = 0; p < search->pack_count; p++)
        for (uint32_t i = 0; i < search->packs[p]->count; i++) {
            const struct kvmill_kernel *kernel = search->packs[p]->kernels[i];
            if (by_size->special_count < MOST_SPECIAL && kvmill_has_constants(kernel) &&
                fitness(search, kernel, wanted) >= 0 && are_alike(kernel, by_size->kernel))
                by_size->special[by_size->special_count++] = kernel;
        }
}

/* Select the kernel together with all kernels of its choice, or not at all. */
static struct by_size with_choice(const struct kernel_search *search, const struct wanted *wanted,
                                  const struct kvmill_kernel *kernel) {
    struct by_size by_size = {.kernel = kernel};
    for (size_t p = 0; p < search->pack_count && by_size.count == 0; p++)
        by_size = kvmill_by_size_of(search->packs[p], kernel);
    if (!serve(search, wanted, &by_size))
        by_size = (struct by_size){.kernel = kernel};
    add_special(search, wanted, &by_size);
    return by_size;
}

/* ---- One kernel ---- */

const char *kvmill_why_portable(const struct kernel_search *search) {
    if (search->portable_reason != NULL)
        return search->portable_reason;
    return search->pack_count ? "no pack has a kernel of this shape" : "no packs were given";
}

static int best_of_pack(const struct kernel_search *search, const kvmill_pack *pack,
                        const struct wanted *wanted, int best, struct selection *selection) {
    for (uint32_t i = 0; i < pack->count; i++) {
        int fit = general_fitness(search, pack->kernels[i], wanted);
        if (fit <= best)
            continue;
        best = fit;
        *selection = (struct selection){{.kernel = pack->kernels[i]}, pack->name};
    }
    return best;
}

struct selection kvmill_select_kernel(const struct kernel_search *search,
                                      const struct wanted *wanted) {
    struct selection selection = {{.kernel = wanted->portable}, kvmill_why_portable(search)};
    int best = -1;
    if (search->portable_reason != NULL)
        return selection;
    for (size_t i = 0; i < search->pack_count; i++)
        best = best_of_pack(search, search->packs[i], wanted, best, &selection);
    selection.by_size = with_choice(search, wanted, selection.by_size.kernel);
    return selection;
}

enum { SATURATING_ABI = 10 };

struct kernel_search kvmill_search_of_writer(const struct kernel_search *search,
                                             const struct kvmill_convert_shape *shape,
                                             bool saturates) {
    struct kernel_search found = *search;
    found.abi = saturates && kvmill_scale_may_overflow(shape) ? SATURATING_ABI : 0;
    return found;
}

/* ---- Kernels that attend ---- */

static const struct kvmill_attend_shape *attend_shape(const struct kvmill_kernel *kernel) {
    return kernel->shape;
}

/* The kernels of one selection must have the same level of instruction sets. */
static int level(const struct kernel_search *search, const struct kvmill_kernel *kernel,
                 const struct wanted *wanted) {
    return general_fitness(search, kernel, wanted) < 0 ? -1 : kvmill_isa_level(kernel->isa);
}

/* Between two kernels for the same number of rows: cheaper arithmetic first, then the better
   instruction set, then fewer terms. */
static int merit(const struct kvmill_kernel *kernel) {
    const struct kvmill_attend_shape *shape = attend_shape(kernel);
    return (shape->math * 64 + kvmill_isa_rank(kernel->isa)) * MOST_FIT - count_terms(shape->terms);
}

static void insert(struct attend_selection *selection, int at, const struct kvmill_kernel *kernel) {
    if (selection->count == MOST_TILES)
        return;
    memmove(selection->tiles + at + 1, selection->tiles + at,
            (size_t)(selection->count - at) * sizeof *selection->tiles);
    selection->tiles[at].kernel = kernel;
    selection->count++;
}

/* Insert a kernel by size; of two equally large ones, keep the better one, or the first. */
static void put(struct attend_selection *selection, const struct kvmill_kernel *kernel) {
    int at = 0, rows = attend_shape(kernel)->rows;
    while (at < selection->count && attend_shape(selection->tiles[at].kernel)->rows < rows)
        at++;
    if (at == selection->count || attend_shape(selection->tiles[at].kernel)->rows != rows)
        insert(selection, at, kernel);
    else if (merit(kernel) > merit(selection->tiles[at].kernel))
        selection->tiles[at].kernel = kernel;
}

static int best_level(const struct kernel_search *search, const struct wanted *wanted,
                      const char **origin) {
    int best = -1;
    for (size_t p = 0; p < search->pack_count; p++) {
        for (uint32_t i = 0; i < search->packs[p]->count; i++) {
            int found = level(search, search->packs[p]->kernels[i], wanted);
            if (found <= best)
                continue;
            best = found;
            *origin = search->packs[p]->name;
        }
    }
    return best;
}

static void collect(const struct kernel_search *search, const struct wanted *wanted, int best,
                    struct attend_selection *selection) {
    for (size_t p = 0; p < search->pack_count; p++)
        for (uint32_t i = 0; i < search->packs[p]->count; i++)
            if (level(search, search->packs[p]->kernels[i], wanted) == best)
                put(selection, search->packs[p]->kernels[i]);
}

struct attend_selection kvmill_select_attend(const struct kernel_search *search,
                                             const struct kvmill_attend_shape *shape) {
    const struct wanted wanted = {KVMILL_ATTEND, shape, &kvmill_portable_attend};
    struct attend_selection selection = {.origin = kvmill_why_portable(search)};
    int best =
        search->portable_reason == NULL ? best_level(search, &wanted, &selection.origin) : -1;
    if (best >= 0) {
        collect(search, &wanted, best, &selection);
        for (int i = 0; i < selection.count; i++)
            selection.tiles[i] = with_choice(search, &wanted, selection.tiles[i].kernel);
        return selection;
    }
    selection.portable = true;
    selection.tiles[selection.count++].kernel = wanted.portable;
    return selection;
}

/* ---- Opening ---- */

enum { FIRST_OF_0_2 = 4 }; /* kernel ABI */

static bool is_usable(uint32_t abi) {
    return abi >= KVMILL_OLDEST_KERNEL_ABI && abi <= KVMILL_KERNEL_ABI;
}

static kvmill_status refuse_abi(const struct kvmill_pack *pack, size_t place, kvmill_error *error) {
    return kvmill_fail(error, KVMILL_E_PACK,
                       "options.packs[%zu], %.80s, has kernel ABI %u%s; libkvmill %s takes %d to "
                       "%d: generate the pack again",
                       place, pack->name ? pack->name : "without a name", pack->abi,
                       pack->abi < FIRST_OF_0_2 ? " of kvmill 0.1" : "", KVMILL_VERSION,
                       KVMILL_OLDEST_KERNEL_ABI, KVMILL_KERNEL_ABI);
}

static kvmill_status check_packs(const struct kernel_search *search, kvmill_error *error) {
    if (search->pack_count > 0 && search->packs == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "options.packs is NULL; pack_count is %zu",
                           search->pack_count);
    for (size_t i = 0; i < search->pack_count; i++) {
        if (search->packs[i] == NULL)
            return kvmill_fail(error, KVMILL_E_NULL, "options.packs[%zu] is NULL", i);
        if (!is_usable(search->packs[i]->abi))
            return refuse_abi(search->packs[i], i, error);
    }
    return KVMILL_OK;
}

static kvmill_status set_least_isa(const kvmill_plan_options *options, struct kernel_search *search,
                                   kvmill_error *error) {
    kvmill_status status =
        kvmill_isa_known(options->least_isa, "options.least_isa", &search->least_isa, error);
    if (status == KVMILL_OK && search->least_isa != NULL && options->portable)
        status = kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                             "options.portable is %d and options.least_isa is %s; accepted: one of "
                             "them",
                             options->portable, search->least_isa);
    return status;
}

kvmill_status kvmill_open_search(const kvmill_plan_options *options, struct kernel_search *search,
                                 kvmill_error *error) {
    *search = (struct kernel_search){
        .packs = options->packs,
        .pack_count = options->pack_count,
        .portable_reason = options->portable ? "asked for" : NULL,
    };
    kvmill_status status = check_packs(search, error);
    if (status == KVMILL_OK)
        status = kvmill_isa_cap(options->isa, &search->isa_cap, error);
    return status == KVMILL_OK ? set_least_isa(options, search, error) : status;
}
