/* Tests the family that doc/recipes.md makes: kernel NORMS of 64 elements is chosen if it fits, and
   both this kernel and the portable one compute norms.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "../runtime/core/select.h"
#include "../runtime/portable/portable.h"

enum { ROWS = 9, DIM = 64 };

extern const struct kvmill_kernel NORMS;

static const struct kvmill_kernel *const kernels[] = {&NORMS};
static const struct kvmill_pack pack = {
    .abi = KVMILL_KERNEL_ABI, .name = "norms", .count = 1, .kernels = kernels};

static const struct kvmill_kernel *chosen(int64_t dim) {
    const struct kvmill_pack *packs[] = {&pack};
    const struct kvmill_norm_shape shape = {dim};
    const struct wanted wanted = {KVMILL_NORM_ROWS, &shape, &kvmill_portable_norm_rows};
    const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 1, .threads = 1};
    struct kernel_search search;
    if (kvmill_open_search(&options, &search, NULL) != KVMILL_OK)
        return NULL;
    return kvmill_select_kernel(&search, &wanted).by_size.kernel;
}

/* Calls the kernel for rows 1 to 7 only. */
static int computes(const struct kvmill_kernel *kernel) {
    float x[ROWS * DIM], norms[ROWS] = {-1, [ROWS - 1] = -1};
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = (float)((i * 7919) % 513 - 256) / 64;
    kernel->run(&(struct kvmill_norm_rows){x, norms, DIM}, 1, ROWS - 1);
    for (int row = 1; row < ROWS - 1; row++) {
        double sum = 0;
        for (int i = 0; i < DIM; i++)
            sum += (double)x[row * DIM + i] * (double)x[row * DIM + i];
        if (fabs((double)norms[row] - sqrt(sum)) > 1e-6 * sqrt(sum)) {
            printf("%s: row %d is %g, not %g\n", kernel->symbol, row, (double)norms[row],
                   sqrt(sum));
            return 0;
        }
    }
    return norms[0] == -1 && norms[ROWS - 1] == -1;
}

int main(void) {
    int chooses = chosen(DIM) == &NORMS && chosen(DIM + 1) == &kvmill_portable_norm_rows;
    if (!chooses)
        printf("%s is not what is chosen\n", NORMS.symbol);
    return !(chooses && computes(&NORMS) && computes(&kvmill_portable_norm_rows));
}
