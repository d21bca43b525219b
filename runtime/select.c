/* SPDX-License-Identifier: Apache-2.0 */
#include "select.h"

#include "../ops/fail.h"
#include "cpu.h"

/* Fixed fields of the kernel's shape, or -1 when one of them is not the problem's. */
static int fixed_fields(const struct kvmill_rows_shape *kernel,
                        const struct kvmill_rows_shape *problem) {
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

/* What is kept depends on neither the mode nor the shape of the update. */
static int fit_keep(const struct kvmill_rows_shape *kernel,
                    const struct kvmill_rows_shape *problem) {
    return kernel->unit_bits == problem->unit_bits ? 0 : -1;
}

/* Negative: unusable.  Higher is better. */
static int fitness(const struct kvmill_kernel *kernel, const struct wanted *wanted) {
    int rank = kvmill_isa_rank(kernel->isa);
    if (kernel->family != wanted->family || rank < 0 || rank > wanted->kvmill_isa_cap ||
        !kvmill_isa_usable(kernel->isa))
        return -1;
    int fit = kernel->family == KVMILL_KEEP_ROWS ? fit_keep(kernel->shape, wanted->shape)
                                                 : fixed_fields(kernel->shape, wanted->shape);
    return fit < 0 ? -1 : rank * 16 + fit;
}

static int best_of_pack(const kvmill_pack *pack, const struct wanted *wanted, int best,
                        struct selection *selection) {
    for (uint32_t i = 0; i < pack->count; i++) {
        int fit = fitness(pack->kernels[i], wanted);
        if (fit <= best)
            continue;
        best = fit;
        *selection = (struct selection){pack->kernels[i], pack->name};
    }
    return best;
}

struct selection kvmill_select_kernel(const kvmill_pack *const *packs, size_t pack_count,
                                      const struct wanted *wanted) {
    struct selection selection = {wanted->portable, wanted->portable_reason};
    int best = -1;
    if (wanted->portable_only)
        return selection;
    selection.origin = pack_count ? "no pack has a kernel of this shape" : "no packs were given";
    for (size_t i = 0; i < pack_count; i++)
        best = best_of_pack(packs[i], wanted, best, &selection);
    return selection;
}

kvmill_status kvmill_check_packs(const kvmill_pack *const *packs, size_t pack_count,
                                 kvmill_error *error) {
    if (pack_count > 0 && packs == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "options.packs is NULL; pack_count is %zu",
                           pack_count);
    for (size_t i = 0; i < pack_count; i++) {
        if (packs[i] == NULL)
            return kvmill_fail(error, KVMILL_E_NULL, "options.packs[%zu] is NULL", i);
        if (packs[i]->abi != KVMILL_KERNEL_ABI)
            return kvmill_fail(
                error, KVMILL_E_PACK,
                "pack %zu was made for kernel ABI %u; accepted: %d (generate it again)", i,
                packs[i]->abi, KVMILL_KERNEL_ABI);
    }
    return KVMILL_OK;
}
